//! The nodes of a client on the servers: from before their create requests are sent, until it is
//! certain that the servers do not have them. The [table](crate::session::table) decides what has
//! to be done; this module sends the requests.
//!
//! An orphan is an unanswered create request that its call has given up. Its node may exist, or
//! appear later, and would block all other contenders. Therefore, the client looks for the node.
//! One *look* covers all orphans of one [`Place`], that is, of a session and a path. It either
//! lists a lock's directory, where the names contain the ids, or reads a single node, whose data
//! contain one id. The last look for an orphan follows a `sync`, so that its result includes the
//! state of the leader.
//!
//! Before a call creates nodes, it waits until the orphans of this connection were looked for. This
//! does not delay the call, because the answer to its own request would not arrive earlier. As a
//! result, if a server is stalled, calls with short deadlines leave one create request per thread,
//! and not one per call.
//!
//! Nodes that are no longer needed are deleted in the background, over as many connections as
//! necessary. If the servers refuse to delete a node, it stays until its session ends.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{Level, warn};
use zookeeper::{Batch, ErrorKind, Pending};

use super::directories::deletions;
use super::facts::{Facts, Node};
use super::later::{Timer, on_done};
use super::nodes::Nodes;
use super::requests::{Failure, Requests, is_session_over};
use super::table::{Key, Look, Table, Unanswered};
use crate::base::data;
use crate::base::error::{Error, Result};
use crate::base::names;
use crate::base::path::LockPath;
use crate::base::signal::Broadcast;
use crate::base::sys::{self, Mutex};
use crate::base::wait::Until;

/// The maximum size of all node paths of one client, in bytes. The transaction that closes the
/// client's session contains all these paths, and a server that cannot read it fails to restart
/// (ZOOKEEPER-4306). Servers from 3.6 on read up to the sum of `jute.maxbuffer` and
/// `zookeeper.jute.maxbuffer.extrasize`: 2,097,150 bytes by default, and at least 1,049,599 if only
/// the second is set. Earlier servers do not list the paths in the transaction. The transaction has
/// a header of 48 bytes. An eighth of a megabyte is kept in reserve.
const MAX_PATH_BYTES: usize = 896 * 1024;
/// The maximum number of bytes that the name of a numbered node adds to its directory's path:
/// `/_c_`, an id of 36 characters, a marker such as `-__WRIT__`, and eleven characters for the
/// number.
const NAME_BYTES: usize = 60;
/// The size of the length field before each path.
const LENGTH_BYTES: usize = 4;

/// The pause before the client tries again to delete a single node. It is necessary because a
/// server may refuse each attempt at once.
const PAUSE: Duration = Duration::from_millis(50);

/// The *place* of nodes: their session and their path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) session: i64,
    /// The directory of the nodes, or a single node.
    path: LockPath,
    is_single: bool,
}

impl Place {
    pub(crate) fn of(session: i64, facts: &Facts) -> Place {
        let is_single = facts.kind.is_single_node();
        let path = if is_single { &facts.lock } else { &facts.directory };
        Place { session, path: path.clone(), is_single }
    }

    /// Returns the path of a node with this name in this place.
    pub(crate) fn path_of(&self, name: &str) -> String {
        match self.is_single {
            true => self.path.as_str().to_owned(),
            false => self.path.child(name),
        }
    }
}

/// The nodes that a look has found, by the ids of their create requests: the name of each, and its
/// czxid if it is the node of a single-node lock (otherwise 0).
type Seen<'a> = HashMap<&'a str, (&'a str, i64)>;

/// All nodes of a client.
#[derive(Debug)]
pub(crate) struct OwnNodes {
    pub(super) requests: Arc<Requests>,
    pub(crate) table: Mutex<Table<Place, Instant>>,
    /// Sent when some nodes are no longer orphans.
    changed: Broadcast,
    /// Sent when the servers have refused to delete one more node.
    pub(crate) more_stuck: Broadcast,
    timer: Timer,
}

impl OwnNodes {
    pub(super) fn new(requests: Arc<Requests>) -> Arc<OwnNodes> {
        Arc::new(OwnNodes {
            requests,
            table: Mutex::new(Table::new(MAX_PATH_BYTES)),
            changed: Broadcast::default(),
            more_stuck: Broadcast::default(),
            timer: Timer::default(),
        })
    }

    // ---- nodes of calls

    /// Enters `count` nodes in the table, whose create requests are about to be sent. The caller
    /// has to report each of them later as [unanswered](OwnNodes::no_answer),
    /// [deleted](OwnNodes::delete) or [gone](OwnNodes::gone). Before that, waits until the orphans
    /// of this connection, which other calls gave up, were looked for.
    pub(crate) fn enter(
        &self,
        place: &Place,
        count: usize,
        until: &Until,
    ) -> Result<Range<Key>, Failure> {
        let name = if place.is_single { 0 } else { NAME_BYTES };
        let bytes = self.requests.zk.root().len() + place.path.as_str().len() + name + LENGTH_BYTES;
        loop {
            let changed = self.changed.listen();
            let mut table = self.table.lock();
            if !table.has_orphan_of(self.requests.epoch()) {
                let keys = table.enter(place, bytes, count);
                let what = "bytes of node paths of one client";
                return Ok(keys.ok_or(Error::LimitExceeded { what, max: MAX_PATH_BYTES })?);
            }
            drop(table);
            let waited = until.wait_for(&changed, self.requests.closed());
            waited.map_err(Failure::NotSent)?;
        }
    }

    /// Notes that the servers do not have these nodes.
    pub(crate) fn gone(&self, keys: impl IntoIterator<Item = Key>) {
        let mut table = self.table.lock();
        keys.into_iter().for_each(|key| table.gone(key));
    }

    /// Turns these unanswered create requests into orphans, and looks for them at once. With `due`,
    /// gives up only those whose time is over at that instant. Removes them from `unanswered`.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        place: &Place,
        unanswered: &mut Vec<Key>,
        due: Option<Instant>,
    ) {
        if unanswered.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        let is_due = |create: &Unanswered<Instant>| due.is_none_or(|due| create.until <= due);
        let given_up = unanswered.extract_if(.., |key| table.unanswered(*key).is_none_or(is_due));
        let given_up: Vec<_> = given_up.collect();
        let until = given_up.iter().filter_map(|key| table.give_up(*key)).min();
        if self.requests.is_closed() {
            table.forget(|_| true);
        }
        drop(table);
        if let Some(until) = until {
            self.attend_at(until);
            self.look_for(|other, _| other == place);
        }
    }

    /// Forgets the nodes of a session that is over, or all nodes.
    pub(super) fn forget(&self, session: Option<i64>) {
        let is_over = |place: &Place| session.is_none_or(|session| session == place.session);
        self.table.lock().forget(is_over);
        self.changed.send();
    }

    // ---- orphans

    /// Looks for all orphans on a new connection, and wakes the calls that wait for looks on the
    /// previous one. If the session of an orphan is already over, the look detects that the orphan
    /// is gone.
    pub(super) fn on_connected(self: &Arc<Self>) {
        self.changed.send();
        self.look_for(|_, _| true);
    }

    /// Schedules [`attend`](OwnNodes::attend) at this instant or earlier.
    fn attend_at(self: &Arc<Self>, when: Instant) {
        self.timer.set(when, &self.requests, self, OwnNodes::attend);
    }

    /// Looks for the orphans whose time is over.
    fn attend(self: &Arc<Self>, due: Instant) {
        if !self.timer.fires(due) {
            return;
        }
        let now = sys::now();
        self.look_for(|_, until| until <= now);
        let next = self.table.lock().due();
        if let Some(next) = next {
            self.attend_at(next.max(now + self.requests.timeout() / 4));
        }
    }

    /// Looks for the orphans that `is_wanted` selects, by their place and the instant when their
    /// time is over. Does nothing without a connection, because the next connection looks for all
    /// orphans.
    pub(super) fn look_for(self: &Arc<Self>, is_wanted: impl Fn(&Place, Instant) -> bool) {
        if !self.requests.is_connected() {
            return;
        }
        let looks = self.table.lock().look_for(sys::now(), is_wanted);
        looks.into_iter().for_each(|(place, look)| self.look(place, look));
    }

    /// Sends a look.
    fn look(self: &Arc<Self>, place: Place, look: Look<Instant>) {
        let zk = self.requests.zk.in_session(place.session).with_timeout(Duration::MAX);
        let path = place.path.clone();
        // The `sync` is answered before the read. If the `sync` was refused, the result of the read
        // is not used.
        let sync = |batch: &mut Batch<'_>| look.is_last.then(|| batch.sync(path.as_str()));
        let caught_up = |synced: Option<Pending<()>>| synced.map_or(Ok(()), Pending::wait);
        if place.is_single {
            let (synced, read) =
                zk.submit(|batch| (sync(batch), batch.get_data(path.as_str(), None)));
            return on_done(read, self, move |own, read| {
                let read = caught_up(synced).and(read);
                let found = read.as_ref().map(|(data, stat)| {
                    let id = data::decode_single(data).map(|(id, _)| id);
                    id.map(|id| (id, (path.split().1, stat.czxid))).into_iter().collect()
                });
                own.on_looked(place, found);
            });
        }
        let (synced, listed) =
            zk.submit(|batch| (sync(batch), batch.get_children(path.as_str(), None)));
        on_done(listed, self, move |own, listed| {
            let node = |name| Some((names::id_of(name)?, (name, 0)));
            let listed = caught_up(synced).and(listed);
            let listed = listed.as_ref();
            let found = listed.map(|(names, _)| names.iter().filter_map(node).collect());
            own.on_looked(place, found);
        });
    }

    /// Handles the answer to a look.
    fn on_looked(self: &Arc<Self>, place: Place, found: Result<Seen<'_>, &zookeeper::Error>) {
        let (found, is_answered) = match found {
            Ok(found) => (Some(found), true),
            Err(error) => match error.kind() {
                ErrorKind::NoNode => (Some(HashMap::new()), true),
                // The orphans ended with the session.
                _ if is_session_over(error) => {
                    sys::reached("orphans have ended with their session");
                    return self.forget(Some(place.session));
                }
                // An overloaded server may answer with an error like that of a broken connection.
                _ => (None, !error.is_maybe_done() || self.requests.is_connected()),
            },
        };
        let (epoch, now) = (self.requests.epoch(), sys::now());
        let later = now + self.requests.timeout();
        let shown = found.as_ref().map(|found| |id: &str| found.get(id).copied());
        let (found, next) =
            self.table.lock().looked(&place, shown, is_answered, epoch, [now, later]);
        for (key, (name, czxid)) in found {
            let node = Node { key, name: name.into(), czxid, token: 0, takes_directory: false };
            self.send_deletion(place.clone(), node);
        }
        self.changed.send();
        if let Some(look) = next {
            self.look(place, look);
        }
    }

    // ---- deletions

    /// Deletes the nodes of a hold in the background.
    pub(super) fn delete_all(self: &Arc<Self>, nodes: &Nodes) {
        nodes.list.iter().for_each(|node| self.delete(node));
    }

    /// Deletes the nodes of a hold in the background, after `time`.
    pub(super) fn delete_all_after(self: &Arc<Self>, time: Duration, nodes: &Nodes) {
        let mut table = self.table.lock();
        let begin = |node: &Node| Some((table.delete(node.key)?, node.clone()));
        let begun: Vec<_> = nodes.list.iter().filter_map(begin).collect();
        drop(table);
        self.requests.call_at(sys::now() + time, self, move |own| {
            begun.into_iter().for_each(|(place, node)| own.send_deletion(place, node));
        });
    }

    /// Deletes a node in the background.
    pub(crate) fn delete(self: &Arc<Self>, node: &Node) {
        let place = self.table.lock().delete(node.key);
        place.into_iter().for_each(|place| self.send_deletion(place, node.clone()));
    }

    fn send_deletion(self: &Arc<Self>, place: Place, node: Node) {
        let known = self.requests.directories.get(&place.path);
        // If the directory was created again since, it is not the one that contained the node.
        let is_later = known.is_some_and(|directory| directory.czxid > node.czxid);
        if place.is_single {
            self.delete_single(place, node);
        } else if node.takes_directory && !is_later {
            self.delete_with_directory(place, node);
        } else {
            self.delete_eventually(place, node);
        }
    }

    /// Deletes a node and its directory, in a transaction that is sent once. If that fails, only
    /// the node is deleted.
    fn delete_with_directory(self: &Arc<Self>, place: Place, node: Node) {
        let zk = self.requests.zk.in_session(place.session).with_timeout(Duration::MAX);
        let known = self.requests.directories.note_missing(&place.path);
        let path = place.path_of(&node.name);
        let deletion = zk.submit(|batch| batch.shared_multi(&deletions(&place.path, &path)));
        on_done(deletion, self, move |own, deleted| match deleted {
            Err(error) if !is_session_over(&error) => {
                own.requests.directories.put_back(&place.path, known);
                own.delete_eventually(place, node);
            }
            deleted => own.finish(&place, &node, deleted.map(drop)),
        });
    }

    /// Deletes a node of this session, whose name other clients cannot have used.
    fn delete_eventually(self: &Arc<Self>, place: Place, node: Node) {
        let zk = self.requests.zk.in_session(place.session);
        let deletion = zk.delete_eventually(&place.path_of(&node.name));
        on_done(deletion, self, move |own, deleted| match deleted {
            Err(error) if error.is_maybe_done() => {
                let again = move |own: &Arc<OwnNodes>| own.delete_eventually(place, node);
                own.requests.call_at(own.requests.next_try(), own, again);
            }
            deleted => own.finish(&place, &node, deleted),
        });
    }

    /// Deletes a single node, unless another one has replaced it. All contenders use its name; if a
    /// deletion was simply sent again, it could delete the next owner's node. Therefore, the node
    /// is read before each deletion. The read follows a write on the same connection. Its result is
    /// at least as new as that write, and therefore at least as new as the previous deletion.
    fn delete_single(self: &Arc<Self>, place: Place, node: Node) {
        let zk = self.requests.zk.in_session(place.session).with_timeout(Duration::MAX);
        let path = place.path_of(&node.name);
        let (written, seen) = zk.submit(|batch| (batch.renew_lease(), batch.exists(&path, None)));
        on_done(seen, self, move |own, seen| match written.wait().and(seen) {
            Ok(Some(stat)) if stat.czxid == node.czxid => {
                let deletion = zk.submit(|batch| batch.delete(&path, None));
                on_done(deletion, own, move |own, deleted| match deleted {
                    Err(error) if error.kind() != ErrorKind::NoAuth => {
                        own.delete_single_again(place, node, error);
                    }
                    deleted => own.finish(&place, &node, deleted),
                });
            }
            // Our node is gone.
            Ok(_) => own.gone([node.key]),
            // Without the READ permission, the read fails.
            Err(error) => own.delete_single_again(place, node, error),
        });
    }

    fn delete_single_again(self: &Arc<Self>, place: Place, node: Node, error: zookeeper::Error) {
        if is_session_over(&error) || error.kind() == ErrorKind::NoNode {
            return self.gone([node.key]);
        }
        let is_short = error.is_maybe_done() || error.is_busy();
        let pause = if is_short { PAUSE } else { self.requests.timeout() / 4 };
        let again = move |own: &Arc<OwnNodes>| own.delete_single(place, node);
        self.requests.call_at(sys::now() + pause, self, again);
    }

    /// Handles the last answer to a deletion.
    fn finish(&self, place: &Place, node: &Node, deleted: zookeeper::Result<()>) {
        // If `stays` is false, the node no longer exists: it was deleted, or ended with its
        // session.
        let stays =
            |error: &zookeeper::Error| !is_session_over(error) && error.kind() != ErrorKind::NoNode;
        match deleted.err().filter(stays) {
            Some(error) => self.add_stuck(&place.path_of(&node.name), node, &error),
            None => self.gone([node.key]),
        }
    }

    // ---- nodes that stay

    /// Notes that the servers refuse to delete one of our nodes, and logs that once.
    pub(super) fn add_stuck(&self, path: &str, node: &Node, error: &zookeeper::Error) {
        if self.table.lock().stays(node.key, &node.name) {
            self.more_stuck.send();
            let (path, error) = (path.to_owned(), error.clone());
            self.requests.zk.note(Level::Warn, move || {
                warn!(
                    target: "zoolock::session", node:% = path;
                    "failed to delete own node {path}, which stays until the session ends: {error}"
                );
            });
        }
    }
}
