//! Releases of holds by their owners: the nodes are deleted, or replaced by the next thread.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use log::{Level, warn};
use zookeeper::{Batch, ErrorKind, OpResult, WatchedEvent, Watcher};

use super::claim::Node;
use super::directories::{delete_with_directory, is_directory_refused};
use super::failure::{Failure, is_outcome_unknown};
use super::holds::Holds;
use super::nodes::{AfterRelease, Grant, Nodes};
use crate::error::{Error, LossReason, Result};
use crate::shortcuts::{Departing, Replacement};
use crate::sys;

/// A released node that the next thread for the same lock replaces: it deletes this node in the
/// transaction that creates its own. If it does not, the thread that released the node deletes it.
#[derive(Debug)]
pub(crate) struct Replaceable {
    pub(crate) node: Replacement,
    holds: Weak<Holds>,
    nodes: Arc<Nodes>,
    departing: Option<Departing>,
    /// The result of the release, or `None` if the fate of the node is unknown.
    result: Sender<Option<Result<()>>>,
}

impl Replaceable {
    /// Takes the answer to the transaction, and passes it to the thread that released the node.
    pub(crate) fn settle(self, deleted: zookeeper::Result<()>) {
        let is_known = deleted.as_ref().err().is_none_or(|error| !is_outcome_unknown(error));
        let (holds, departing) = (self.holds.upgrade(), self.departing.as_ref());
        let judge = |holds: Arc<Holds>| judge(&holds, &self.nodes, 0, departing, deleted);
        let result = is_known.then(|| holds.map(judge).unwrap_or(Ok(())));
        // The other thread may have stopped waiting.
        let _ = self.result.send(result);
    }
}

impl Holds {
    /// Releases a hold. Waits for the answer to its deletion for a third of the session timeout. A
    /// deletion without an answer by then is completed in the background. Returns Lost if the hold
    /// was lost before.
    pub(crate) fn release(&self, grant: &Arc<Grant>) -> Result<()> {
        grant.release_by(|| self.release_to(grant, None))
    }

    /// Like [`release`](Holds::release), where another thread may wait for the same lock. If the
    /// node was alone, `next` gets it for that thread. Does not report to the observer.
    pub(crate) fn release_to(
        &self,
        grant: &Arc<Grant>,
        next: Option<&mut dyn FnMut(Replaceable)>,
    ) -> Result<()> {
        if !self.is_last_release(grant)? {
            return Ok(());
        }
        let nodes = grant.nodes();
        let claim = &nodes.claim;
        let is_single = claim.kind.is_single_node();
        let _deleting = is_single.then(|| self.orphans.deleting(&claim.lock));
        self.registry.remove(nodes);
        let deletion = Deletion { holds: self, nodes };
        let result = match next.zip(deletion.replacement()) {
            Some((next, node)) => deletion.await_replacement(node, next),
            None => deletion.run(self.requests.patience(), false),
        };
        self.orphans.look_for_those_of(claim);
        result
    }

    /// Ends a hold. Returns whether its nodes have to be deleted, and an error if it was lost
    /// before.
    fn is_last_release(&self, grant: &Arc<Grant>) -> Result<bool> {
        let nodes = grant.nodes();
        match nodes.release(grant) {
            AfterRelease::Last => Ok(true),
            AfterRelease::Shared => Ok(false),
            AfterRelease::Reserved(until) => {
                sys::reached("a released hold is reserved");
                self.attend_at(until);
                Ok(false)
            }
            AfterRelease::Lost(reason, grants) => {
                sys::reached_if(|| grants.is_none(), "an unlock comes behind a loss");
                if let Some(grants) = grants {
                    sys::reached("an unlock notices that the lease is over");
                    self.after_loss(nodes, &grants, reason);
                }
                Err(Error::Lost { path: grant.path().to_owned(), reason })
            }
        }
    }
}

/// The deletion of the nodes of a released hold.
struct Deletion<'a> {
    holds: &'a Holds,
    nodes: &'a Arc<Nodes>,
}

impl Deletion<'_> {
    /// Returns the only node, if the next thread may replace it. The release then waits for that
    /// thread, so it must not be one in the background.
    fn replacement(&self) -> Option<Replacement> {
        let (number, claim) = (self.nodes.only_number()?, &self.nodes.claim);
        if claim.background || !self.holds.requests.is_connected() {
            return None;
        }
        let path = claim.path_of(&self.nodes.list[0]);
        Replacement::of(self.nodes.term.session_id(), path, number)
    }

    /// Notes that the nodes are about to be deleted, if there is only one, which is alone.
    fn departing(&self) -> Option<Departing> {
        let number = self.nodes.only_number()?;
        self.holds.following.departing(&self.nodes.claim.directory, number)
    }

    /// Gives the node to the next thread, and waits for the answer to the transaction that replaces
    /// it. Deletes the node if there is none.
    fn await_replacement(
        &self,
        node: Replacement,
        next: &mut dyn FnMut(Replaceable),
    ) -> Result<()> {
        let Deletion { holds, nodes } = self;
        let (result, received) = bounded(1);
        let departing = self.departing();
        let me = Weak::clone(&holds.me);
        next(Replaceable { node, holds: me, nodes: Arc::clone(nodes), departing, result });
        let end = sys::now() + holds.requests.patience();
        let is_again = match sys::recv_deadline(&received, end) {
            Ok(Some(result)) => return result,
            // The other thread may have had no more time. A deletion follows the transaction, so it
            // makes no difference whether that was carried out.
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
                holds.deletions.delete_all(nodes);
                return Ok(());
            }
        };
        self.run(end.saturating_duration_since(sys::now()), is_again)
    }

    /// Deletes the nodes. Waits for at most `patience`. With `is_again`, an earlier deletion had no
    /// answer: the node may be gone, and another one may be there since, so nothing follows from
    /// that.
    fn run(&self, patience: Duration, is_again: bool) -> Result<()> {
        let Deletion { holds, nodes } = self;
        if !holds.requests.is_connected() {
            sys::reached("an unlock has no connection");
            holds.deletions.delete_all(nodes);
            return Ok(());
        }
        match &nodes.list[..] {
            [node @ Node { takes_directory: true, .. }] if !is_again => {
                self.run_with_directory(node, patience)
            }
            _ => self.run_alone(patience, is_again),
        }
    }

    /// Deletes the only node and its directory; the node alone if only the directory is refused.
    fn run_with_directory(&self, node: &Node, patience: Duration) -> Result<()> {
        let Deletion { holds, nodes } = self;
        let end = sys::now() + patience;
        let zk = holds.requests.zk.in_session(nodes.term.session_id()).with_timeout(patience);
        let (directory, path) = (&nodes.claim.directory, nodes.claim.path_of(node));
        let shares = holds.fresh.is_likely_to_go();
        let deletion = zk.submit(|batch| delete_with_directory(batch, directory, &path, shares));
        let follow = move |deletion: &Deletion<'_>, deleted: zookeeper::Result<Vec<OpResult>>| {
            let left = end.saturating_duration_since(sys::now());
            deletion.holds.fresh.note_went(deleted.is_ok());
            match deleted {
                Err(error) if is_directory_refused(&error) => {
                    sys::reached("a directory that was made for one node stays");
                    deletion.run_alone(left, false)
                }
                deleted => {
                    let is_gone = deleted.is_ok();
                    sys::reached_if(|| is_gone, "a directory goes with its only node");
                    judge(deletion.holds, deletion.nodes, 0, None, deleted.map(drop))
                }
            }
        };
        if !nodes.claim.background {
            return follow(self, deletion.wait());
        }
        let (me, nodes) = (Weak::clone(&holds.me), Arc::clone(nodes));
        deletion.on_done(move |deleted| {
            me.upgrade().map(|holds| follow(&Deletion { holds: &holds, nodes: &nodes }, deleted));
        });
        Ok(())
    }

    fn run_alone(&self, patience: Duration, is_again: bool) -> Result<()> {
        let Deletion { holds, nodes } = self;
        let zk = holds.requests.zk.in_session(nodes.term.session_id()).with_timeout(patience);
        let departing = self.departing().filter(|_| !is_again);
        let meant = move |deleted: zookeeper::Result<()>| match deleted {
            Err(error) if is_again && error.kind() == ErrorKind::NoNode => Ok(()),
            deleted => deleted,
        };
        let deletions = zk.submit(|batch| {
            if let Some(departing) = departing.as_ref().filter(|departing| departing.watches) {
                watch_directory(holds, departing, batch);
            }
            let delete = |node| batch.shared_delete(&nodes.claim.path_of(node));
            nodes.list.iter().map(delete).collect::<Vec<_>>()
        });
        let mut outcome = Ok(());
        // Waiting for the last answer first takes a single wake-up.
        for (index, deletion) in deletions.into_iter().enumerate().rev() {
            if !nodes.claim.background {
                let deleted = meant(deletion.wait());
                outcome = outcome.and(judge(holds, nodes, index, departing.as_ref(), deleted));
                continue;
            }
            let (me, nodes) = (Weak::clone(&holds.me), Arc::clone(nodes));
            let departing = departing.clone();
            deletion.on_done(move |deleted| {
                sys::reached_if(|| deleted.is_err(), "a release in the background fails");
                // An error is counted and logged.
                me.upgrade()
                    .map(|holds| judge(&holds, &nodes, index, departing.as_ref(), meant(deleted)));
            });
        }
        outcome
    }
}

/// Watches the directory of a node that is about to be deleted. The deletion follows this.
fn watch_directory(holds: &Holds, departing: &Departing, batch: &mut Batch<'_>) {
    let (made, directory) = (departing.made, departing.directory.clone());
    let (me, ended) = (Weak::clone(&holds.me), directory.clone());
    let watcher = Watcher::new(move |_: &WatchedEvent| {
        sys::reached("a directory that was vacant has ended");
        me.upgrade().inspect(|holds| holds.following.forget(&ended, made));
    });
    let me = Weak::clone(&holds.me);
    let read = batch.get_data(departing.directory.as_str(), Some(&watcher));
    read.on_done(move |read| {
        if let (Ok(_), Some(holds)) = (read, me.upgrade()) {
            holds.following.mark_watched(&directory, made, watcher);
        }
    });
}

/// Returns the result of a release, from the answer to the deletion.
fn judge(
    holds: &Holds,
    nodes: &Nodes,
    index: usize,
    departing: Option<&Departing>,
    deleted: zookeeper::Result<()>,
) -> Result<()> {
    let (node, lock) = (&nodes.list[index], nodes.claim.lock.as_str());
    let Err(error) = deleted else {
        node.charge.give_back();
        departing.inspect(|departing| holds.following.mark_departed(departing));
        return Ok(());
    };
    match error.kind() {
        ErrorKind::NoNode => {
            sys::reached("an unlock finds its node deleted");
            node.charge.give_back();
            let reason = LossReason::NodeDeleted;
            holds.count_losses(nodes, 1, reason);
            Err(Error::Lost { path: lock.to_owned(), reason })
        }
        // The node ended with its session.
        ErrorKind::SessionExpired | ErrorKind::Closed => {
            sys::reached("an unlock finds its session over");
            node.charge.give_back();
            Ok(())
        }
        ErrorKind::NoAuth => {
            let charge = node.charge.take();
            holds.deletions.add_stuck(nodes.claim.path_of(node), charge, &error);
            Err(holds.requests.error(lock, Failure::Refused(error)))
        }
        _ => {
            sys::reached("an unlock has no answer");
            holds.deletions.delete(&nodes.claim, nodes.term.session_id(), node);
            let lock = lock.to_owned();
            holds.requests.zk.note("zoolock::session", Level::Warn, move || {
                warn!(
                    target: "zoolock::session", lock:%;
                    "the node of {lock} is deleted in the background: {error}"
                );
            });
            Ok(())
        }
    }
}
