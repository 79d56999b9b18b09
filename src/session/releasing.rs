//! Releases holds for their owners: the nodes are deleted, or the next thread replaces them.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{RecvTimeoutError, bounded};
use log::{Level, warn};
use zookeeper::{ErrorKind, Pending, ZooKeeper};

use super::directories::deletions;
use super::facts::Node;
use super::holds::Holds;
use super::later::on_done;
use super::levels::{Handed, Replaceable};
use super::local::Turn;
use super::nodes::{AfterRelease, Grant, Nodes};
use super::own::Place;
use super::requests::{Failure, is_session_over};
use crate::base::error::{Error, LossReason, Result};
use crate::base::sys;

/// Releases a hold. Waits for the answer to the deletion of its nodes for at most a third of the
/// session timeout. If the deletion is not answered in that time, it is completed in the
/// background. Returns `Lost` if the hold was already lost.
pub(crate) fn release(holds: &Arc<Holds>, grant: &Arc<Grant>) -> Result<()> {
    grant.release_by(|| release_to(holds, grant, None))
}

/// Like [`release`], but with the turn of the in-process queue, which ends with the release. If a
/// thread waits in that queue and the node was alone, that thread gets the node. Does not report to
/// the observer.
pub(crate) fn release_to(
    holds: &Arc<Holds>,
    grant: &Arc<Grant>,
    turn: Option<Turn<'_, Arc<Grant>, Handed>>,
) -> Result<()> {
    let nodes = grant.nodes();
    if nodes.term.is_copy() {
        return grant.check();
    }
    match nodes.release(grant) {
        AfterRelease::Last => {}
        AfterRelease::Shared => return Ok(()),
        AfterRelease::Reserved(until) => {
            holds.attend_at(until);
            return Ok(());
        }
        AfterRelease::Lost(reason) => {
            holds.lose(nodes, reason);
            return grant.check();
        }
    }
    holds.registry.remove(nodes);
    let deletion = Deletion { holds, nodes, end: sys::now() + holds.requests.patience() };
    let (result, turn) = match turn {
        Some(turn) if turn.has_next(u32::MAX) && deletion.may_be_replaced() => {
            (deletion.await_replacement(turn), None)
        }
        turn => (deletion.run(false), turn),
    };
    // Orphans may block other contenders of this lock.
    holds.own.look_for(|place, _| *place == Place::of(place.session, &nodes.facts));
    drop(turn);
    result
}

/// The deletion of the nodes of a released hold.
struct Deletion<'a> {
    holds: &'a Arc<Holds>,
    nodes: &'a Arc<Nodes>,
    /// The release waits for answers until this instant.
    end: Instant,
}

impl Deletion<'_> {
    fn zk(&self) -> ZooKeeper {
        let left = self.end.saturating_duration_since(sys::now());
        let session = self.nodes.term.session_id();
        self.holds.requests.zk.in_session(session).with_timeout(left)
    }

    /// Returns whether the next thread may replace the only node. The release then waits for that
    /// thread; therefore, it must not be a release in the background.
    fn may_be_replaced(&self) -> bool {
        self.nodes.with_directory().is_some()
            && sys::shortcuts()
            && !self.nodes.facts.options.background_release
            && self.holds.requests.is_connected()
    }

    /// Hands the node over to the next thread, and waits for the answer to the transaction that
    /// replaces the node. Deletes the node if it is not replaced.
    fn await_replacement(&self, turn: Turn<'_, Arc<Grant>, Handed>) -> Result<()> {
        let Deletion { holds, nodes, end } = *self;
        let (replaced, received) = bounded(1);
        turn.hand_over(Handed::Replaceable(Replaceable { nodes: Arc::clone(nodes), replaced }));
        let is_again = match sys::recv_deadline(&received, end) {
            Ok(true) => return Ok(()),
            // The other thread may have reached its deadline before its transaction was answered.
            // Because the deletion below is sent later, the outcome of that transaction does not
            // matter.
            Ok(false) => true,
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => {
                sys::reached("the result of replacing a node arrives too late");
                holds.own.delete_all(nodes);
                return Ok(());
            }
        };
        self.run(is_again)
    }

    /// Deletes the nodes, and waits for the answers. With `is_again`, an earlier deletion remained
    /// unanswered. In that case, the node may already be gone, and its directory may
    /// contain another node; neither is an error.
    fn run(&self, is_again: bool) -> Result<()> {
        let Deletion { holds, nodes, .. } = self;
        if !holds.requests.is_connected() {
            holds.own.delete_all(nodes);
            return Ok(());
        }
        match nodes.with_directory().filter(|_| !is_again) {
            Some(node) => self.run_with_directory(node),
            None => self.run_alone(is_again),
        }
    }

    /// Deletes the only node and its directory. If the servers refuse only to delete the directory,
    /// deletes only the node.
    fn run_with_directory(&self, node: &Node) -> Result<()> {
        let Deletion { holds, nodes, .. } = self;
        let (directory, path) = (&nodes.facts.directory, nodes.facts.path_of(node));
        let known = holds.requests.directories.note_missing(directory);
        let deletion = self.zk().submit(|batch| batch.shared_multi(&deletions(directory, &path)));
        self.then(deletion, move |deletion, deleted| {
            let Deletion { holds, nodes, .. } = deletion;
            let (directory, directories) = (&nodes.facts.directory, &holds.requests.directories);
            match deleted {
                // The transaction failed only because of the directory. A separate request can
                // delete the node.
                Err(error) if error.failed_op() == Some(1) => {
                    directories.put_back(directory, known);
                    match error.kind() {
                        // The list shows whether other programs, which may need the directory, have
                        // nodes there.
                        ErrorKind::NotEmpty => holds.requests.list(directory, drop),
                        _ => directories.change(directory, |known| known.stays = true),
                    }
                    deletion.run_alone(false)
                }
                deleted => deletion.judge(0, deleted.map(drop)),
            }
        })
    }

    /// Calls `go_on` with the answer: on this thread, or in the background if the lock is released
    /// there.
    fn then<T: Send + 'static>(
        &self,
        answer: Pending<T>,
        go_on: impl FnOnce(&Deletion<'_>, zookeeper::Result<T>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        if !self.nodes.facts.options.background_release {
            return go_on(self, answer.wait());
        }
        let (nodes, end) = (Arc::clone(self.nodes), self.end);
        on_done(answer, self.holds, move |holds, answer| {
            // An error is counted and logged.
            drop(go_on(&Deletion { holds, nodes: &nodes, end }, answer));
        });
        Ok(())
    }

    fn run_alone(&self, is_again: bool) -> Result<()> {
        let nodes = self.nodes;
        let meant = move |deleted: zookeeper::Result<()>| match deleted {
            Err(error) if is_again && error.kind() == ErrorKind::NoNode => Ok(()),
            deleted => deleted,
        };
        let deletions = self.zk().submit(|batch| {
            let delete = |node| batch.shared_delete(&nodes.facts.path_of(node));
            nodes.list.iter().map(delete).collect::<Vec<_>>()
        });
        let mut outcome = Ok(());
        // The thread waits for the last answer first, so that it is woken only once.
        for (index, deletion) in deletions.into_iter().enumerate().rev() {
            outcome =
                outcome.and(self.then(deletion, move |deletion, deleted| {
                    deletion.judge(index, meant(deleted))
                }));
        }
        outcome
    }

    /// Returns the result of a release for this answer to the deletion.
    fn judge(&self, index: usize, deleted: zookeeper::Result<()>) -> Result<()> {
        let Deletion { holds, nodes, .. } = self;
        let (node, lock) = (&nodes.list[index], nodes.facts.lock.as_str());
        let Err(error) = deleted else {
            holds.own.gone([node.key]);
            return Ok(());
        };
        match error.kind() {
            ErrorKind::NoNode => {
                holds.own.gone([node.key]);
                let reason = LossReason::NodeDeleted;
                holds.count_losses(nodes, 1, reason);
                Err(Error::Lost { path: lock.to_owned(), reason })
            }
            // The node ended with its session.
            _ if is_session_over(&error) => {
                sys::reached("an unlock finds that its session has ended");
                holds.own.gone([node.key]);
                Ok(())
            }
            ErrorKind::NoAuth => {
                holds.own.add_stuck(&nodes.facts.path_of(node), node, &error);
                Err(holds.requests.error(lock, Failure::Refused(error)))
            }
            _ => {
                holds.own.delete(node);
                let lock = lock.to_owned();
                holds.requests.zk.note(Level::Warn, move || {
                    warn!(
                        target: "zoolock::session", lock:%;
                        "the release of {lock} is not confirmed, and continues in the background: {error}"
                    );
                });
                Ok(())
            }
        }
    }
}
