//! Records the truth: the servers' tree, the true time and every hold. Reports each violation of a guarantee.

pub(crate) mod aborts;
pub(crate) mod circles;
pub(crate) mod delays;
pub(crate) mod events;
pub(crate) mod mutexes;
pub(crate) mod outages;
mod tree;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use kernel::Process;
use zookeeper::testing::ensemble::Committed;
use zoolock::{Error, Hold, HoldState, LossReason, Result};
use zoolock_judge::Unlocked;

use crate::client::{SLACK, board};
use crate::histories;
use crate::network::World;
use crate::plan::{Kind, Place};

/// Node for guarded writes.
pub(crate) const DATA: &str = "/data";
/// Second member of every multi-lock.
pub(crate) const SECOND: &str = "/several";
/// Path that every multi-lock reads.
pub(crate) const READ: &str = "/several-read";
/// Node that is named like a part of a semaphore but is not one.
pub(crate) const FOLDER: &str = "/folder";
/// Start of paths that are longer than those of most locks.
pub(crate) const LONG: &str = "/x";
/// In a healthy run, a waiter gets a free lock within this time, or within the time of this many frames if that is
/// longer.
const SOON: Duration = Duration::from_millis(500);
const FRAMES: u32 = 10;
/// Time that a thread of a busy machine needs to enter a queue.
const LATE: Duration = Duration::from_millis(50);
/// Number of session timeouts after which a client has looked at nodes whose events it missed.
const UNTOLD: u32 = 5;

/// Start of the identities of lock objects. Those of threads start otherwise.
const NAMED: &str = "object ";

/// How a hold excludes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Alone,
    Shared,
    Permits(u32),
}

/// A granted hold.
pub(crate) struct Held {
    pub process: Process,
    pub who: String,
    pub kind: Kind,
    pub place: Place,
    pub mode: Mode,
    /// All holds of a grant: several permits have one each.
    pub holds: Vec<Hold>,
    pub nodes: Vec<String>,
    pub token: u64,
    granted: Duration,
    /// When it ends by itself, at the earliest and at the latest.
    lasts: Option<(Duration, Duration)>,
    /// The owner is giving it back, or knows that it is over.
    has_left: bool,
    /// Somebody else has deleted its node or ended its session, so the owner may not know yet.
    is_doubtful: bool,
}

/// A session and a thread.
type Maker = (i64, String);

/// A node of the tree.
#[derive(Debug, Clone)]
struct Node {
    owner: i64,
    czxid: i64,
    made: Duration,
    /// The node's first data.
    said: String,
    /// The session that created it, or 0.
    by: i64,
    /// Somebody has set its data.
    is_written: bool,
    /// No earlier node had its path.
    is_first: bool,
}

impl Node {
    /// Returns the session and the thread that created the node. The data of a single node starts with an id.
    fn maker(&self) -> Maker {
        let thread = self.said.split_once(' ').filter(|(id, _)| id.len() == 36);
        (self.owner, thread.map_or(&*self.said, |(_, thread)| thread).to_owned())
    }
}

/// The queue of a lock: its place, and a number for each kind of queue there.
type QueueOf = (Place, u8);

/// A call that may wait.
struct Waiting {
    process: Process,
    /// Index of the object that the call is for, unless it has an object for itself.
    object: Option<usize>,
    kind: Kind,
    place: Place,
    mode: Mode,
    begun: Duration,
    /// When somebody deleted its turn.
    turnless: Option<Duration>,
    /// It is about to return.
    is_cancelled: bool,
}

/// How a node ended.
#[derive(Debug, Clone, Copy)]
struct Gone {
    /// Somebody other than its client deleted it or ended its session.
    by_somebody: bool,
    /// Others were ahead of it then, so it cannot have been granted.
    was_behind: bool,
}

/// A node that was kept when its turn ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub process: Process,
    /// Number of connections that the client had made.
    pub connections: u64,
    pub since: Duration,
}

#[derive(Default)]
pub(crate) struct Witness {
    pub violations: Vec<String>,
    held: BTreeMap<usize, Held>,
    last: usize,
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
    /// Paths of all nodes that are or were there.
    paths: BTreeSet<String>,
    /// Nodes that an operator is about to delete.
    pub(crate) broken: BTreeSet<String>,
    /// Locks, nodes and tokens of holds that have ended. Reads and writes are left out because they may share a node.
    former: Vec<(String, String, u64)>,
    /// When each place was last given back.
    ended_at: BTreeMap<Place, Duration>,
    /// When each process last gave a lost hold of this kind back.
    lost_at: BTreeMap<(Process, Kind, Place), Duration>,
    /// Sessions that an operator has ended.
    pub(crate) expired: BTreeSet<i64>,
    pub dead: BTreeSet<Process>,
    highest: BTreeMap<(Place, bool), u64>,
    /// Nodes that somebody has asked for, with their tokens, and those whose holders know of it.
    asked: BTreeSet<(String, u64)>,
    heard: BTreeSet<(String, u64)>,
    /// Nodes with a guarded write that got no answer.
    unanswered: BTreeSet<(String, u64)>,
    /// Number of turns with each node, by its queue and token, and how many turns the last owner allows.
    turns: BTreeMap<(QueueOf, u64), (u32, Option<u32>)>,
    pub kept: BTreeMap<(String, u64), Kept>,
    /// When the owner of each node's last turn began to give it back.
    given: BTreeMap<(String, u64), Duration>,
    /// Nodes that have to stay until this time.
    reserved: BTreeMap<String, Duration>,
    /// Last exclusive hold of each queue.
    newest: BTreeMap<(Place, u8), usize>,
    queues: BTreeMap<usize, (Place, u8)>,
    pub is_gentle: bool,
    /// No client is ever cut off.
    pub is_steady: bool,
    /// The run has no faults.
    pub is_undisturbed: bool,
    /// Longest delay of a frame.
    pub slowest: Duration,
    /// Limit on the nodes of one client in a queue.
    pub most_nodes: usize,
    /// Limit on the unanswered creates of one client.
    pub most_creates: usize,
    /// How many times an operator will delete the nodes of several locks.
    pub robberies: usize,
    /// Nodes that somebody else has deleted or whose session an operator has ended, with these sessions.
    robbed: BTreeSet<(i64, String)>,
    /// The process of each session.
    sessions: BTreeMap<i64, Process>,
    /// When each process got its last session.
    connected_at: BTreeMap<Process, Duration>,
    /// Calls that may wait.
    waiting: BTreeMap<usize, Waiting>,
    /// Calls whose turn was deleted in this transaction, with their sessions.
    turnless: Vec<(usize, i64)>,
    /// No fault delays anybody.
    pub is_well: bool,
    /// Holds whose nodes were deleted in this transaction, and whether the node was hidden.
    deleted: Vec<(usize, bool)>,
    /// Version of the data of guarded writes, and the version after each queue's last write by an exclusive holder.
    version: i32,
    written: BTreeMap<(Place, u8), i32>,
    /// Strangers create contenders with any number.
    pub has_strangers: bool,
    /// Nodes that strangers take away when they like.
    pub planted: BTreeSet<String>,
    /// Number of watch events that clients got, and of nodes of sessions that have ended.
    pub events: u64,
    pub ends: u64,
    /// Some nodes could not be read for a while.
    pub has_hidden: bool,
    /// All faults are over.
    pub is_healed: bool,
    pub(crate) healed_at: Option<Duration>,
    /// Longest session timeout.
    pub timeout: Duration,
    /// When the last node of each maker below each directory was created and deleted.
    left_at: BTreeMap<String, BTreeMap<Maker, (Duration, Duration)>>,
    pub is_calm: bool,
    pub calls: u64,
    circles: circles::Circles,
    locks: events::Locks,
    /// Decides which clients with locks follow the events of all locks.
    pub(crate) follows: Option<u64>,
    aborts: aborts::Aborts,
    outages: outages::Outages,
    delays: delays::Delays,
    /// No answer takes so long that a call or a lease ends before.
    pub is_quick: bool,
}

thread_local! {
    static WITNESS: RefCell<Witness> = RefCell::new(Witness::default());
}

pub(crate) fn witness<T>(act: impl FnOnce(&mut Witness) -> T) -> T {
    WITNESS.with_borrow_mut(act)
}

/// Clears the witness for the next run.
pub(crate) fn reset() {
    witness(|witness| *witness = Witness::default());
}

/// Returns the violations of the run and the number of calls for locks.
pub(crate) fn finish() -> (Vec<String>, u64) {
    let Witness { violations, calls, held, .. } = WITNESS.take();
    // The holds are leaked because the world of their clients has ended.
    std::mem::forget(held);
    (violations, calls)
}

/// Records a violation.
pub(crate) fn violation(text: String) {
    kernel::note(|| format!("VIOLATION: {text}"));
    witness(|witness| witness.violations.push(text));
}

fn conflict(one: Mode, other: Mode) -> bool {
    !matches!((one, other), (Mode::Shared, Mode::Shared) | (Mode::Permits(_), Mode::Permits(_)))
}

/// Returns the queue of a lock. Locks of one queue exclude each other.
fn queue(kind: Kind, place: Place) -> QueueOf {
    match kind {
        Kind::Single => (place, 1),
        Kind::Semaphore => (place, 2),
        _ => (place, 0),
    }
}

/// Returns the kind whose first level a lock of this kind uses.
fn level(kind: Kind) -> Kind {
    match kind {
        Kind::Several | Kind::Leadership => Kind::Exclusive,
        kind => kind,
    }
}

fn is_held(held: &Held) -> Option<bool> {
    kernel::peek(held.process, || held.holds.iter().all(Hold::is_held))
}

/// Returns whether its process takes a hold for lost. `None` if the look would have to wait for another thread.
fn knows_loss(held: &Held) -> Option<bool> {
    let is_lost = |hold: &Hold| matches!(hold.state(), HoldState::Lost(_));
    kernel::peek(held.process, || held.holds.iter().any(is_lost))
}

/// Returns the full path of a hold's node.
pub(crate) fn path_of(kind: Kind, hold: &Hold) -> String {
    match kind {
        Kind::Single => hold.path().to_owned(),
        Kind::Semaphore => format!("{}/leases/{}", hold.path(), hold.node()),
        _ => format!("{}/{}", hold.path(), hold.node()),
    }
}

impl Held {
    /// Creates an entry for a hold of the running thread's process.
    pub(crate) fn new(who: String, kind: Kind, place: Place, mode: Mode, holds: Vec<Hold>) -> Held {
        let (process, _) = kernel::whoami();
        let nodes = holds.iter().map(|hold| path_of(kind, hold)).collect();
        let token = holds.first().map_or(0, |hold| hold.fencing_token());
        Held {
            process,
            who,
            kind,
            place,
            mode,
            holds,
            nodes,
            token,
            granted: kernel::elapsed(),
            lasts: None,
            has_left: false,
            is_doubtful: false,
        }
    }
}

/// Records and checks a grant. `begun` is the time of the call. `under` is the thread's write hold for a read below it.
pub(crate) fn granted(mut held: Held, begun: Duration, under: Option<usize>) -> usize {
    kernel::note(|| format!("has {} ({:?}), token {:#x}", held.place, held.kind, held.token));
    let now = kernel::elapsed();
    let problems = witness(|witness| {
        let mut problems = Vec::new();
        let limit = limit(held.place);
        let mut permits = match held.mode {
            Mode::Permits(count) => count,
            _ => 0,
        };
        for (path, token) in held.nodes.iter().zip(held.holds.iter().map(Hold::fencing_token)) {
            // Its client may take a new directory for the one that it knew to be empty.
            held.is_doubtful |= witness.untold.contains(parent(path));
            match witness.nodes.get(path) {
                Some(node) if node.czxid as u64 == token => {}
                // A read below a write has the token of the write.
                Some(_) if under.is_some() => {}
                // Somebody deleted its own node, and the next node has the same name.
                Some(_) if witness.is_robbed(held.process, path) => held.is_doubtful = true,
                Some(node) if is_held(&held) == Some(true) => problems.push(format!(
                    "{} has {path} with another token than its node, made by {:#x}",
                    held.who, node.czxid
                )),
                // The hold ended before the grant was recorded, for example with its client.
                Some(_) => {}
                None => match witness.gone.get(path) {
                    // Another node of that name may have come and gone since.
                    Some(gone) if gone.by_somebody || witness.is_robbed(held.process, path) => {
                        held.is_doubtful = true;
                        if gone.was_behind && under.is_none() && is_held(&held) == Some(true) {
                            problems.push(format!(
                                "{} has {path}, which was deleted when others were ahead of it",
                                held.who
                            ));
                        }
                    }
                    _ if is_held(&held) == Some(true) => {
                        problems.push(format!("{} has {path}, which is not there", held.who));
                    }
                    _ => {}
                },
            }
        }
        for (number, other) in &witness.held {
            let is_other = queue(other.kind, other.place) == queue(held.kind, held.place)
                && Some(*number) != under
                && !other.has_left
                && !other.is_doubtful
                && !witness.dead.contains(&other.process);
            match is_held(other) {
                _ if other.has_left => {}
                Some(false) => histories::lost(*number),
                // The look would have to wait for another thread, so the state of the hold is unknown.
                None => histories::doubted(*number),
                Some(true) => {}
            }
            if !is_other || is_held(other) == Some(false) {
                continue;
            }
            if let (Mode::Permits(count), true) = (other.mode, is_held(other) == Some(true)) {
                permits += count;
            }
            let both = is_held(other) == Some(true) && is_held(&held) == Some(true);
            if conflict(held.mode, other.mode) && both && !held.is_doubtful {
                problems.push(format!(
                    "two holders of {}: {} ({:?}, {}) since {:?}, and now {} ({:?}, {})",
                    held.place,
                    other.who,
                    other.kind,
                    other.nodes.join(", "),
                    other.granted,
                    held.who,
                    held.kind,
                    held.nodes.join(", "),
                ));
            }
        }
        if permits > limit && !held.is_doubtful && is_held(&held) == Some(true) {
            problems.push(format!("{permits} permits of {limit} at {}", held.place));
        }
        if held.mode == Mode::Alone {
            let key = (held.place, held.kind == Kind::Single);
            let highest = witness.highest.entry(key).or_default();
            if held.token < *highest && !held.is_doubtful && is_held(&held) == Some(true) {
                problems.push(format!(
                    "the token of {} fell from {highest:#x} to {:#x}, {}",
                    held.place, held.token, held.who
                ));
            }
            *highest = (*highest).max(held.token);
        }
        // A semaphore may have fewer permits for a while, and a leader takes and ends terms by itself.
        let is_well = witness.is_well
            && !matches!(held.kind, Kind::Semaphore | Kind::Several | Kind::Leadership);
        let soon = if is_well {
            Some(witness.soon())
        } else if witness.is_calm {
            // After a long outage a second lies between two handshakes.
            Some(witness.soon() + Duration::from_secs(1))
        } else {
            // After a cut the next connection has to be made first. The second place of a multi-lock is kept for as
            // long as its options say.
            let is_gentle = witness.is_gentle && held.kind != Kind::Several;
            is_gentle.then_some(witness.timeout * 3 / 4)
        };
        // Threads of one process wait until their client knows that a hold is lost.
        let key = (held.process, level(held.kind), held.place);
        let is_robbed =
            |one: &Held| (one.process, level(one.kind), one.place) == key && one.is_doubtful;
        let was_lost = witness.lost_at.get(&key).is_some_and(|at| *at >= begun)
            || witness.held.values().any(is_robbed);
        let may_be_taken = witness.several_may_have(held.process, held.place.path());
        if let Some(soon) = soon.filter(|_| !was_lost && !may_be_taken) {
            // A call cannot have waited for nodes that it created itself.
            let thread = format!("/{}", kernel::whoami().1);
            let is_own = |(session, said): &Maker, made: Duration| {
                let is_here = witness.sessions.get(session) == Some(&held.process);
                is_here && said.ends_with(&thread) && made >= begun
            };
            // Every multi-lock has the second place, too.
            let directories = held.nodes.iter().map(|path| parent(path)).chain([SECOND]);
            let left = directories.filter_map(|directory| witness.left_at.get(directory)).flatten();
            let freed = left.filter(|(maker, (made, _))| !is_own(maker, *made));
            let freed = freed.map(|(_, (_, left))| *left);
            let freed = freed.chain(witness.ended_at.get(&held.place).copied());
            let delays = held.nodes.iter().filter_map(|path| witness.delayed(parent(path)));
            let freed = freed.chain(delays).chain(witness.delayed(SECOND));
            // A call may begin before the first session.
            let freed = freed.chain(witness.connected_at.get(&held.process).copied());
            let since = freed.fold(begun, Duration::max);
            if now - since > soon {
                problems.push(format!(
                    "{} has {} only {:?} after it was free",
                    held.who,
                    held.place,
                    now - since
                ));
            }
        }
        problems
    });
    problems.into_iter().for_each(violation);
    witness(|witness| {
        witness.last += 1;
        let still_held = is_held(&held) != Some(false);
        histories::granted(witness.last, &held, begun, under, still_held);
        if !still_held {
            histories::lost(witness.last);
        }
        if held.is_doubtful {
            histories::doubted(witness.last);
        }
        let its = queue(held.kind, held.place);
        if held.mode == Mode::Alone {
            // An owner that cannot know of the loss of its node begins no turn.
            if !held.is_doubtful {
                witness.newest.insert(its, witness.last);
            }
            witness.queues.insert(witness.last, its);
        }
        witness.circles.granted(&held);
        witness.held.insert(witness.last, held);
        witness.last
    })
}

/// Begins a turn and checks the limits on turns with one node. Returns whether it is the node's first turn.
pub(crate) fn turn(
    place: Place,
    kind: Kind,
    hold: &Hold,
    in_a_row: Option<u32>,
    at_least: Option<Duration>,
) -> bool {
    let token = hold.fencing_token();
    let path = path_of(kind, hold);
    let now = kernel::elapsed();
    let (count, problem) = witness(|witness| {
        let key = (queue(kind, place), token);
        let (count, allowed) = witness.turns.entry(key).or_default();
        *count += 1;
        let (count, allowed) = (*count, mem::replace(allowed, in_a_row));
        let is_again = count > 1 && !matches!(kind, Kind::Read | Kind::Semaphore);
        let reserved = witness.reserved.get(&path).copied().filter(|until| *until > now);
        let problem = if is_again && allowed.is_some_and(|most| count > most) {
            Some(format!("{place} goes to the {count}th of one process with {path}"))
        } else if is_again && witness.heard.contains(&(path.clone(), token)) {
            Some(format!("{path} was asked for, and goes to the next of its process"))
        } else if is_again && witness.unanswered.contains(&(path.clone(), token)) {
            Some(format!("{path} goes to the next of its process with a write on its way"))
        } else if is_again && reserved.is_some() {
            Some(format!("{path} is to be held on to until {reserved:?}, and goes to the next"))
        } else {
            None
        };
        if let Some(time) = at_least {
            // The grant was slightly before `now`.
            let until = (now + time).saturating_sub(Duration::from_millis(100));
            let held = witness.held.values().find(|held| held.nodes.contains(&path));
            let nodes = held.map_or_else(|| vec![path], |held| held.nodes.clone());
            witness.reserved.extend(nodes.into_iter().map(|node| (node, until)));
        }
        (count, problem)
    });
    problem.into_iter().for_each(violation);
    count == 1
}

/// Records the result of a guarded write. A write without an answer may take effect as long as the node exists.
pub(crate) fn wrote(kind: Kind, hold: &Hold, written: &Result<()>) {
    if matches!(written, Err(Error::Disconnected { .. })) {
        let token = hold.fencing_token();
        witness(|witness| witness.unanswered.insert((path_of(kind, hold), token)));
    }
}

/// Returns the number of turns with the node of this token.
pub(crate) fn turns(place: Place, kind: Kind, token: u64) -> u32 {
    let key = (queue(kind, place), token);
    witness(|witness| witness.turns.get(&key).map_or(0, |(count, _)| *count))
}

/// Returns the text of an identity.
pub(crate) fn identity(number: u8) -> String {
    format!("{NAMED}{number}")
}

/// Checks that the node of a hold has the identity of its lock object, or that of its client.
pub(crate) fn says(kind: Kind, hold: &Hold, number: Option<u8>) {
    let (path, token) = (path_of(kind, hold), hold.fencing_token());
    let said = witness(|witness| witness.node(&path, token).map(|node| node.maker().1));
    let is_its = |said: &String| match number {
        Some(number) => *said == identity(number),
        None => !said.starts_with(NAMED),
    };
    if let Some(said) = said.filter(|said| !is_its(said)) {
        violation(format!("{path} says {said:?}, and its owner is {number:?}"));
    }
}

/// Begins a turn that is not checked, and that any number of others may follow.
pub(crate) fn unchecked_turn(place: Place, kind: Kind, hold: &Hold) {
    let token = hold.fencing_token();
    witness(|witness| {
        witness.kept.remove(&(path_of(kind, hold), token));
        let turns = witness.turns.entry((queue(kind, place), token)).or_default();
        *turns = (turns.0 + 1, None);
    });
}

/// Records that somebody is about to ask for a node.
pub(crate) fn asks(path: &str, token: u64) {
    witness(|witness| witness.asked.insert((path.to_owned(), token)));
}

/// Records that a holder knows of a request for its node, and checks that there was one.
pub(crate) fn heard(kind: Kind, hold: &Hold) {
    let node = (path_of(kind, hold), hold.fencing_token());
    let is_asked = witness(|witness| {
        witness.heard.insert(node.clone());
        witness.asked.contains(&node)
    });
    if !is_asked {
        violation(format!("{} ({:#x}) was asked for by nobody", node.0, node.1));
    }
}

/// Returns whether the node of a token exists.
pub(crate) fn is_there(path: &str, token: u64) -> bool {
    witness(|witness| witness.node(path, token).is_some())
}

/// Returns the version of the data of guarded writes, and the version after the last write by holders of this lock.
pub(crate) fn version(kind: Kind, place: Place) -> (i32, i32) {
    witness(|witness| {
        let left = witness.written.get(&queue(kind, place)).copied().unwrap_or_default();
        (witness.version, left)
    })
}

/// Returns whether a node exists at this path.
pub(crate) fn is_any(path: &str) -> bool {
    witness(|witness| witness.nodes.contains_key(path))
}

/// Returns when this node was created, if it is the newest node and the only contender of its directory. Returns `None`
/// if somebody has asked for it or has an unanswered write for it.
pub(crate) fn is_only(path: &str, token: u64) -> Option<Duration> {
    witness(|witness| {
        let node = witness.node(path, token)?;
        let key = (path.to_owned(), token);
        let is_free = !witness.asked.contains(&key) && !witness.unanswered.contains(&key);
        let is_alone = witness.contenders(parent(path)).count() == 1;
        (is_free && is_alone).then_some(node.made)
    })
    .filter(|_| is_last(path, token))
}

/// Returns whether its directory has no newer nodes and has lost only contenders since.
pub(crate) fn is_last(path: &str, token: u64) -> bool {
    witness(|witness| witness.last_change.get(parent(path)) == Some(&(token as i64)))
}

/// Returns whether somebody else has deleted the last node at this path, or ended its session.
pub(crate) fn was_deleted(path: &str) -> bool {
    witness(|witness| witness.gone.get(path).is_some_and(|gone| gone.by_somebody))
}

/// Returns when the owner of the node's last turn began to give it back.
pub(crate) fn given(path: &str, token: u64) -> Option<Duration> {
    witness(|witness| witness.given.get(&(path.to_owned(), token)).copied())
}

/// Returns the number of nodes that a session has created, and the number that all others have.
pub(crate) fn made(session: i64) -> (u64, u64) {
    witness(|witness| {
        let own = witness.made.get(&session).copied().unwrap_or_default();
        (own, witness.made.values().sum::<u64>() - own)
    })
}

/// Returns the number of holds that a thread has of locks of one queue, lost ones among them.
pub(crate) fn holds_here(who: &str, kind: Kind, place: Place) -> usize {
    let is_here =
        |held: &&Held| held.who == who && queue(held.kind, held.place) == queue(kind, place);
    witness(|witness| witness.held.values().filter(is_here).count())
}

/// Returns whether a hold has not ended and nobody else has deleted its node.
pub(crate) fn is_sure(hold: usize) -> bool {
    witness(|witness| witness.held.get(&hold).is_some_and(|held| !held.is_doubtful))
}

/// Returns the session that a node belongs to.
pub(crate) fn owner(path: &str) -> Option<i64> {
    witness(|witness| witness.nodes.get(path).map(|node| node.owner))
}

/// Records that a hold lasts for this long from `begun` on, or slightly longer, and no longer; but at least for
/// `least` from its grant.
pub(crate) fn lasts(hold: usize, begun: Duration, time: Duration, least: Duration) {
    witness(|witness| {
        if let Some(held) = witness.held.get_mut(&hold) {
            let end = (kernel::elapsed() + time).max(held.granted + least);
            held.lasts = Some((begun + time, end));
        }
    });
}

/// Checks that a hold has not lasted for longer than it may, and was not lost for that reason before.
fn judge_time(held: &Held) -> Option<String> {
    let now = kernel::elapsed();
    let is_too_long = |hold: &Hold| hold.state() == HoldState::Lost(LossReason::HeldTooLong);
    let was_too_long = kernel::peek(held.process, || held.holds.iter().any(is_too_long))?;
    let (who, place) = (&held.who, held.place);
    // The clock of a machine that sleeps stands still.
    if board(|board| board.has_jumped(held.process, held.granted)) {
        return None;
    }
    match held.lasts {
        Some((_, end)) if now > end + SLACK && is_held(held) == Some(true) => {
            Some(format!("{who} has {place} at {now:?}, until {end:?} at the latest"))
        }
        Some((end, _)) if was_too_long && now < end => {
            Some(format!("{who} had {place} for too long at {now:?}, before {end:?}"))
        }
        // A read below a write may end with it, and the options of a leader are not known here.
        None if was_too_long && !matches!(held.kind, Kind::Read | Kind::Leadership) => {
            Some(format!("{who} had {place} for too long without a limit"))
        }
        _ => None,
    }
}

/// Records that the owner begins to give a hold back.
pub(crate) fn left(hold: usize) {
    let problem = witness(|witness| witness.held.get(&hold).and_then(judge_time));
    problem.into_iter().for_each(violation);
    witness(|witness| {
        if let Some(held) = witness.held.get_mut(&hold) {
            let key = (held.process, level(held.kind), held.place);
            let is_held = is_held(held);
            if is_held == Some(false) {
                histories::lost(hold);
            }
            if is_held != Some(true) {
                witness.lost_at.insert(key, kernel::elapsed());
            }
            held.has_left = true;
            let nodes =
                held.nodes.iter().map(|node| ((node.clone(), held.token), kernel::elapsed()));
            witness.given.extend(nodes);
            witness.ended_at.insert(held.place, kernel::elapsed());
            histories::left(hold);
        }
    });
}

/// Records that a process is about to end.
pub(crate) fn died(process: Process) {
    witness(|witness| witness.dead.insert(process));
    histories::died(process);
}

/// Returns a node of this process.
pub(crate) fn node_of(process: Process) -> Option<String> {
    witness(|witness| {
        let is_its =
            |node: &Node| node.owner != 0 && witness.sessions.get(&node.owner) == Some(&process);
        let mut nodes = witness.nodes.iter();
        nodes.find(|(_, node)| is_its(node)).map(|(path, _)| path.clone())
    })
}

/// Returns whether a hold is lost, as its process knows.
pub(crate) fn is_lost(hold: usize) -> bool {
    witness(|witness| witness.held.get(&hold).and_then(knows_loss)) == Some(true)
}

/// Returns whether an operator deletes the nodes of several locks now.
pub(crate) fn takes_robbery() -> bool {
    witness(|witness| {
        let left = witness.robberies.checked_sub(1);
        witness.robberies = left.unwrap_or_default();
        left.is_some()
    })
}

/// Records the end of a hold and the answer of its unlock.
pub(crate) fn ended(hold: usize, said: Unlocked) {
    histories::unlocked(hold, said);
    aborts::lost(hold);
    witness(|witness| {
        if let Some(held) = witness.held.remove(&hold) {
            witness.circles.ended(&held);
            // It may have been lost since its owner began to give it back.
            if knows_loss(&held) != Some(false) {
                let key = (held.process, level(held.kind), held.place);
                witness.lost_at.insert(key, kernel::elapsed());
            }
            if !matches!(held.kind, Kind::Read | Kind::Write) {
                let nodes = held.holds.iter().zip(&held.nodes);
                witness.former.extend(nodes.map(|(hold, node)| {
                    (hold.path().to_owned(), node.clone(), hold.fencing_token())
                }));
            }
            witness.ended_at.insert(held.place, kernel::elapsed());
        }
    });
}

/// Returns the lock, the node and the token of one of the last two holds that have ended.
pub(crate) fn former() -> Option<(String, String, u64)> {
    let back = kernel::with_random(|random| random.usize(1..3));
    witness(|witness| {
        let index = witness.former.len().checked_sub(back)?;
        witness.former.get(index).cloned()
    })
}

/// Notes that a place has more permits than before.
pub(crate) fn freed(place: Place) {
    witness(|witness| witness.ended_at.insert(place, kernel::elapsed()));
}

/// Returns the number of permits of the semaphore at a place.
pub(crate) fn limit(place: Place) -> u32 {
    place.0 as u32 % 3 + 1
}

/// Checks a hold whose node was deleted at `begun`. By now its owner has looked, has no connection to
/// look on, or its lease is over.
fn goes_on(hold: usize, begun: Duration) {
    aborts::lost(hold);
    let problem = witness(|witness| {
        let held = witness.held.get(&hold).filter(|held| !held.has_left)?;
        let is_well = !witness.dead.contains(&held.process) && !has_stalled(held.process, begun);
        let is_held = |hold: &Hold| hold.state() == HoldState::Held;
        let goes_on = kernel::peek(held.process, || held.holds.iter().all(is_held));
        (is_well && goes_on == Some(true)).then(|| {
            format!("{} has {} since its node was deleted at {begun:?}", held.who, held.place)
        })
    });
    problem.into_iter().for_each(violation);
}

/// Returns the directory of a node.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Records the begin of a call that may wait.
pub(crate) fn waits(object: Option<usize>, kind: Kind, place: Place, mode: Mode) -> usize {
    let ((process, _), begun) = (kernel::whoami(), kernel::elapsed());
    witness(|witness| {
        witness.last += 1;
        let number = witness.last;
        witness.waiting.insert(
            number,
            Waiting {
                process,
                object,
                kind,
                place,
                mode,
                begun,
                turnless: None,
                is_cancelled: false,
            },
        );
        number
    })
}

/// Records that an operator is about to end this session. Its client takes a while to get another one.
pub(crate) fn expires(session: i64) {
    kernel::note(|| format!("== somebody ends session {session:#x}"));
    witness(|witness| {
        witness.is_well = false;
        witness.expired.insert(session);
    });
}

/// Records the session that a client got.
pub(crate) fn has_session(process: Process, session: i64) {
    witness(|witness| {
        witness.sessions.insert(session, process);
        witness.connected_at.insert(process, kernel::elapsed());
    });
}

/// Checks that threads of one process are granted in the order of their calls, whichever objects they use. `who` made
/// call `number`.
pub(crate) fn in_order(number: usize, who: &str) {
    let problem = witness(|witness| {
        let own = &witness.waiting[&number];
        if matches!(own.kind, Kind::Read | Kind::Semaphore | Kind::Several | Kind::Leadership) {
            return None;
        }
        let its = queue(own.kind, own.place);
        let is_again =
            |held: &Held| held.who == who && queue(held.kind, held.place) == its && !held.has_left;
        // A thread may be delayed between its call and the queue.
        let is_earlier = |other: &&Waiting| {
            (other.process, other.kind, other.place) == (own.process, own.kind, own.place)
                && other.begun + LATE.max(witness.slowest) < own.begun
                && !other.is_cancelled
                && !has_stalled(own.process, other.begun)
        };
        let other = witness.waiting.values().find(is_earlier)?;
        // A lost hold keeps its own object in use until it is unlocked. Others pass its threads.
        let key = (own.process, level(own.kind), own.place);
        let is_lost = |held: &Held| {
            (held.process, level(held.kind), held.place) == key && is_held(held) != Some(true)
        };
        let was_lost = witness.lost_at.get(&key).is_some_and(|at| *at >= other.begun);
        let mut held = witness.held.values();
        (!was_lost && !held.any(|held| is_again(held) || is_lost(held))).then(|| {
            let (one, begun) = (own.begun, other.begun);
            format!("{who}, who came at {one:?}, has {} before one of {begun:?}", own.place)
        })
    });
    problem.into_iter().for_each(violation);
}

/// Notes that the calls that wait for this object are cancelled.
pub(crate) fn cancels(object: usize) {
    let (process, _) = kernel::whoami();
    witness(|witness| {
        let mut waiting = witness.waiting.values_mut();
        let is_its = |call: &&mut Waiting| (call.process, call.object) == (process, Some(object));
        waiting.by_ref().filter(is_its).for_each(|call| call.is_cancelled = true);
    });
}

pub(crate) fn waits_no_more(number: usize) {
    witness(|witness| {
        // A multi-lock may have had this lock until now.
        if let Some(call) =
            witness.waiting.remove(&number).filter(|call| call.kind == Kind::Several)
        {
            witness.ended_at.insert(call.place, kernel::elapsed());
        }
    });
}

/// Checks the number of a client's unanswered creates.
pub(crate) fn asks_for_nodes(process: Process, count: usize) {
    let most = witness(|witness| witness.most_creates);
    let is_raw = || board(|board| !board.sessions.iter().any(|(one, _)| *one == process));
    if count > most && !is_raw() {
        violation(format!("client {} sends {count} creates without an answer", process.0));
    }
}

/// Records that a client may not delete a node of its own. Checks later that none of its threads waits for that node.
pub(crate) fn may_not_delete(process: Process, path: &str) {
    let known = witness(|witness| {
        // A node that has to stay is only deleted by `break_lock`.
        let is_known = witness.is_steady && !witness.reserved.contains_key(path);
        let node = witness.nodes.get(path).filter(|_| is_known)?;
        Some((node.czxid, witness.timeout))
    });
    let Some((czxid, time)) = known else {
        return;
    };
    let (path, begun) = (path.to_owned(), kernel::elapsed());
    kernel::after(time, move || {
        let problem = witness(|witness| {
            let is_there = witness.nodes.get(&path).is_some_and(|node| node.czxid == czxid);
            // It may have been held until now.
            let given = witness.given.get(&(path.clone(), czxid as u64));
            let is_idle = given.is_none_or(|given| *given <= begun);
            let is_there = is_there && is_idle;
            let who = witness.waits_for_own(process, &path, begun).filter(|_| is_there)?;
            Some(format!("client {} waits for {who} behind its own {path}", process.0))
        });
        problem.into_iter().for_each(violation);
    });
}

/// Checks that a call that lost its turn at `lost`, and none since, has another turn in this session.
fn has_a_turn(call: usize, session: i64, lost: Duration) {
    let problem = witness(|witness| {
        let call = witness.waiting.get(&call).filter(|call| call.turnless == Some(lost))?;
        let turns = format!("{}/locks", call.place);
        let has_one = witness.children(&turns).any(|(_, node)| node.owner == session);
        // The next thread of a process makes its turn when the one before it has given its own back.
        let left = witness.left_at.get(&turns).into_iter().flat_map(BTreeMap::values);
        let soon = LATE.max(witness.slowest * 2);
        let is_next = left.map(|(_, left)| *left + soon).max() > Some(kernel::elapsed());
        let is_sure = witness.is_steady
            && !witness.has_hidden
            && !witness.dead.contains(&call.process)
            && !witness.expired.contains(&session);
        (is_sure && !has_one && !is_next)
            .then(|| format!("client {} waits for {} without a turn", call.process.0, call.place))
    });
    problem.into_iter().for_each(violation);
}

/// Checks that a client that gets no answers has lost its nodes after five timeouts.
pub(crate) fn is_deaf(process: Process) {
    let (nodes, time) = witness(|witness| {
        let own = witness.held.values().filter(|held| held.process == process);
        let nodes: Vec<(String, u64)> = own
            .flat_map(|held| held.nodes.clone())
            .filter_map(|path| {
                // The path may have another node by now.
                let node = witness.nodes.get(&path).filter(|node| node.owner != 0)?;
                Some((path, node.czxid as u64))
            })
            .collect();
        (nodes, witness.timeout * 5)
    });
    kernel::after(time, move || {
        if witness(|witness| witness.is_healed) {
            return;
        }
        for (path, token) in nodes.iter().filter(|(path, token)| is_there(path, *token)) {
            violation(format!("{path} ({token:#x}) is there, and its client hears nothing"));
        }
    });
}

/// Returns whether the machine has stood still since then.
pub(crate) fn has_stalled(process: Process, since: Duration) -> bool {
    !board(|board| board.stalled(process, since)).is_zero()
}

/// Checks changes that the servers have carried out.
pub(crate) fn committed(_: &World, one: &Committed) {
    let (problems, deleted, turnless, timeout, soon) = witness(|witness| {
        let problems = witness.committed(one);
        witness.note_locks();
        let (deleted, turnless) =
            (mem::take(&mut witness.deleted), mem::take(&mut witness.turnless));
        (problems, deleted, turnless, witness.timeout, witness.slowest * FRAMES)
    });
    problems.into_iter().for_each(violation);
    let now = kernel::elapsed();
    for (call, session) in turnless {
        kernel::after(soon.max(timeout / 3), move || has_a_turn(call, session, now));
    }
    for (hold, is_hidden) in deleted {
        let begun = kernel::elapsed();
        // Clients look at nodes without events from time to time.
        let time = if is_hidden { timeout * UNTOLD } else { timeout * 3 / 2 };
        kernel::after(time, move || goes_on(hold, begun));
    }
}
