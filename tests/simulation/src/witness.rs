//! Records the truth: the servers' tree, the true time and every hold. Reports each violation of a guarantee.

mod calls;
mod holds;
pub(crate) mod lists;
pub(crate) mod mutexes;
pub(crate) mod outages;
mod tree;
mod turns;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) use calls::{cancels, in_order, may_not_delete, waits, waits_no_more};
pub(crate) use holds::{
    Held, ended, former, granted, has_here, holds_here, is_first, is_lost, is_sure, lasts, left,
    listened, may_be_lost, may_hold_here,
};
use kernel::Process;
pub(crate) use tree::{parent, stood};
pub use turns::identity;
pub(crate) use turns::{
    Left, NodeId, asks, given, heard, id_of, is_there, number_of_a_write, says, turn, turns,
    unchecked_turn, wrote,
};
use zookeeper_testing::ensemble::Committed;

use crate::client::board;
use crate::plan::{Kind, Place};

/// Node for guarded writes.
pub const DATA: &str = "/data";
/// Second member of every multi-lock.
pub const SECOND: &str = "/several";
/// Path that every multi-lock reads.
pub const READ: &str = "/several-read";
/// Node that is named like a part of a semaphore but is not one.
pub(crate) const FOLDER: &str = "/folder";
/// Start of paths that are longer than those of most locks.
pub(crate) const LONG: &str = "/x";
/// In a healthy run, a waiter gets a free lock within this time, or within that of this many frames if it is longer.
const SOON: Duration = Duration::from_millis(500);
const FRAMES: u32 = 10;
/// Time that a thread of a busy machine needs to enter a queue.
const LATE: Duration = Duration::from_millis(50);
/// Number of session timeouts after which a client has looked at nodes whose events it missed.
const UNTOLD: u32 = 5;

/// Start of the identities of lock objects. Those of threads start otherwise.
const NAMED: &str = "object ";

/// A session and a thread.
type Maker = (i64, String);

#[derive(Debug, Clone)]
struct Node {
    owner: i64,
    czxid: i64,
    made: Duration,
    /// The node's first data.
    said: String,
    /// The session that created it, or 0.
    by: i64,
    is_written: bool,
    /// Number of contenders that were ahead of it then.
    ahead: usize,
}

impl Node {
    /// Returns the session and the thread that created the node. The data of a single node starts with an id.
    fn maker(&self) -> Maker {
        let thread = self.said.split_once(' ').filter(|(id, _)| id.len() == 36);
        (self.owner, thread.map_or(&*self.said, |(_, thread)| thread).to_owned())
    }
}

/// The queue of a lock: its place, and a number for each kind of queue there.
pub(crate) type QueueId = (Place, usize);

/// What is known of a queue's exclusive holds.
#[derive(Default)]
struct Queue {
    newest: usize,
    /// Version of the data of guarded writes after the last one by a holder.
    written: i32,
}

#[derive(Debug, Clone, Copy)]
struct Gone {
    /// Somebody other than its client deleted it or ended its session.
    by_somebody: bool,
    /// Others were ahead of it then, so it cannot have been granted.
    was_behind: bool,
}

#[derive(Default)]
pub(crate) struct Witness {
    held: BTreeMap<usize, Held>,
    /// Processes that have begun to close their clients.
    closing: BTreeSet<Process>,
    nodes: BTreeMap<String, Node>,
    gone: BTreeMap<String, Gone>,
    /// Nodes that could not be read for a while.
    pub(crate) hidden: BTreeSet<String>,
    /// Those of them that were deleted since: servers told no client of that.
    untold: BTreeSet<String>,
    /// Last transaction in each directory that created a node or deleted one that is not a contender.
    last_change: BTreeMap<String, i64>,
    /// Number of nodes that each session has created.
    made: BTreeMap<i64, u64>,
    /// Nodes that an operator is about to delete.
    pub(crate) broken: BTreeSet<String>,
    /// Locks and nodes of holds that have ended. Reads and writes are left out because they may share a node.
    former: Vec<(String, NodeId)>,
    /// When each place was last given back.
    ended_at: BTreeMap<Place, Duration>,
    /// When each process last gave a lost hold of this kind back.
    lost_at: BTreeMap<holds::Level, Duration>,
    pub(crate) expired: BTreeSet<i64>,
    /// Sessions of dead processes that a reaper ends, and not before this time.
    reaped: BTreeMap<i64, Duration>,
    queues: BTreeMap<QueueId, Queue>,
    /// Queues of all exclusive holds.
    exclusive: BTreeMap<usize, QueueId>,
    /// Nodes that somebody has asked for, and those whose holders know of it.
    asked: BTreeSet<NodeId>,
    /// When the servers have first carried out a request for a node.
    requested: BTreeMap<NodeId, Duration>,
    heard: BTreeSet<NodeId>,
    /// Number of guarded writes.
    writes: usize,
    /// The data of those that were carried out, and of those that were reported not to be.
    written: BTreeSet<String>,
    not_written: BTreeSet<String>,
    /// Nodes with a guarded write that got no answer.
    unanswered: BTreeSet<NodeId>,
    /// Number of turns with each node, by its queue and token, and how many turns the last owner allows.
    turns: BTreeMap<(QueueId, u64), (u32, Option<u32>)>,
    /// Nodes that a thread has released or handed over, and that no other thread has taken since.
    pub left: BTreeMap<NodeId, Left>,
    /// When the owner of each node's last turn began to give it back.
    given: BTreeMap<NodeId, Duration>,
    /// Nodes that have to stay until this time.
    reserved: BTreeMap<String, Duration>,
    pub is_gentle: bool,
    /// No client is ever cut off.
    pub is_steady: bool,
    pub is_undisturbed: bool,
    /// Longest delay of a frame.
    pub slowest: Duration,
    /// How old answers may be.
    pub lag: Duration,
    /// Limit on the nodes of one client in a queue.
    pub most_nodes: usize,
    /// Limit on the unanswered creates of one client.
    pub most_creates: usize,
    /// How many times an operator will delete the nodes of several locks.
    pub robberies: usize,
    /// Nodes that somebody else has deleted or whose session an operator has ended, with these sessions.
    robbed: BTreeSet<(i64, String)>,
    sessions: BTreeMap<i64, Process>,
    connected_at: BTreeMap<Process, Duration>,
    waiting: BTreeMap<usize, calls::Waiting>,
    /// No fault delays anybody.
    pub is_well: bool,
    version: i32,
    /// Strangers create contenders with any number.
    pub has_strangers: bool,
    /// Nodes that strangers take away when they like.
    pub planted: BTreeSet<String>,
    /// Number of watch events that clients got, and of nodes of sessions that have ended.
    pub events: u64,
    pub ends: u64,
    pub has_hidden: bool,
    pub healed_at: Option<Duration>,
    pub timeout: Duration,
    /// When the last node of each maker below each directory was created and deleted.
    left_at: BTreeMap<String, BTreeMap<Maker, (Duration, Duration)>>,
    pub calls: u64,
    were: BTreeSet<NodeId>,
    outages: outages::Outages,
    /// No answer takes so long that a call or a lease ends before.
    pub is_quick: bool,
}

thread_local! {
    static WITNESS: RefCell<Witness> = RefCell::new(Witness::default());
    static VIOLATIONS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn witness<T>(act: impl FnOnce(&mut Witness) -> T) -> T {
    WITNESS.with_borrow_mut(act)
}

pub(crate) fn reset() {
    witness(|witness| *witness = Witness::default());
    VIOLATIONS.take();
}

/// Returns the violations of the run and the number of calls for locks.
pub(crate) fn finish() -> (Vec<String>, u64) {
    let Witness { calls, held, .. } = WITNESS.take();
    // The holds are leaked because the world of their clients has ended.
    std::mem::forget(held);
    (VIOLATIONS.take(), calls)
}

/// Records a violation. It may be called while the witness looks.
pub(crate) fn violation(text: String) {
    kernel::note(|| format!("VIOLATION: {text}"));
    VIOLATIONS.with_borrow_mut(|all| all.push(text));
}

pub(crate) fn has_violations() -> bool {
    VIOLATIONS.with_borrow(|all| !all.is_empty())
}

/// Reports what is wrong, if anything is.
fn judged(judge: impl FnOnce(&mut Witness) -> Option<String>) {
    witness(judge).into_iter().for_each(violation);
}

/// Returns the queue of a lock. Locks of one queue exclude each other.
pub(crate) fn queue(kind: Kind, place: Place) -> QueueId {
    match kind {
        Kind::Single => (place, 1),
        Kind::Semaphore => (place, 2),
        _ => (place, 0),
    }
}

/// Returns the version of the data of guarded writes, and the version after the last write by holders of this lock.
pub(crate) fn version(kind: Kind, place: Place) -> (i32, i32) {
    witness(|witness| {
        let left = witness.queues.get(&queue(kind, place)).map_or(0, |queue| queue.written);
        (witness.version, left)
    })
}

pub(crate) fn is_any(path: &str) -> bool {
    witness(|witness| witness.nodes.contains_key(path))
}

/// Returns the number of nodes that a session has created, and the number that all others have.
pub(crate) fn made(session: i64) -> (u64, u64) {
    witness(|witness| {
        let own = witness.made.get(&session).copied().unwrap_or_default();
        (own, witness.made.values().sum::<u64>() - own)
    })
}

pub(crate) fn owner(path: &str) -> Option<i64> {
    witness(|witness| witness.nodes.get(path).map(|node| node.owner))
}

/// Records that a process is about to close its client, which ends its sessions.
pub(crate) fn closes(process: Process) {
    witness(|witness| witness.closing.insert(process));
}

/// Records that the session of a process that dies now must not end before this time, unless somebody else ends it.
pub(crate) fn reaps(session: i64, margin: Duration) {
    witness(|witness| witness.reaped.insert(session, kernel::elapsed() + margin));
}

pub(crate) fn node_of(process: Process) -> Option<String> {
    witness(|witness| {
        let is_its =
            |node: &Node| node.owner != 0 && witness.sessions.get(&node.owner) == Some(&process);
        let mut nodes = witness.nodes.iter();
        nodes.find(|(_, node)| is_its(node)).map(|(path, _)| path.clone())
    })
}

/// Returns whether an operator deletes the nodes of several locks now.
pub(crate) fn takes_robbery() -> bool {
    witness(|witness| {
        let left = witness.robberies.checked_sub(1);
        witness.robberies = left.unwrap_or_default();
        left.is_some()
    })
}

/// Notes that a place has more permits than before.
pub(crate) fn freed(place: Place) {
    witness(|witness| witness.ended_at.insert(place, kernel::elapsed()));
}

/// Returns the number of permits of the semaphore at a place.
pub fn limit(place: Place) -> u32 {
    place.0 as u32 % 3 + 1
}

/// Records that an operator is about to end this session. Its client takes a while to get another one.
pub(crate) fn expires(session: i64) {
    kernel::note(|| format!("== somebody ends session {session:#x}"));
    witness(|witness| {
        witness.is_well = false;
        witness.expired.insert(session);
    });
}

pub(crate) fn has_session(process: Process, session: i64) {
    witness(|witness| {
        witness.sessions.insert(session, process);
        witness.connected_at.insert(process, kernel::elapsed());
    });
}

pub(crate) fn asks_for_nodes(process: Process, count: usize) {
    let most = witness(|witness| witness.most_creates);
    let is_raw = || board(|board| !board.sessions.contains_key(&process));
    if count > most && !is_raw() {
        violation(format!("client {} sends {count} creates without an answer", process.0));
    }
}

/// Checks that a client that gets no answers has lost its nodes after five timeouts.
pub(crate) fn is_deaf(process: Process) {
    let (nodes, time) = witness(|witness| {
        let own = witness.held.values().filter(|held| held.process == process);
        let nodes = own.flat_map(|held| &held.nodes).filter_map(|(path, _)| {
            // The path may have another node by now.
            let node = witness.nodes.get(path).filter(|node| node.owner != 0)?;
            Some((path.clone(), node.czxid as u64))
        });
        (nodes.collect::<Vec<NodeId>>(), witness.timeout * 5)
    });
    kernel::after(time, move || {
        if witness(|witness| witness.healed_at.is_some()) {
            return;
        }
        for (path, token) in nodes.iter().filter(|node| is_there(node)) {
            violation(format!("{path} ({token:#x}) is there, and its client hears nothing"));
        }
    });
}

pub(crate) fn committed(one: &Committed) {
    witness(|witness| {
        witness.committed(one);
        let until = witness.reaped.get(&one.session).filter(|_| one.is_close);
        if until.is_some_and(|until| kernel::elapsed() < *until)
            && !witness.expired.contains(&one.session)
        {
            violation(format!("session {:#x} has ended within its margin", one.session));
        }
    });
}
