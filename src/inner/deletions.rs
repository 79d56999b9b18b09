//! Deletions in the background, of nodes that are no longer needed, over as many connections as it
//! takes. Nodes that the servers refuse to delete are listed here until they are gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use log::{Level, warn};
use zookeeper::ErrorKind;

use super::claim::{Claim, Node};
use super::directories::delete_with_directory;
use super::failure::is_session_over;
use super::nodes::Nodes;
use super::quota::Charge;
use super::requests::Requests;
use crate::path::LockPath;
use crate::signal::{Broadcast, Ended};
use crate::sys::{self, Mutex};

/// The time before the deletion of a single node is tried again. A server may refuse it at once
/// again and again.
const PAUSE: Duration = Duration::from_millis(50);

/// The deletions of one client.
#[derive(Debug)]
pub(crate) struct Deletions {
    me: Weak<Deletions>,
    pub(super) requests: Arc<Requests>,
    /// Own nodes that the servers refuse to delete, by their paths.
    stuck: Mutex<BTreeMap<String, Charge>>,
    /// Sent when there is one more.
    more_stuck: Broadcast,
    under_way: AtomicUsize,
}

impl Deletions {
    pub(super) fn new(requests: Arc<Requests>) -> Arc<Deletions> {
        Arc::new_cyclic(|me| Deletions {
            me: Weak::clone(me),
            requests,
            stuck: Mutex::default(),
            more_stuck: Broadcast::new(),
            under_way: AtomicUsize::new(0),
        })
    }

    /// Returns how many deletions are under way.
    pub(super) fn count(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Deletes the nodes of a hold in the background.
    pub(super) fn delete_all(&self, nodes: &Nodes) {
        for node in &nodes.list {
            self.delete(&nodes.claim, nodes.term.session_id(), node);
        }
    }

    /// Deletes the nodes of a hold in the background, after this time.
    pub(super) fn delete_all_after(&self, time: Duration, nodes: &Arc<Nodes>) {
        let nodes = Arc::clone(nodes);
        self.run_after(time, move |me| me.delete_all(&nodes));
    }

    /// Begins a deletion after this time. It counts from now on.
    fn run_after(&self, time: Duration, begin: impl FnOnce(&Deletions) + Send + 'static) {
        let me = self.start();
        self.requests.zk.call_at(sys::now() + time, move || {
            if let Some(deletions) = me.upgrade() {
                begin(&deletions);
                deletions.under_way.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }

    /// Deletes a node of this session in the background.
    pub(crate) fn delete(&self, claim: &Claim, session: i64, node: &Node) {
        let (path, charge) = (claim.facts.path_of(node), node.charge.take());
        if claim.facts.kind.is_single_node() {
            self.delete_single(session, path, node.czxid, charge);
        } else if node.takes_directory
            && !self.requests.directories.is_later(&claim.facts.directory, node.czxid)
        {
            self.delete_with_directory(session, &claim.facts.directory, path, charge);
        } else {
            self.delete_eventually(session, path, charge);
        }
    }

    /// Deletes a node and its directory, in a transaction that is sent once. The node alone follows if
    /// that fails.
    fn delete_with_directory(
        &self,
        session: i64,
        directory: &LockPath,
        path: String,
        charge: Charge,
    ) {
        let zk = self.requests.zk.in_session(session).with_timeout(Duration::MAX);
        let known = self.requests.directories.note_missing(directory);
        let deletion = zk.submit(|batch| delete_with_directory(batch, directory, &path));
        let (me, directory) = (self.start(), directory.clone());
        deletion.on_done(move |deleted| {
            let Some(deletions) = me.upgrade() else {
                return;
            };
            match deleted {
                Err(error) if !is_session_over(&error) => {
                    sys::reached("a node is deleted in the background without its directory");
                    deletions.requests.directories.put_back(&directory, known);
                    deletions.delete_eventually(session, path, charge);
                    deletions.under_way.fetch_sub(1, Ordering::Relaxed);
                }
                deleted => deletions.finish(path, charge, deleted.map(drop)),
            }
        });
    }

    /// Deletes a node of this session, which has a name that no other client can have used.
    pub(crate) fn delete_eventually(&self, session: i64, path: String, charge: Charge) {
        let deletion = self.requests.zk.in_session(session).delete_eventually(&path);
        let me = self.start();
        deletion.on_done(move |deleted| {
            me.upgrade().inspect(|deletions| deletions.finish(path, charge, deleted));
        });
    }

    /// Deletes the single node at `path` if transaction `czxid` created it. All contenders use this
    /// name, so a deletion that is sent again could hit the node of the next owner. So each
    /// deletion follows a look at the node. The answer of a server after its answer to a write is
    /// no older than that write, and so no older than the deletion before it.
    pub(super) fn delete_single(&self, session: i64, path: String, czxid: i64, charge: Charge) {
        let zk = self.requests.zk.in_session(session).with_timeout(Duration::MAX);
        let (written, seen) = zk.submit(|batch| (batch.renew_lease(), batch.exists(&path, None)));
        drop(written);
        let me = self.start();
        // Busy servers refuse what they would carry out later. Without READ, a look shows nothing.
        let finish = move |path: String, deleted: zookeeper::Result<()>, is_refused: bool| {
            let Some(deletions) = me.upgrade() else {
                return;
            };
            let is_over = |error: &zookeeper::Error| {
                is_refused || is_session_over(error) || error.kind() == ErrorKind::NoNode
            };
            let Some(error) = deleted.as_ref().err().filter(|error| !is_over(error)) else {
                return deletions.finish(path, charge, deleted);
            };
            sys::reached("the deletion of a single node is tried again");
            let long = deletions.requests.timeout() / 4;
            let pause = if error.is_maybe_done() { PAUSE } else { long };
            deletions.run_after(pause, move |me| me.delete_single(session, path, czxid, charge));
            deletions.under_way.fetch_sub(1, Ordering::Relaxed);
        };
        seen.on_done(move |seen| match seen {
            Ok(Some(stat)) if stat.czxid == czxid => {
                sys::reached("a single node that nobody wants is ours");
                zk.submit(|batch| batch.delete(&path, None)).on_done(move |deleted| {
                    let is_refused = deleted.as_ref().is_err_and(|e| e.kind() == ErrorKind::NoAuth);
                    finish(path, deleted, is_refused);
                });
            }
            Ok(_) => {
                sys::reached("a single node that nobody wants is not ours");
                finish(path, Ok(()), false);
            }
            Err(error) => finish(path, Err(error), false),
        });
    }

    /// Counts a deletion that begins. [`finish`](Deletions::finish) has to be called at its end.
    fn start(&self) -> Weak<Deletions> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Weak::clone(&self.me)
    }

    /// Takes the last answer to a deletion.
    fn finish(&self, path: String, charge: Charge, deleted: zookeeper::Result<()>) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        // Otherwise it is deleted, or was with its session, before the answer came.
        let stays = |error: &zookeeper::Error| {
            let is_gone = is_session_over(error) || error.kind() == ErrorKind::NoNode;
            !is_gone && !error.is_maybe_done()
        };
        if let Some(error) = deleted.err().filter(stays) {
            self.add_stuck(path, charge, &error);
        }
    }

    // ---- nodes that stay

    /// Notes that a node of ours stays until its session ends, and logs that once.
    pub(super) fn add_stuck(&self, path: String, charge: Charge, error: &zookeeper::Error) {
        // The charge of an earlier node of this path is dropped without the mutex.
        let earlier = self.stuck.lock().insert(path.clone(), charge);
        if earlier.is_none() {
            sys::reached("a node of ours cannot be deleted and stays");
            self.more_stuck.send();
            let error = error.clone();
            self.requests.zk.note(Level::Warn, move || {
                warn!(
                    target: "zoolock::session", node:% = path;
                    "own node {path} stays until the session ends: {error}"
                );
            });
        }
    }

    /// Returns a signal that is ready when one more node of ours cannot be deleted.
    pub(crate) fn more_stuck(&self) -> Ended {
        self.more_stuck.listen()
    }

    /// Notes that a node is gone, or that another one is in its place.
    pub(crate) fn remove_stuck(&self, path: &str) {
        let charge = self.stuck.lock().remove(path);
        drop(charge);
    }

    /// Forgets all nodes that stay, because their session is over.
    pub(super) fn clear_stuck(&self) {
        self.stuck.lock().clear();
    }

    /// Returns whether this is a node of ours that cannot be deleted.
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
