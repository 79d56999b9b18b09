//! The end of holds by their owners, and what becomes of nodes that nobody wants any more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use log::{Level, warn};
use zookeeper::ErrorKind;

use super::failure::{Failure, may_be_done};
use super::nodes::{Claim, Grant, Left, Node, Nodes};
use super::quota::Charge;
use super::shared::Session;
use super::vacancies::Leaving;
use crate::error::{Error, LossReason, Result};
use crate::names::Number;
use crate::path::LockPath;
use crate::sys;

/// Before a deletion is tried again that is not repeated by the client below.
const PAUSE: Duration = Duration::from_millis(50);

/// The node of a hold that is over, left to the thread that waits next for the same lock: that deletes it with
/// the transaction that makes its own. If it does not, whoever left it deletes it.
#[derive(Debug)]
pub(crate) struct Departure {
    session: Weak<Session>,
    nodes: Arc<Nodes>,
    leaving: Option<Leaving>,
    /// That of the next node in its directory, if nobody has come since.
    next: Number,
    /// None if nobody knows what became of it.
    told: Sender<Option<Result<()>>>,
}

impl Departure {
    /// The session and the path of the node, and the number of the next one in its directory if nobody has
    /// come since.
    pub(crate) fn node(&self) -> (i64, String, Number) {
        let path = self.nodes.path_of(&self.nodes.list[0]);
        (self.nodes.lease.session_id, path, self.next)
    }

    /// What the answer to the transaction says.
    pub(crate) fn ends(self, deleted: zookeeper::Result<()>) {
        let known = deleted.as_ref().err().is_none_or(|error| !may_be_done(error));
        let (session, leaving) = (self.session.upgrade(), self.leaving.as_ref());
        let judge = |session: Arc<Session>| session.judge(&self.nodes, 0, leaving, deleted);
        let judged = known.then(|| session.map(judge).unwrap_or(Ok(())));
        // Nobody may wait for it.
        let _ = self.told.send(judged);
    }
}

impl Session {
    /// Ends a hold. Waits for the answer to its deletion for a third of the session timeout; what has no
    /// answer by then is deleted in the background. Lost if the hold was lost before.
    pub(crate) fn release(&self, grant: &Arc<Grant>) -> Result<()> {
        grant.end_by(|| self.release_to(grant, None))
    }

    /// [`release`](Self::release) where another thread may wait for the same lock: its node takes the place of
    /// this one, if nobody else was there. The observer is not told.
    pub(crate) fn release_to(
        &self,
        grant: &Arc<Grant>,
        next: Option<&mut dyn FnMut(Departure)>,
    ) -> Result<()> {
        let nodes = grant.nodes();
        match nodes.leave(grant) {
            Left::Shared => Ok(()),
            Left::Reserved(until) => {
                sys::reached("a released hold is reserved");
                self.attend_at(until);
                Ok(())
            }
            Left::Lost(reason, holders) => {
                sys::reached_if(|| holders.is_none(), "an unlock comes behind a loss");
                if let Some(holders) = holders {
                    sys::reached("an unlock notices that the lease is over");
                    self.after_loss(nodes, &holders, reason);
                }
                Err(Error::Lost { path: grant.path().to_owned(), reason })
            }
            Left::Last => {
                let _busy = self.busy_deleting(&nodes.claim);
                self.forget(nodes);
                // It has to be waited for, and nobody else can stand in between.
                let can_leave = !nodes.claim.background && self.is_connected();
                let number = nodes.alone().and_then(Number::next).filter(|_| can_leave);
                let deleted = match next.zip(number) {
                    Some(next) => self.leave_to(nodes, next),
                    None => self.delete(self.patience(), nodes, false),
                };
                self.look_for_orphans_of(&nodes.claim);
                deleted
            }
        }
    }

    fn leave_to(
        &self,
        nodes: &Arc<Nodes>,
        (leave, next): (&mut dyn FnMut(Departure), Number),
    ) -> Result<()> {
        let (told, answer) = bounded(1);
        let (session, leaving) = (Weak::clone(&self.me), self.leaving(nodes));
        leave(Departure { session, nodes: Arc::clone(nodes), leaving, next, told });
        let end = sys::now() + self.patience();
        let is_again = match sys::recv_deadline(&answer, end) {
            Ok(Some(deleted)) => return deleted,
            // Whoever had it to replace may have had no more time than that. A deletion comes behind the
            // transaction, and whether that was carried out makes no difference then.
            Ok(None) => {
                sys::reached("an unlock follows a transaction without an answer");
                true
            }
            Err(RecvTimeoutError::Disconnected) => {
                sys::reached("nobody replaces what a thread has left");
                false
            }
            Err(RecvTimeoutError::Timeout) => {
                sys::reached("what became of a node that was left is not told in time");
                self.delete_later(nodes);
                return Ok(());
            }
        };
        self.delete(end.saturating_duration_since(sys::now()), nodes, is_again)
    }

    /// Waits for no longer than that. What was deleted before without an answer may be gone, and nothing follows
    /// from that: another node may be there since.
    fn delete(&self, patience: Duration, nodes: &Arc<Nodes>, is_again: bool) -> Result<()> {
        if !self.is_connected() {
            sys::reached("an unlock has no connection");
            self.delete_later(nodes);
            return Ok(());
        }
        let zk = self.zk.in_session(nodes.lease.session_id).with_timeout(patience);
        let leaving = self.leaving(nodes).filter(|_| !is_again);
        let meant = move |deleted: zookeeper::Result<()>| match deleted {
            Err(error) if is_again && error.kind() == ErrorKind::NoNode => Ok(()),
            deleted => deleted,
        };
        let deletions = zk.submit(|batch| {
            if let Some(leaving) = leaving.as_ref().filter(|leaving| leaving.watches) {
                self.watch_vacancy(leaving, batch);
            }
            let delete = |node| batch.delete(&nodes.path_of(node), None);
            nodes.list.iter().map(delete).collect::<Vec<_>>()
        });
        let mut outcome = Ok(());
        // Who waits for the last one first is woken once.
        for (index, deletion) in deletions.into_iter().enumerate().rev() {
            if !nodes.claim.background {
                let deleted = meant(deletion.wait());
                outcome = outcome.and(self.judge(nodes, index, leaving.as_ref(), deleted));
                continue;
            }
            let (me, nodes, leaving) = (Weak::clone(&self.me), Arc::clone(nodes), leaving.clone());
            deletion.on_done(move |deleted| {
                sys::reached_if(|| deleted.is_err(), "a release in the background fails");
                // What went wrong is counted and logged.
                let judge = |session: Arc<Session>| {
                    session.judge(&nodes, index, leaving.as_ref(), meant(deleted))
                };
                me.upgrade().map(judge);
            });
        }
        outcome
    }

    /// What the answer to a deletion says of the hold that it was to end.
    fn judge(
        &self,
        nodes: &Nodes,
        index: usize,
        leaving: Option<&Leaving>,
        deleted: zookeeper::Result<()>,
    ) -> Result<()> {
        let (node, lock) = (&nodes.list[index], nodes.claim.lock.as_str());
        let Err(error) = deleted else {
            node.charge.give_back();
            leaving.inspect(|leaving| self.has_left(leaving));
            return Ok(());
        };
        match error.kind() {
            ErrorKind::NoNode => {
                sys::reached("an unlock finds its node deleted");
                node.charge.give_back();
                let reason = LossReason::NodeDeleted;
                self.count_losses(nodes, 1, reason);
                Err(Error::Lost { path: lock.to_owned(), reason })
            }
            // The node is gone with it.
            ErrorKind::SessionExpired | ErrorKind::Closed => {
                sys::reached("an unlock finds its session over");
                node.charge.give_back();
                Ok(())
            }
            ErrorKind::NoAuth => {
                self.cannot_delete(nodes.path_of(node), node.charge.hand_over(), &error);
                Err(self.error(lock, Failure::Refused(error)))
            }
            _ => {
                sys::reached("an unlock has no answer");
                self.give_up(&nodes.claim, nodes.lease.session_id, node);
                let lock = lock.to_owned();
                self.zk.note("zoolock::session", Level::Warn, move || {
                    warn!(
                        target: "zoolock::session", lock:%;
                        "the node of {lock} is deleted in the background: {error}"
                    );
                });
                Ok(())
            }
        }
    }

    /// Deletes nodes of a hold in the background, over as many connections as it takes.
    pub(super) fn delete_later(&self, nodes: &Nodes) {
        for node in &nodes.list {
            self.give_up(&nodes.claim, nodes.lease.session_id, node);
        }
    }

    /// Deletes a node of this session in the background.
    pub(crate) fn give_up(&self, claim: &Claim, session: i64, node: &Node) {
        let (path, charge) = (claim.directory.child(&node.name), node.charge.hand_over());
        match claim.is_single() {
            false => self.delete_eventually(session, path, charge),
            true => self.delete_single(session, path, node.czxid, charge),
        }
    }

    /// Deletes a node that nobody else can have made, and that is of this session.
    pub(crate) fn delete_eventually(&self, session: i64, path: String, charge: Charge) {
        let deletion = self.zk.in_session(session).delete_eventually(&path);
        let me = self.deletion_begins();
        deletion.on_done(move |deleted| {
            if let Some(session) = me.upgrade() {
                session.deletion_ends(path, charge, deleted);
            }
        });
    }

    /// Deletes a single node if it is the one that this transaction has made: its name does not say so, and a
    /// deletion that is sent again could meet the next owner's. What the same server says behind the answer to a
    /// write is no older than that, and so than the deletion before.
    pub(super) fn delete_single(&self, session: i64, path: String, czxid: i64, charge: Charge) {
        let zk = self.zk.in_session(session).with_timeout(Duration::MAX);
        let (written, read) = zk.submit(|batch| (batch.renew_lease(), batch.get_data(&path, None)));
        drop(written);
        let me = self.deletion_begins();
        read.on_done(move |read| {
            let Some(this) = me.upgrade() else {
                return;
            };
            let version = match read {
                Ok((_, stat)) if stat.czxid == czxid => {
                    sys::reached("a single node that nobody wants is ours");
                    stat.version
                }
                Ok(_) => {
                    sys::reached("a single node that nobody wants is not ours");
                    return this.deletion_ends(path, charge, Ok(()));
                }
                Err(error) if error.is_maybe_done() => {
                    sys::reached("a look at a single node has no answer");
                    return this.delete_single_again(session, path, czxid, charge);
                }
                Err(error) => return this.deletion_ends(path, charge, Err(error)),
            };
            let deletion = zk.submit(|batch| batch.delete(&path, Some(version)));
            deletion.on_done(move |deleted| {
                let Some(this) = me.upgrade() else {
                    return;
                };
                let again = |error: &zookeeper::Error| {
                    sys::reached_if(
                        || error.is_maybe_done(),
                        "the deletion of a single node has no answer",
                    );
                    error.is_maybe_done() || error.kind() == ErrorKind::BadVersion
                };
                match deleted.as_ref().is_err_and(again) {
                    true => this.delete_single_again(session, path, czxid, charge),
                    false => this.deletion_ends(path, charge, deleted),
                }
            });
        });
    }

    /// A little later, since a server may refuse it at once again and again.
    fn delete_single_again(&self, session: i64, path: String, czxid: i64, charge: Charge) {
        let me = Weak::clone(&self.me);
        self.zk.call_at(sys::now() + PAUSE, move || {
            if let Some(this) = me.upgrade() {
                this.delete_single(session, path, czxid, charge);
                this.counters.deleting.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }

    fn deletion_begins(&self) -> Weak<Session> {
        self.counters.deleting.fetch_add(1, Ordering::Relaxed);
        Weak::clone(&self.me)
    }

    fn deletion_ends(&self, path: String, charge: Charge, deleted: zookeeper::Result<()>) {
        self.counters.deleting.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = deleted {
            match error.kind() {
                ErrorKind::NoNode => sys::reached("a deletion in the background finds nothing"),
                ErrorKind::SessionExpired | ErrorKind::Closed => {}
                // Its session was over before the answer came.
                _ if error.is_maybe_done() => {}
                _ => self.cannot_delete(path, charge, &error),
            }
        }
    }

    /// Notes that a node of ours stays until its session ends, and says so once.
    fn cannot_delete(&self, path: String, charge: Charge, error: &zookeeper::Error) {
        // That of an earlier node of this path goes without the mutex.
        let earlier = self.stuck.lock().insert(path.clone(), charge);
        if earlier.is_none() {
            sys::reached("a node of ours cannot be deleted and stays");
            self.has_stuck.send();
            let error = error.clone();
            self.zk.note("zoolock::session", Level::Warn, move || {
                warn!(
                    target: "zoolock::session", node:% = path;
                    "own node {path} stays until the session ends: {error}"
                );
            });
        }
    }

    /// Somebody could delete the node, since it is not there, or another one in its place.
    pub(crate) fn is_gone(&self, path: &str) {
        let charge = self.stuck.lock().remove(path);
        drop(charge);
    }

    /// Is this a node of ours that cannot be deleted?
    pub(crate) fn is_stuck(&self, path: &str) -> bool {
        self.stuck.lock().contains_key(path)
    }

    /// Returns the names of own nodes in a directory that cannot be deleted, as far as is known.
    pub(crate) fn stuck_in(&self, directory: &LockPath) -> Vec<String> {
        let stuck = self.stuck.lock();
        if stuck.is_empty() {
            return Vec::new();
        }
        let above = directory.child("");
        let below = stuck.range(above.clone()..).map_while(|(path, _)| path.strip_prefix(&above));
        below.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }
}
