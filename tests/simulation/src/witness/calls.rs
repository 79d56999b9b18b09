//! Judges calls that wait: their order within a process, and what they wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Process;
use zoolock_judge::Mode;

use super::holds::{Held, Level, level};
use super::tree::number_of;
use super::{LATE, Witness, judged, limit, parent, queue, witness};
use crate::client::has_stalled;
use crate::histories;
use crate::plan::{Kind, ObjectPlan, Place};

/// A call that may wait.
pub(super) struct Waiting {
    pub(super) process: Process,
    /// Index of the object that the call is for, unless it has an object for itself.
    object: Option<usize>,
    pub(super) kind: Kind,
    pub(super) place: Place,
    mode: Mode,
    begun: Duration,
    /// When somebody deleted its turn.
    pub(super) turnless: Option<Duration>,
    /// It is about to return.
    is_cancelled: bool,
    /// Its hold may be over before it returns.
    is_brief: bool,
}

pub(crate) fn waits(object: Option<usize>, plan: &ObjectPlan, mode: Mode) -> usize {
    let ObjectPlan { kind, place, ref options } = *plan;
    let is_brief = options.hold_at_most.is_some_and(|time| time < LATE);
    let (process, begun, number) = (kernel::own_process(), kernel::elapsed(), histories::next());
    let (turnless, is_cancelled) = (None, false);
    let call =
        Waiting { process, object, kind, place, mode, begun, turnless, is_cancelled, is_brief };
    witness(|witness| witness.waiting.insert(number, call));
    number
}

pub(crate) fn cancels(object: usize) {
    witness(|witness| {
        let its = (kernel::own_process(), Some(object));
        let is_its = |call: &&mut Waiting| (call.process, call.object) == its;
        let own = witness.waiting.values_mut().filter(is_its);
        own.for_each(|call| call.is_cancelled = true);
    });
}

pub(crate) fn waits_no_more(number: usize) {
    witness(|witness| {
        let call = witness.waiting.remove(&number);
        // A multi-lock may have had this lock until now.
        if let Some(call) = call.filter(|call| call.kind == Kind::Several) {
            witness.ended_at.insert(call.place, kernel::elapsed());
        }
    });
}

/// Checks that threads of one process are granted in the order of their calls. `who` made call `number`.
pub(crate) fn in_order(number: usize, who: &str) {
    judged(|witness| {
        let own = &witness.waiting[&number];
        if matches!(own.kind, Kind::Read | Kind::Semaphore | Kind::Several | Kind::Leadership) {
            return None;
        }
        let its = queue(own.kind, own.place);
        let is_again = |held: &Held| held.who == who && held.queue() == its && !held.has_left;
        // A thread may be delayed between its call and the queue.
        let is_earlier = |other: &&Waiting| {
            (other.process, other.kind, other.place) == (own.process, own.kind, own.place)
                && other.begun + witness.late() < own.begun
                && !other.is_cancelled
                && !other.is_brief
                && !has_stalled(own.process, other.begun)
        };
        let other = witness.waiting.values().find(is_earlier)?;
        // A lost hold keeps its own object in use until it is unlocked. Others pass its threads.
        let key = level(own.process, own.kind, own.place);
        let is_lost = |held: &Held| held.level() == key && held.is_held() != Some(true);
        let was_lost = witness.lost_at.get(&key).is_some_and(|at| *at >= other.begun);
        let mut held = witness.held.values();
        (!was_lost && !held.any(|held| is_again(held) || is_lost(held))).then(|| {
            let (one, begun) = (own.begun, other.begun);
            format!("{who}, who came at {one:?}, has {} before one of {begun:?}", own.place)
        })
    });
}

/// Records that a client may not delete a node of its own. Checks later that none of its threads waits for that node.
pub(crate) fn may_not_delete(process: Process, path: &str) {
    let known = witness(|witness| {
        // A node that has to stay is only deleted by `break_lock`.
        let is_known = witness.is_steady && !witness.reserved.contains_key(path);
        let node = witness.nodes.get(path).filter(|_| is_known)?;
        Some((node.czxid, witness.timeout))
    });
    let Some((czxid, time)) = known else { return };
    let (path, begun) = (path.to_owned(), kernel::elapsed());
    kernel::after(time, move || {
        judged(|witness| {
            let is_there = witness.nodes.get(&path).is_some_and(|node| node.czxid == czxid);
            // It may have been held until now.
            let given = witness.given.get(&(path.clone(), czxid as u64));
            let is_idle = given.is_none_or(|given| *given <= begun);
            let who = witness.waits_for_own(process, &path, begun)?;
            (is_there && is_idle)
                .then(|| format!("client {} waits for {who} behind its own {path}", process.0))
        });
    });
}

/// Checks that a call that lost its turn at `lost`, and none since, has another turn in this session.
pub(super) fn has_a_turn(call: usize, session: i64, lost: Duration) {
    judged(|witness| {
        let call = witness.waiting.get(&call).filter(|call| call.turnless == Some(lost))?;
        let turns = format!("{}/locks", call.place);
        let has_one = witness.children(&turns).any(|(_, node)| node.owner == session);
        // The next thread of a process makes its turn when the one before it has given its own back.
        let left = witness.left_at.get(&turns).into_iter().flat_map(BTreeMap::values);
        let soon = LATE.max(witness.slowest * 2);
        let is_next = left.map(|(_, left)| *left + soon).max() > Some(kernel::elapsed());
        let is_sure = witness.is_steady
            && !witness.has_hidden
            && !kernel::is_dead(call.process)
            && !witness.expired.contains(&session);
        (is_sure && !has_one && !is_next)
            .then(|| format!("client {} waits for {} without a turn", call.process.0, call.place))
    });
}

impl Witness {
    /// Returns the place of a call of this process that has waited since then for its own node at `path` alone.
    fn waits_for_own(&self, process: Process, path: &str, since: Duration) -> Option<Place> {
        let directory = parent(path);
        let number = number_of(path);
        // A semaphore's turns are in another directory, where others may wait.
        let turns = directory.strip_suffix("/leases").map(|place| format!("{place}/locks"));
        let is_near = |other: &str| [Some(directory), turns.as_deref()].contains(&Some(other));
        let beside = self.nodes.iter().filter(|(other, _)| is_near(parent(other)));
        let (owner, is_permit) = (self.nodes.get(path)?.owner, directory.ends_with("/leases"));
        let is_here = |held: &Held| held.nodes.iter().any(|(node, _)| parent(node) == directory);
        let holds = self.held.values().any(|held| !held.has_left && is_here(held));
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
                    // The call wants all permits, so the permit at `path` keeps it waiting.
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

    pub(super) fn does_wait(&self, its: Level) -> bool {
        self.waiting.values().any(|call| level(call.process, call.kind, call.place) == its)
    }

    /// Returns whether a call of the running process for several locks may have had the one at this path since then.
    pub(super) fn several_had(&self, path: &str, since: Duration) -> bool {
        let ended = self.ended_at.iter().filter(|(place, _)| place.path() == path);
        self.several_may_have(kernel::own_process(), path)
            || ended.map(|(_, ended)| *ended).max() >= Some(since)
    }

    /// Returns whether a call of the process for several locks may have the one at this path. It gives that back
    /// before it returns, unless it takes the others.
    pub(super) fn several_may_have(&self, process: Process, path: &str) -> bool {
        self.waiting.values().any(|call| {
            let is_its = call.kind == Kind::Several && call.process == process;
            is_its && call.place.path() == path
        })
    }
}
