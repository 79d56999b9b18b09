//! Sees what really is: the tree of the servers, the true time, and every hold, and says what must not be.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel::Process;
use zookeeper::testing::ensemble::{ChangeKind, Committed};
use zoolock::{Error, Hold, Result};

use crate::client::board;
use crate::histories;
use crate::network::World;
use crate::plan::{Kind, Place};
use crate::raw;

/// Where guarded writes go.
pub(crate) const DATA: &str = "/data";
/// The second member of all that are several.
pub(crate) const SECOND: &str = "/several";
/// Something that has the name of a part of a semaphore, and is none.
pub(crate) const FOLDER: &str = "/folder";
/// Where longer paths begin than most locks have.
pub(crate) const LONG: &str = "/x";
/// Behind the end of whoever was before, a waiter has the lock in this time when nothing is wrong.
const SOON: Duration = Duration::from_millis(500);
/// In so many session timeouts everybody has looked who was not told of something.
const UNTOLD: u32 = 6;

/// How a hold excludes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Alone,
    Shared,
    Permits(u32),
}

/// A hold that was granted.
pub(crate) struct Held {
    pub process: Process,
    pub who: String,
    pub kind: Kind,
    pub place: Place,
    pub mode: Mode,
    /// All nodes of a hold of permits.
    pub holds: Vec<Hold>,
    pub nodes: Vec<String>,
    pub token: u64,
    granted: Duration,
    /// Its owner gives it back, or knows that it is over.
    has_left: bool,
    /// Somebody has deleted its node, or ended its session, whom nobody can stop.
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
    /// What it said then.
    said: String,
}

impl Node {
    /// Who has made it: its session, and the thread. Before that, a single node has an id.
    fn maker(&self) -> Maker {
        let thread = self.said.split_once(' ').filter(|(id, _)| id.len() == 36);
        (self.owner, thread.map_or(&*self.said, |(_, thread)| thread).to_owned())
    }
}

/// A call that may wait.
struct Waiting {
    process: Process,
    kind: Kind,
    place: Place,
    mode: Mode,
    begun: Duration,
}

/// How a node went.
#[derive(Debug, Clone, Copy)]
struct Gone {
    /// Somebody had deleted it who may.
    by_somebody: bool,
    /// Others were ahead of it then, so that it can never have been granted.
    was_behind: bool,
}

/// What was kept when a turn ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub process: Process,
    /// How many connections its client had made.
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
    /// Nodes that nobody might read for a while.
    pub(crate) hidden: BTreeSet<String>,
    /// The transaction that made the last node in each directory, or ended one that is no contender.
    last_change: BTreeMap<String, i64>,
    /// How many nodes each session has made.
    made: BTreeMap<i64, u64>,
    /// Nodes that somebody means to delete, whom nobody can stop.
    pub(crate) broken: BTreeSet<String>,
    /// The locks, nodes and tokens of holds that have ended, where nobody else has the same.
    former: Vec<(String, String, u64)>,
    /// When a place was given back.
    ended_at: BTreeMap<Place, Duration>,
    /// Sessions that an operator has ended.
    pub(crate) expired: BTreeSet<i64>,
    pub dead: BTreeSet<Process>,
    highest: BTreeMap<(Place, bool), u64>,
    /// Nodes that somebody has asked for, with their tokens; those whose holders have heard of it.
    asked: BTreeSet<(String, u64)>,
    heard: BTreeSet<(String, u64)>,
    /// Nodes with a guarded write that has had no answer.
    unanswered: BTreeSet<(String, u64)>,
    /// How many turns each node has had, by its token.
    turns: BTreeMap<(Place, bool, u64), u32>,
    pub kept: BTreeMap<(String, u64), Kept>,
    /// When the owner of the last turn with a node began to give it back.
    given: BTreeMap<(String, u64), Duration>,
    /// Nodes that are to stay until then, and those of them that nobody may have meanwhile.
    reserved: BTreeMap<String, Duration>,
    /// The last hold of each queue.
    newest: BTreeMap<(Place, u8), usize>,
    queues: BTreeMap<usize, (Place, u8)>,
    pub is_gentle: bool,
    /// Nobody is ever cut off.
    pub is_steady: bool,
    /// Nothing goes wrong at all.
    pub is_undisturbed: bool,
    /// The longest way of a frame.
    pub slowest: Duration,
    /// How many nodes of one client there may be in a queue.
    pub most_nodes: usize,
    /// How many creates of one client there may be without an answer.
    pub most_creates: usize,
    /// The nodes that somebody has deleted, and the sessions that they were of.
    robbed: BTreeSet<(i64, String)>,
    /// Whose each session is.
    sessions: BTreeMap<i64, Process>,
    /// Calls that may wait.
    waiting: BTreeMap<usize, Waiting>,
    /// Calls that somebody has deleted the turn of just now, and their sessions.
    turnless: Vec<(usize, i64)>,
    /// Nothing keeps anybody from going on at once.
    pub is_well: bool,
    /// Holds whose nodes somebody has deleted just now.
    deleted: Vec<(usize, bool)>,
    /// The version of what guarded writes go to, and the last one that holders of each queue have written alone.
    version: i32,
    written: BTreeMap<(Place, u8), i32>,
    /// Somebody makes contenders by hand, with any number.
    pub has_strangers: bool,
    /// What all clients were told by watches, and how many nodes of sessions have gone.
    pub events: u64,
    pub ends: u64,
    /// There were nodes that nobody might read.
    pub has_hidden: bool,
    /// All faults are over.
    pub is_healed: bool,
    /// The longest session timeout of all.
    pub timeout: Duration,
    /// When a node was made and went below each of these, by who had made it.
    left_at: BTreeMap<String, BTreeMap<Maker, (Duration, Duration)>>,
    pub is_calm: bool,
    pub calls: u64,
}

thread_local! {
    static WITNESS: RefCell<Witness> = RefCell::new(Witness::default());
}

pub(crate) fn witness<T>(act: impl FnOnce(&mut Witness) -> T) -> T {
    WITNESS.with_borrow_mut(act)
}

/// For the next run.
pub(crate) fn reset() {
    witness(|witness| *witness = Witness::default());
}

/// The run is over. Returns what was violated, and how many calls for locks there were.
pub(crate) fn finish() -> (Vec<String>, u64) {
    let Witness { violations, calls, held, .. } = WITNESS.take();
    // They go with the world that their clients live in.
    std::mem::forget(held);
    (violations, calls)
}

/// Says that something must not be.
pub(crate) fn violation(text: String) {
    kernel::note(|| format!("VIOLATION: {text}"));
    witness(|witness| witness.violations.push(text));
}

fn conflict(one: Mode, other: Mode) -> bool {
    !matches!((one, other), (Mode::Shared, Mode::Shared) | (Mode::Permits(_), Mode::Permits(_)))
}

/// Those that exclude each other are of one queue.
fn queue(kind: Kind, place: Place) -> (Place, u8) {
    match kind {
        Kind::Single => (place, 1),
        Kind::Semaphore => (place, 2),
        _ => (place, 0),
    }
}

fn is_held(held: &Held) -> Option<bool> {
    kernel::peek(held.process, || held.holds.iter().all(Hold::is_held))
}

/// The whole path of the node of a hold.
pub(crate) fn path_of(kind: Kind, hold: &Hold) -> String {
    match kind {
        Kind::Single => hold.path().to_owned(),
        Kind::Semaphore => format!("{}/leases/{}", hold.path(), hold.node()),
        _ => format!("{}/{}", hold.path(), hold.node()),
    }
}

impl Held {
    /// Of the running thread's process.
    pub(crate) fn new(who: String, kind: Kind, place: Place, mode: Mode, holds: Vec<Hold>) -> Held {
        let (process, _) = kernel::whoami();
        let nodes = holds.iter().map(|hold| path_of(kind, hold)).collect();
        let token = holds.first().map_or(0, |hold| hold.fencing_token().unwrap_or_default());
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
            has_left: false,
            is_doubtful: false,
        }
    }
}

/// A lock was granted. `begun` is when the call was made; `under` the write that the same thread has.
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
            match witness.nodes.get(path) {
                Some(node) if Some(node.czxid as u64) == token.ok() => {}
                // It has the token of the write.
                Some(_) if under.is_some() => {}
                // Somebody has deleted its own, and the next one has the same name.
                Some(_) if witness.is_robbed(held.process, path) => held.is_doubtful = true,
                Some(node) => problems.push(format!(
                    "{} has {path} with another token than its node, made by {:#x}",
                    held.who, node.czxid
                )),
                None => match witness.gone.get(path) {
                    Some(gone) if gone.by_somebody => {
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
            if !other.has_left && is_held(other) == Some(false) {
                histories::lost(*number);
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
        // Fewer permits may be free for a while, and a leader comes and goes by himself.
        let is_well = witness.is_well
            && !matches!(held.kind, Kind::Semaphore | Kind::Several | Kind::Leadership);
        let soon = if witness.is_calm || is_well {
            Some(SOON)
        } else {
            // Where connections break, the next one has to be made first. Several have a second place each, which
            // is kept for as long as its options say.
            let is_gentle = witness.is_gentle && held.kind != Kind::Several;
            is_gentle.then_some(witness.timeout * 3 / 4)
        };
        if let Some(soon) = soon {
            // What it may have waited for.
            // Nobody waits for what the same call has made.
            let own = held.nodes.first().and_then(|path| witness.nodes.get(path));
            let is_own = |maker: &Maker, made: Duration| {
                let is_maker = own.is_some_and(|own| own.maker() == *maker);
                is_maker && made >= begun
            };
            // Several locks have a second place each.
            let directories = held.nodes.iter().map(|path| parent(path)).chain([SECOND]);
            let left = directories.filter_map(|directory| witness.left_at.get(directory)).flatten();
            let freed = left.filter(|(maker, (made, _))| !is_own(maker, *made));
            let freed = freed.map(|(_, (_, left))| *left);
            let freed = freed.chain(witness.ended_at.get(&held.place).copied());
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
        if held.is_doubtful {
            histories::doubted(witness.last);
        }
        let its = queue(held.kind, held.place);
        if held.mode == Mode::Alone {
            witness.newest.insert(its, witness.last);
            witness.queues.insert(witness.last, its);
        }
        witness.held.insert(witness.last, held);
        witness.last
    })
}

/// A turn begins, one of so many at the most that have this node. Is it the first one?
pub(crate) fn turn(
    place: Place,
    kind: Kind,
    hold: &Hold,
    in_a_row: Option<u32>,
    at_least: Option<Duration>,
) -> bool {
    let token = hold.fencing_token().unwrap_or_default();
    let path = path_of(kind, hold);
    let now = kernel::elapsed();
    let (count, problem) = witness(|witness| {
        let key = (place, kind == Kind::Single, token);
        let count = witness.turns.entry(key).or_default();
        *count += 1;
        let count = *count;
        let is_again = count > 1 && !matches!(kind, Kind::Read | Kind::Semaphore);
        let reserved = witness.reserved.get(&path).copied().filter(|until| *until > now);
        let problem = if in_a_row.is_some_and(|most| count > most) {
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
            // The grant was a moment ago.
            let until = (now + time).saturating_sub(Duration::from_millis(100));
            witness.reserved.insert(path, until);
        }
        (count, problem)
    });
    problem.into_iter().for_each(violation);
    count == 1
}

/// What became of a guarded write. One without an answer may be carried out as long as the node is there.
pub(crate) fn wrote(kind: Kind, hold: &Hold, written: &Result<()>) {
    if matches!(written, Err(Error::Disconnected { .. })) {
        let token = hold.fencing_token().unwrap_or_default();
        witness(|witness| witness.unanswered.insert((path_of(kind, hold), token)));
    }
}

/// How many turns have had the node of this token.
pub(crate) fn turns(place: Place, kind: Kind, token: u64) -> u32 {
    let key = (place, kind == Kind::Single, token);
    witness(|witness| witness.turns.get(&key).copied().unwrap_or_default())
}

/// Somebody is about to ask for a node.
pub(crate) fn asks(path: &str, token: u64) {
    witness(|witness| witness.asked.insert((path.to_owned(), token)));
}

/// A holder was told that somebody has asked for its node.
pub(crate) fn heard(kind: Kind, hold: &Hold) {
    let node = (path_of(kind, hold), hold.fencing_token().unwrap_or_default());
    let is_asked = witness(|witness| {
        witness.heard.insert(node.clone());
        witness.asked.contains(&node)
    });
    if !is_asked {
        violation(format!("{} ({:#x}) was asked for by nobody", node.0, node.1));
    }
}

/// Is the node of a token there?
pub(crate) fn is_there(path: &str, token: u64) -> bool {
    witness(|witness| witness.node(path, token).is_some())
}

/// The version of what guarded writes go to: as it is, and as holders of this lock have left it.
pub(crate) fn version(kind: Kind, place: Place) -> (i32, i32) {
    witness(|witness| {
        let left = witness.written.get(&queue(kind, place)).copied().unwrap_or_default();
        (witness.version, left)
    })
}

/// Is there a node at this path?
pub(crate) fn is_any(path: &str) -> bool {
    witness(|witness| witness.nodes.contains_key(path))
}

/// Since when this node is there, if it is the only contender of its directory, the last that has come, and nobody
/// has asked for it.
pub(crate) fn is_only(path: &str, token: u64) -> Option<Duration> {
    witness(|witness| {
        let node = witness.node(path, token)?;
        let is_asked = witness.asked.contains(&(path.to_owned(), token));
        let is_alone = witness.contenders(parent(path)).count() == 1;
        (!is_asked && is_alone).then_some(node.made)
    })
    .filter(|_| is_last(path, token))
}

/// Has nothing come to the directory of this one since, nor anything but contenders gone?
pub(crate) fn is_last(path: &str, token: u64) -> bool {
    witness(|witness| witness.last_change.get(parent(path)) == Some(&(token as i64)))
}

/// Has somebody deleted it who may?
pub(crate) fn was_deleted(path: &str) -> bool {
    witness(|witness| witness.gone.get(path).is_some_and(|gone| gone.by_somebody))
}

/// When the owner of the last turn with a node began to give it back.
pub(crate) fn given(path: &str, token: u64) -> Option<Duration> {
    witness(|witness| witness.given.get(&(path.to_owned(), token)).copied())
}

/// How many nodes a session has made, and how many others have.
pub(crate) fn made(session: i64) -> (u64, u64) {
    witness(|witness| {
        let own = witness.made.get(&session).copied().unwrap_or_default();
        (own, witness.made.values().sum::<u64>() - own)
    })
}

/// Is it sure that nobody has deleted the node of a hold?
pub(crate) fn is_sure(hold: usize) -> bool {
    witness(|witness| witness.held.get(&hold).is_some_and(|held| !held.is_doubtful))
}

/// The session that a node belongs to.
pub(crate) fn owner(path: &str) -> Option<i64> {
    witness(|witness| witness.nodes.get(path).map(|node| node.owner))
}

/// Its owner begins to give it back.
pub(crate) fn left(hold: usize) {
    witness(|witness| {
        if let Some(held) = witness.held.get_mut(&hold) {
            if is_held(held) == Some(false) {
                histories::lost(hold);
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

/// It is over.
pub(crate) fn ended(hold: usize) {
    histories::unlocked(hold);
    witness(|witness| {
        if let Some(held) = witness.held.remove(&hold) {
            if !matches!(held.kind, Kind::Read | Kind::Write) {
                let tokens = held.holds.iter().zip(&held.nodes).filter_map(|(hold, node)| {
                    Some((hold.path().to_owned(), node.clone(), hold.fencing_token().ok()?))
                });
                witness.former.extend(tokens);
            }
            witness.ended_at.insert(held.place, kernel::elapsed());
        }
    });
}

/// The lock, the node and the token of a hold that has ended a while ago.
pub(crate) fn former() -> Option<(String, String, u64)> {
    let back = kernel::with_random(|random| random.usize(1..3));
    witness(|witness| {
        let index = witness.former.len().checked_sub(back)?;
        witness.former.get(index).cloned()
    })
}

/// How many permits a semaphore has.
pub(crate) fn limit(place: Place) -> u32 {
    place.0 as u32 % 3 + 1
}

/// What a name asks for, with a number that tells its place: a write and an exclusive one alike.
fn contender(name: &str) -> Option<(bool, i32)> {
    let (head, number) = name.split_at_checked(name.len().checked_sub(10)?)?;
    let is_read = head.ends_with("__READ__");
    let is_any = is_read || head.ends_with("__WRIT__") || head.ends_with("-lock-");
    let number = number.parse().ok().filter(|number| (0..i32::MAX).contains(number))?;
    is_any.then_some((is_read, number))
}

/// A hold whose node was deleted then: its owner has looked, or its lease is over.
fn goes_on(hold: usize, begun: Duration) {
    let problem = witness(|witness| {
        let held = witness.held.get(&hold).filter(|held| !held.has_left)?;
        let is_well = !witness.dead.contains(&held.process) && !has_stalled(held.process, begun);
        (is_well && is_held(held) == Some(true)).then(|| {
            format!("{} has {} since its node was deleted at {begun:?}", held.who, held.place)
        })
    });
    problem.into_iter().for_each(violation);
}

/// The directory of a node.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Has it the name of somebody in a queue, with an id and a number?
fn is_of_queue(name: &str) -> bool {
    name.starts_with("_c_") && name.is_char_boundary(39) && number_of(name).is_some()
}

fn number_of(name: &str) -> Option<u64> {
    name.get(name.len().checked_sub(10)?..)?.parse().ok()
}

/// Is it of a lock that has an owner, not of a program without?
fn is_of_locks(node: &Node, path: &str) -> bool {
    node.owner != 0 && !path.starts_with(raw::ROOT)
}

/// A call for this begins, which may wait.
pub(crate) fn waits(kind: Kind, place: Place, mode: Mode) -> usize {
    let ((process, _), begun) = (kernel::whoami(), kernel::elapsed());
    witness(|witness| {
        witness.last += 1;
        let number = witness.last;
        witness.waiting.insert(number, Waiting { process, kind, place, mode, begun });
        number
    })
}

/// An operator is about to end this session, whose client takes a while to have another.
pub(crate) fn expires(session: i64) {
    witness(|witness| {
        witness.is_well = false;
        witness.expired.insert(session);
    });
}

/// A client is told that it has this session.
pub(crate) fn has_session(process: Process, session: i64) {
    witness(|witness| witness.sessions.insert(session, process));
}

pub(crate) fn waits_no_more(number: usize) {
    witness(|witness| witness.waiting.remove(&number));
}

/// A client has sent creates that have no answer yet: as many as it has threads, each for all of its permits.
pub(crate) fn asks_for_nodes(process: Process, count: usize) {
    let most = witness(|witness| witness.most_creates);
    let is_raw = || board(|board| !board.sessions.iter().any(|(one, _)| *one == process));
    if count > most && !is_raw() {
        violation(format!("client {} sends {count} creates without an answer", process.0));
    }
}

/// A client is told that it may not delete a node of its own. Nobody of it waits for that.
pub(crate) fn may_not_delete(process: Process, path: &str) {
    let known = witness(|witness| {
        let node = witness.nodes.get(path).filter(|_| witness.is_steady)?;
        Some((node.czxid, witness.timeout))
    });
    let Some((czxid, time)) = known else {
        return;
    };
    let (path, begun) = (path.to_owned(), kernel::elapsed());
    kernel::after(time, move || {
        let problem = witness(|witness| {
            let is_there = witness.nodes.get(&path).is_some_and(|node| node.czxid == czxid);
            let who = witness.waits_for_own(process, &path, begun).filter(|_| is_there)?;
            Some(format!("client {} waits for {who} behind its own {path}", process.0))
        });
        problem.into_iter().for_each(violation);
    });
}

/// Whoever waits and has lost its turn has another one by now, in this session.
fn has_a_turn(call: usize, session: i64) {
    let problem = witness(|witness| {
        let call = witness.waiting.get(&call)?;
        let turns = format!("{}/locks", call.place);
        let has_one = witness.children(&turns).any(|(_, node)| node.owner == session);
        let is_sure =
            witness.is_steady && !witness.has_hidden && !witness.dead.contains(&call.process);
        (is_sure && !has_one)
            .then(|| format!("client {} waits for {} without a turn", call.process.0, call.place))
    });
    problem.into_iter().for_each(violation);
}

/// This client hears nothing from now on: in five timeouts it keeps nobody out any more.
pub(crate) fn is_deaf(process: Process) {
    let (nodes, time) = witness(|witness| {
        let own = witness.held.values().filter(|held| held.process == process);
        let nodes: Vec<(String, u64)> = own
            .flat_map(|held| held.nodes.clone())
            .filter_map(|path| {
                let czxid = witness.nodes.get(&path)?.czxid as u64;
                Some((path, czxid))
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

/// Has this machine stood still since then?
pub(crate) fn has_stalled(process: Process, since: Duration) -> bool {
    !board(|board| board.stalled(process, since)).is_zero()
}

/// The servers have carried something out.
pub(crate) fn committed(_: &World, one: &Committed) {
    let (problems, deleted, turnless, timeout) = witness(|witness| {
        let problems = witness.committed(one);
        let (deleted, turnless) =
            (std::mem::take(&mut witness.deleted), std::mem::take(&mut witness.turnless));
        (problems, deleted, turnless, witness.timeout)
    });
    problems.into_iter().for_each(violation);
    for (call, session) in turnless {
        kernel::after(timeout / 3, move || has_a_turn(call, session));
    }
    for (hold, is_hidden) in deleted {
        let begun = kernel::elapsed();
        // What is not told is looked for from time to time.
        let time = if is_hidden { timeout * UNTOLD } else { timeout * 3 / 2 };
        kernel::after(time, move || goes_on(hold, begun));
    }
}

impl Witness {
    /// The node at this path, if it is that of this token.
    fn node(&self, path: &str, token: u64) -> Option<&Node> {
        self.nodes.get(path).filter(|node| node.czxid as u64 == token)
    }

    /// What is in a directory: names and nodes.
    fn children<'a>(
        &'a self,
        directory: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Node)> + use<'a> {
        let prefix = format!("{directory}/");
        let below = self.nodes.range(prefix.clone()..);
        let below = below.map_while(move |(path, node)| Some((path.strip_prefix(&prefix)?, node)));
        below.filter(|(name, _)| !name.contains('/'))
    }

    /// Has somebody deleted a node at this path that was of a session of this process?
    fn is_robbed(&self, process: Process, path: &str) -> bool {
        let is_its = |session| self.sessions.get(session) == Some(&process);
        self.robbed.iter().any(|(session, robbed)| robbed == path && is_its(session))
    }

    /// The place of a call of this process that has waited since then where this node of it is the first, so that nobody
    /// else is waited for.
    fn waits_for_own(&self, process: Process, path: &str, since: Duration) -> Option<Place> {
        let directory = parent(path);
        let number = number_of(path);
        // Permits are waited for in a turn, which others may have.
        let turns = directory.strip_suffix("/leases").map(|place| format!("{place}/locks"));
        let is_near = |other: &str| [Some(directory), turns.as_deref()].contains(&Some(other));
        let beside = self.nodes.iter().filter(|(other, _)| is_near(parent(other)));
        let (owner, is_permit) = (self.nodes.get(path)?.owner, directory.ends_with("/leases"));
        let holds = self
            .held
            .values()
            .any(|held| !held.has_left && held.nodes.iter().any(|node| parent(node) == directory));
        let mut others = beside.clone().filter(|(_, node)| node.owner != owner);
        let is_first = beside.clone().all(|(other, _)| number_of(other) >= number);
        if holds || others.next().is_some() || (!is_permit && !is_first) {
            return None;
        }
        let is_behind = |call: &&Waiting| {
            let place = call.place.path();
            let is_here = match (call.kind, is_permit) {
                (Kind::Single, _) => place == path,
                (Kind::Semaphore, true) => {
                    // There is no room for them, nor will there be.
                    call.mode == Mode::Permits(limit(call.place))
                        && directory.strip_suffix("/leases") == Some(place)
                }
                (Kind::Semaphore, false) => directory.strip_suffix("/locks") == Some(place),
                (Kind::Exclusive | Kind::Reentrant | Kind::Write, false) => place == directory,
                _ => false,
            };
            call.process == process && call.begun <= since && is_here
        };
        self.waiting.values().find(is_behind).map(|call| call.place)
    }

    fn committed(&mut self, one: &Committed) -> Vec<String> {
        let mut problems = Vec::new();
        for change in &one.changes {
            match &change.kind {
                ChangeKind::Created { owner, data } => {
                    let said = String::from_utf8_lossy(data).into_owned();
                    let made = kernel::elapsed();
                    let node = Node { owner: *owner, czxid: one.zxid, made, said };
                    self.last_change.insert(parent(&change.path).to_owned(), one.zxid);
                    *self.made.entry(one.session).or_default() += 1;
                    self.nodes.insert(change.path.to_string(), node);
                    self.gone.remove(&*change.path);
                    self.created(&change.path, *owner, &mut problems);
                }
                ChangeKind::Deleted => self.deleted(&change.path, one, &mut problems),
                ChangeKind::DataSet(data) if change.path.starts_with(DATA) => {
                    self.version += 1;
                    self.written(&change.path, data, &mut problems);
                }
                ChangeKind::DataSet(data) => {
                    // Of a single node it is said whom it is for.
                    let is_whole = &data[..] == b"__REVOKE__";
                    if let (true, Some(node)) = (is_whole, self.nodes.get(&*change.path)) {
                        self.asked.insert((change.path.to_string(), node.czxid as u64));
                    }
                }
                ChangeKind::AclSet => {}
            }
        }
        problems
    }

    fn created(&mut self, path: &str, owner: i64, problems: &mut Vec<String>) {
        if owner == 0 {
            return;
        }
        let (directory, name) = (parent(path), &path[parent(path).len() + 1..]);
        // Reads and permits may be many.
        let is_alone = |name: &str| !name.contains("-__READ__") && !name.contains("-lease-");
        if self.is_steady && is_of_queue(name) && is_alone(name) {
            let all = self.children(directory);
            let count = all.filter(|(name, node)| node.owner == owner && is_alone(name)).count();
            if count > self.most_nodes {
                problems.push(format!("{path} is the {count}th of its client in its queue"));
            }
        }
        // Permits are asked for in a turn, whose node is the first then.
        if let Some(place) = directory.strip_suffix("/leases")
            && !self.has_strangers
        {
            let turns = format!("{place}/locks");
            let all = || self.children(&turns).filter(|(name, _)| is_of_queue(name));
            // What they are for is the last group of their id.
            let its = all().find(|(turn, _)| turn.get(27..39) == name.get(27..39));
            let number = |name: &str| number_of(name).unwrap_or(u64::MAX);
            if let Some((its, _)) = its
                && let Some((first, _)) = all().find(|(turn, _)| number(turn) < number(its))
            {
                problems.push(format!("{path} is asked for in the turn {its}, behind {first}"));
            }
        }
    }

    fn deleted(&mut self, path: &str, one: &Committed, problems: &mut Vec<String>) {
        let Some(node) = self.nodes.remove(path) else {
            return;
        };
        if !path.rsplit('/').next().is_some_and(is_of_queue) {
            self.last_change.insert(parent(path).to_owned(), one.zxid);
        }
        let left = self.left_at.entry(parent(path).to_owned()).or_default();
        left.insert(node.maker(), (node.made, kernel::elapsed()));
        // Whoever had a single node that somebody has deleted may not have heard of it, and deletes the next one's.
        let is_late = self.robbed.contains(&(one.session, path.to_owned()));
        let is_own = one.is_close || one.session == 0 || one.session == node.owner;
        if !is_own && !is_late && is_of_locks(&node, path) && !self.broken.contains(path) {
            problems.push(format!("{path}, of session {:#x}, is deleted by another", node.owner));
        }
        self.ends += u64::from(node.owner != 0);
        let by_somebody = match one.is_close {
            true => self.expired.contains(&node.owner),
            false => one.session != node.owner || self.broken.contains(path) || is_late,
        };
        if by_somebody && !one.is_close {
            self.robbed.insert((node.owner, path.to_owned()));
        }
        let is_hidden = self.hidden.contains(path);
        let was_behind = by_somebody && !is_hidden && self.is_behind(path);
        self.gone.insert(path.to_owned(), Gone { by_somebody, was_behind });
        if let Some(place) = parent(path).strip_suffix("/locks")
            && by_somebody
            && !one.is_close
        {
            let calls = self.waiting.iter().filter(|(_, call)| {
                let is_its = self.sessions.get(&node.owner) == Some(&call.process);
                is_its && call.kind == Kind::Semaphore && call.place.path() == place
            });
            self.turnless.extend(calls.map(|(call, _)| (*call, node.owner)));
        }
        if !by_somebody && !one.is_close {
            problems.extend(self.was_kept(path, &node));
        }
        let reserved = self.reserved.remove(path);
        if let Some(until) = reserved
            && self.is_gentle
            && !by_somebody
            && !one.is_close
            && until > kernel::elapsed()
        {
            problems.push(format!("{path} goes before {until:?}, until when it is to be held"));
        }
        for (number, held) in &mut self.held {
            if held.has_left || held.is_doubtful || !held.nodes.iter().any(|node| node == path) {
                continue;
            }
            if by_somebody {
                held.is_doubtful = true;
                histories::doubted(*number);
                self.deleted.push((*number, is_hidden));
            } else if !self.dead.contains(&held.process) && is_held(held) == Some(true) {
                problems.push(format!(
                    "{} has {} ({:?}) while its node {path} goes, with {} {:#x}",
                    held.who,
                    held.place,
                    held.kind,
                    if one.is_close { "the end of session" } else { "a deletion in session" },
                    node.owner,
                ));
            }
        }
    }

    /// The contenders in a directory: whether they read, their numbers, and the nodes.
    fn contenders(&self, directory: &str) -> impl Iterator<Item = (bool, i32, &Node)> {
        self.children(directory).filter_map(|(name, node)| {
            let (is_read, number) = contender(name)?;
            Some((is_read, number, node))
        })
    }

    /// Is somebody ahead of this node, which has just gone, whom it has to wait for?
    fn is_behind(&self, path: &str) -> bool {
        let Some((directory, name)) = path.rsplit_once('/') else {
            return false;
        };
        let Some((is_read, number)) = contender(name) else {
            return false;
        };
        let mut others = self.contenders(directory);
        others.any(|(other_reads, other, _)| other < number && !(is_read && other_reads))
    }

    /// What is kept for the next thread of a process is not kept for long when somebody else has come.
    fn was_kept(&mut self, path: &str, node: &Node) -> Option<String> {
        let kept = self.kept.remove(&(path.to_owned(), node.czxid as u64))?;
        let (directory, name) = path.rsplit_once('/')?;
        let (_, number) = contender(name)?;
        let rivals = self.contenders(directory);
        let rivals = rivals.filter(|(_, other, one)| *other > number && one.owner != node.owner);
        let since = rivals.map(|(_, _, one)| one.made).min()?.max(kept.since);
        let now = kernel::elapsed();
        let is_late = now - since > self.timeout * UNTOLD && !has_stalled(kept.process, since);
        let is_reserved = self.reserved.contains_key(path);
        (is_late && !is_reserved).then(|| {
            format!("{path} is kept for nobody since {:?}, with others behind it", kept.since)
        })
    }

    fn written(&mut self, path: &str, data: &[u8], problems: &mut Vec<String>) {
        let text = String::from_utf8_lossy(data).into_owned();
        let mut parts = text.split(' ');
        let (Some(node), Some(token)) = (parts.next(), parts.next()) else {
            return;
        };
        let hold: Option<usize> = parts.next().and_then(|hold| hold.parse().ok());
        if let Some(queue) = hold.and_then(|hold| self.queues.get(&hold)) {
            self.written.insert(*queue, self.version);
        }
        if let Some(hold) = hold
            && !self.held.contains_key(&hold)
            && let Some(queue) = self.queues.get(&hold)
            && self.newest.get(queue).is_some_and(|newest| *newest > hold)
        {
            problems.push(format!("{path} was written for {node}, and its next turn has begun"));
        }
        let is_there = self.nodes.get(node).is_some_and(|node| node.czxid.to_string() == token);
        if !is_there {
            problems.push(format!("{path} was written for {node} ({token}), which is not there"));
        }
    }

    /// What is there of a queue or a session when all is over.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let is_left = |(path, node): &(&String, &Node)| {
            let name = path.rsplit('/').next().unwrap_or_default();
            node.owner != 0 || name.starts_with("_c_")
        };
        self.nodes.iter().filter(is_left).map(|(path, _)| path.clone()).collect()
    }

    /// One of the nodes below, as an operator sees them, or the single one.
    pub(crate) fn below(&self, place: Place, nth: usize) -> Option<String> {
        let prefix = format!("{place}/");
        let is_it = |(path, node): &(&String, &Node)| {
            path.starts_with(&prefix) || (*path == place.path() && node.owner != 0)
        };
        let below: Vec<_> = self.nodes.iter().filter(is_it).map(|(path, _)| path).collect();
        below.get(nth % below.len().max(1)).map(|path| (*path).clone())
    }

    /// The nodes of sessions in a directory.
    pub(crate) fn sessions_nodes(&self, directory: &str) -> Vec<String> {
        let own = self.children(directory).filter(|(_, node)| node.owner != 0);
        own.map(|(name, _)| format!("{directory}/{name}")).collect()
    }

    /// Those who have something.
    pub(crate) fn holders(&self) -> Vec<String> {
        let held = self.held.values().filter(|held| !held.has_left);
        held.map(|held| format!("{} has {} ({:?})", held.who, held.place, held.kind)).collect()
    }
}
