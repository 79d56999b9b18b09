//! Records the true state of a run: the servers' tree, the time and all holds. Reports violated promises.

mod acquisitions;
mod calls;
mod holds;
pub(crate) mod lists;
pub(crate) mod mutexes;
pub(crate) mod outages;
mod tree;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use acquisitions::identity;
pub(crate) use acquisitions::{
    Left, NodeId, acquisition, acquisitions, id_of, is_there, number_of_a_write, received_request,
    says, unchecked_acquisition, wrote,
};
pub(crate) use calls::{cancels, in_order, may_not_delete, waits, waits_no_more};
pub(crate) use holds::{
    Held, ended, former, granted, has_here, holds_here, is_first, is_lost, is_sure, lasts, left,
    listened, may_be_lost, may_hold_here,
};
use kernel::Process;
pub(crate) use tree::{parent, stood};
use zookeeper_testing::ensemble::Committed;

use crate::client::board;
use crate::plan::{Kind, Place};

/// The node for guarded writes.
pub const DATA: &str = "/data";
/// The path of the second member of every multi-lock.
pub const SECOND: &str = "/several";
/// The path of the read lock that is a member of every multi-lock.
pub const READ: &str = "/several-read";
/// A node whose name resembles that of a semaphore's directories.
pub(crate) const FOLDER: &str = "/folder";
/// The beginning of paths that are longer than those of most locks.
pub(crate) const LONG: &str = "/x";
/// In a run without delays, a waiter acquires a free lock within this time, or within the time for `FRAMES` frames.
const SOON: Duration = Duration::from_millis(500);
const FRAMES: u32 = 10;
/// How long a thread on a busy machine may need to enter a queue.
const LATE: Duration = Duration::from_millis(50);
/// After this many session timeouts, a client has checked the nodes whose events it has missed.
const UNTOLD: u32 = 5;

/// The first word of the identities of lock objects. The identities of threads begin with another word.
const NAMED: &str = "object ";

/// The creator of a node: a session and a thread.
type Maker = (i64, String);

#[derive(Debug, Clone)]
struct Node {
    owner: i64,
    czxid: i64,
    made: Duration,
    /// The data of the node when it was created.
    said: String,
    /// The session that created the node, or 0.
    by: i64,
    is_written: bool,
    /// How many contenders were ahead of the node when it was created.
    ahead: usize,
}

impl Node {
    /// Returns the node's creator. The data of an `EphemeralLock` begin with an id, which is skipped.
    fn maker(&self) -> Maker {
        let thread = self.said.split_once(' ').filter(|(id, _)| id.len() == 36);
        (self.owner, thread.map_or(&*self.said, |(_, thread)| thread).to_owned())
    }
}

/// A lock's queue: its place, and a number for the kind of the queue at that place.
pub(crate) type QueueId = (Place, usize);

/// What the monitor knows about the exclusive holds of a queue.
#[derive(Default)]
struct Queue {
    newest: usize,
    /// The version of the guarded data after a holder's last write.
    written: i32,
}

#[derive(Debug, Clone, Copy)]
struct Gone {
    /// Whether the node was deleted, or its session was ended, by someone other than its client.
    by_somebody: bool,
    /// Whether others were ahead of the node, so that it cannot have been granted.
    was_behind: bool,
}

#[derive(Default)]
pub(crate) struct Monitor {
    held: BTreeMap<usize, Held>,
    /// Processes that have begun to close their client.
    pub(crate) closing: BTreeSet<Process>,
    nodes: BTreeMap<String, Node>,
    gone: BTreeMap<String, Gone>,
    /// Nodes that clients could not read for a while.
    pub(crate) hidden: BTreeSet<String>,
    /// Hidden nodes that have been deleted, of which the servers did not notify any client.
    untold: BTreeSet<String>,
    /// For each directory, the last transaction that created a node in it, or deleted a node that is not a contender's.
    last_change: BTreeMap<String, i64>,
    /// Nodes that an operator is about to delete.
    pub(crate) broken: BTreeSet<String>,
    /// The locks and nodes of holds that have ended. Reads and writes are not included, because they may share a node.
    former: Vec<(String, NodeId)>,
    /// For each place, when a hold was last released or the limit of permits was last raised.
    pub(crate) ended_at: BTreeMap<Place, Duration>,
    /// When each process last released a lost hold, by the kind and place of the lock.
    lost_at: BTreeMap<holds::Level, Duration>,
    pub(crate) expired: BTreeSet<i64>,
    /// For each reaper, until when the margin of its dead process lasts.
    pub(crate) margins: BTreeMap<Process, Duration>,
    queues: BTreeMap<QueueId, Queue>,
    /// For each exclusive hold, its queue.
    exclusive: BTreeMap<usize, QueueId>,
    /// Nodes for which a revocation was requested.
    pub(crate) asked: BTreeSet<NodeId>,
    /// For each node, when the servers first applied a revocation request.
    requested: BTreeMap<NodeId, Duration>,
    /// Nodes whose holders have received the revocation request.
    received_requests: BTreeSet<NodeId>,
    /// The number of guarded writes so far.
    writes: usize,
    /// The data of writes that were applied, and of writes that were reported as not applied.
    written: BTreeSet<String>,
    not_written: BTreeSet<String>,
    /// The nodes of holds with a guarded write that received no answer.
    unanswered: BTreeSet<NodeId>,
    /// For each queue and token: the number of acquisitions with that node, and how many its last owner allows.
    acquisitions: BTreeMap<(QueueId, u64), (u32, Option<u32>)>,
    /// Nodes that a thread has released or handed over, and that no other thread has taken over yet.
    pub left: BTreeMap<NodeId, Left>,
    /// For each node, when the owner of the latest acquisition began to release it.
    pub(crate) given: BTreeMap<NodeId, Duration>,
    /// Nodes that must exist until the given time.
    reserved: BTreeMap<String, Duration>,
    pub is_gentle: bool,
    /// Whether no client is disconnected at any time.
    pub is_steady: bool,
    pub is_undisturbed: bool,
    /// The longest time by which a frame is delayed.
    pub slowest: Duration,
    /// How old the state shown by an answer may be.
    pub lag: Duration,
    /// The limit on the unanswered creates of a client.
    pub most_creates: usize,
    /// How many more times an operator will delete the nodes of a multi-lock.
    pub robberies: usize,
    /// Nodes that someone other than their client deleted, or whose session an operator ended, each with its session.
    robbed: BTreeSet<(i64, String)>,
    sessions: BTreeMap<i64, Process>,
    /// For each process, when it last obtained a session or a connection, and the session.
    connected: BTreeMap<Process, (Duration, i64)>,
    /// Sessions that have ended.
    pub(crate) closed: BTreeSet<i64>,
    waiting: BTreeMap<usize, calls::Waiting>,
    /// Whether the run has no faults that cause delays.
    pub is_well: bool,
    version: i32,
    /// Whether strangers create contenders' nodes with arbitrary numbers.
    pub has_strangers: bool,
    /// Nodes that strangers have created and may delete at any time.
    pub planted: BTreeSet<String>,
    pub has_hidden: bool,
    pub healed_at: Option<Duration>,
    pub timeout: Duration,
    /// For each directory and creator, when the creator's last node was created and when it was deleted.
    left_at: BTreeMap<String, BTreeMap<Maker, (Duration, Duration)>>,
    were: BTreeSet<NodeId>,
    outages: outages::Outages,
    /// Whether every answer arrives before a call or a lease ends because of its delay.
    pub is_quick: bool,
}

thread_local! {
    static MONITOR: RefCell<Monitor> = RefCell::new(Monitor::default());
    static VIOLATIONS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn monitor<T>(act: impl FnOnce(&mut Monitor) -> T) -> T {
    MONITOR.with_borrow_mut(act)
}

pub(crate) fn reset() {
    monitor(|monitor| *monitor = Monitor::default());
    VIOLATIONS.take();
}

/// Returns the violations of the run.
pub(crate) fn finish() -> Vec<String> {
    // The holds are leaked, because the simulated world of their clients has ended.
    std::mem::forget(MONITOR.take().held);
    VIOLATIONS.take()
}

/// Records a violation. This may be called even while the monitor is in use.
pub(crate) fn violation(text: String) {
    kernel::note(|| format!("VIOLATION: {text}"));
    VIOLATIONS.with_borrow_mut(|all| all.push(text));
}

pub(crate) fn has_violations() -> bool {
    VIOLATIONS.with_borrow(|all| !all.is_empty())
}

/// Runs a check, and reports the problem that it returns, if any.
fn check(check: impl FnOnce(&mut Monitor) -> Option<String>) {
    monitor(check).into_iter().for_each(violation);
}

/// Returns the queue that locks of this kind and place use. Locks that use the same queue exclude each other.
pub(crate) fn queue(kind: Kind, place: Place) -> QueueId {
    match kind {
        Kind::Single => (place, 1),
        Kind::Semaphore => (place, 2),
        _ => (place, 0),
    }
}

/// Returns the current version of the guarded data, and the version after the last write by holders of this lock.
pub(crate) fn version(kind: Kind, place: Place) -> (i32, i32) {
    monitor(|monitor| {
        let left = monitor.queues.get(&queue(kind, place)).map_or(0, |queue| queue.written);
        (monitor.version, left)
    })
}

/// Returns the session that owns the node at a path, or 0 if the node is persistent, or `None` if there is no node.
pub(crate) fn owner(path: &str) -> Option<i64> {
    monitor(|monitor| monitor.nodes.get(path).map(|node| node.owner))
}

pub(crate) fn node_of(process: Process) -> Option<String> {
    monitor(|monitor| {
        let is_its =
            |node: &Node| node.owner != 0 && monitor.sessions.get(&node.owner) == Some(&process);
        let mut nodes = monitor.nodes.iter();
        nodes.find(|(_, node)| is_its(node)).map(|(path, _)| path.clone())
    })
}

/// Returns the number of permits of the semaphore at a place.
pub fn limit(place: Place) -> u32 {
    place.0 as u32 % 3 + 1
}

/// Records that an operator is about to end this session. Its client will need some time to obtain another one.
pub(crate) fn expires(session: i64) {
    kernel::note(|| format!("== an operator ends session {session:#x}"));
    monitor(|monitor| {
        monitor.is_well = false;
        monitor.expired.insert(session);
    });
}

pub(crate) fn has_session(process: Process, session: i64) {
    monitor(|monitor| {
        monitor.sessions.insert(session, process);
        monitor.connected.insert(process, (kernel::elapsed(), session));
    });
}

pub(crate) fn asks_for_nodes(process: Process, count: usize) {
    let most = monitor(|monitor| monitor.most_creates);
    let is_raw = || board(|board| !board.sessions.contains_key(&process));
    if count > most && !is_raw() {
        violation(format!("client {} sends {count} creates without an answer", process.0));
    }
}

/// Checks that the session of a client that receives nothing has ended after this time.
pub(crate) fn is_deaf(process: Process, time: Duration) {
    let session = monitor(|monitor| monitor.connected.get(&process).map(|(_, session)| *session));
    kernel::after(time, move || {
        check(|monitor| {
            let is_its = |session: &i64| *session != 0 && !monitor.closed.contains(session);
            let session = session.filter(is_its).filter(|_| monitor.healed_at.is_none())?;
            let who = process.0;
            Some(format!("session {session:#x} lives, and client {who} receives nothing"))
        });
    });
}

pub(crate) fn committed(one: &Committed) {
    monitor(|monitor| {
        monitor.committed(one);
        monitor.closed.extend(one.is_close.then_some(one.session));
    });
}

pub(crate) fn connects(process: Process) {
    let margin = monitor(|monitor| monitor.margins.get(&process).copied());
    if margin.is_some_and(|until| kernel::elapsed() < until) {
        violation(format!("reaper {} connects within the margin", process.0));
    }
}
