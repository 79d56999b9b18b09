//! Checks waiting calls: their order within a process, and what they wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Process;
use zoolock_checker::Mode;

use super::holds::{Held, Level, level};
use super::tree::number_of;
use super::{LATE, Monitor, check, limit, monitor, parent, queue};
use crate::client::has_stalled;
use crate::histories;
use crate::plan::{Kind, ObjectPlan, Place};

/// A call that may have to wait.
pub(super) struct Waiting {
    pub(super) process: Process,
    /// The index of the object on which the call was made, unless the object was created for the call.
    object: Option<usize>,
    pub(super) kind: Kind,
    pub(super) place: Place,
    mode: Mode,
    begun: Duration,
    /// When the call's turn node was deleted by someone other than its client.
    pub(super) turnless: Option<Duration>,
    /// Whether the call has been cancelled, and is about to return.
    is_cancelled: bool,
    /// Whether the hold may end even before the call returns.
    is_brief: bool,
}

pub(crate) fn waits(object: Option<usize>, plan: &ObjectPlan, mode: Mode) -> usize {
    let ObjectPlan { kind, place, ref options } = *plan;
    let is_brief = options.hold_at_most.is_some_and(|time| time < LATE);
    let (process, begun, number) = (kernel::own_process(), kernel::elapsed(), histories::next());
    let (turnless, is_cancelled) = (None, false);
    let call =
        Waiting { process, object, kind, place, mode, begun, turnless, is_cancelled, is_brief };
    monitor(|monitor| monitor.waiting.insert(number, call));
    number
}

pub(crate) fn cancels(object: usize) {
    monitor(|monitor| {
        let its = (kernel::own_process(), Some(object));
        let is_its = |call: &&mut Waiting| (call.process, call.object) == its;
        let own = monitor.waiting.values_mut().filter(is_its);
        own.for_each(|call| call.is_cancelled = true);
    });
}

pub(crate) fn waits_no_more(number: usize) {
    monitor(|monitor| {
        let call = monitor.waiting.remove(&number);
        // Until now, the call of a multi-lock may have held this lock.
        if let Some(call) = call.filter(|call| call.kind == Kind::Several) {
            monitor.ended_at.insert(call.place, kernel::elapsed());
        }
    });
}

/// Checks that threads of a process acquire the lock in the order of their calls. Call `number` is that of `who`.
pub(crate) fn in_order(number: usize, who: &str) {
    check(|monitor| {
        let own = &monitor.waiting[&number];
        if matches!(own.kind, Kind::Read | Kind::Semaphore | Kind::Several | Kind::Leadership) {
            return None;
        }
        let its = queue(own.kind, own.place);
        let is_again = |held: &Held| held.who == who && held.queue() == its && !held.has_left;
        // A thread may be delayed after its call has begun and before it queues.
        let is_earlier = |other: &&Waiting| {
            (other.process, other.kind, other.place) == (own.process, own.kind, own.place)
                && other.begun + monitor.late() < own.begun
                && !other.is_cancelled
                && !other.is_brief
                && !has_stalled(own.process, other.begun)
        };
        let other = monitor.waiting.values().find(is_earlier)?;
        // A lost hold keeps its object in use until it is unlocked, so calls on other objects may precede calls on it.
        let key = level(own.process, own.kind, own.place);
        let is_lost = |held: &Held| held.level() == key && held.is_held() != Some(true);
        let was_lost = monitor.lost_at.get(&key).is_some_and(|at| *at >= other.begun);
        let mut held = monitor.held.values();
        (!was_lost && !held.any(|held| is_again(held) || is_lost(held))).then(|| {
            let (one, begun) = (own.begun, other.begun);
            format!("{who}, who called at {one:?}, has {} before a call of {begun:?}", own.place)
        })
    });
}

/// Records that the servers refuse to delete a client's own node. Checks later that none of its threads waits for it.
pub(crate) fn may_not_delete(process: Process, path: &str) {
    let known = monitor(|monitor| {
        // A reserved node is deleted only by `break_lock`, and not by its own client.
        let is_known = monitor.is_steady && !monitor.reserved.contains_key(path);
        let node = monitor.nodes.get(path).filter(|_| is_known)?;
        Some((node.czxid, monitor.timeout))
    });
    let Some((czxid, time)) = known else { return };
    let (path, begun) = (path.to_owned(), kernel::elapsed());
    kernel::after(time, move || {
        check(|monitor| {
            let is_there = monitor.nodes.get(&path).is_some_and(|node| node.czxid == czxid);
            // If the node was in use until now, this is not a problem.
            let given = monitor.given.get(&(path.clone(), czxid as u64));
            let is_idle = given.is_none_or(|given| *given <= begun);
            let who = monitor.waits_for_own(process, &path, begun)?;
            (is_there && is_idle)
                .then(|| format!("client {} waits for {who} behind its own {path}", process.0))
        });
    });
}

/// Checks a call whose turn node was last deleted by others at `lost`: it must have another one in this session.
pub(super) fn has_a_turn(call: usize, session: i64, lost: Duration) {
    check(|monitor| {
        let call = monitor.waiting.get(&call).filter(|call| call.turnless == Some(lost))?;
        let turns = format!("{}/locks", call.place);
        let has_one = monitor.children(&turns).any(|(_, node)| node.owner == session);
        // When a thread of the process gives up its turn node, the next thread of the process creates one after that.
        let left = monitor.left_at.get(&turns).into_iter().flat_map(BTreeMap::values);
        let soon = LATE.max(monitor.slowest * 2);
        let is_next = left.map(|(_, left)| *left + soon).max() > Some(kernel::elapsed());
        let is_sure = monitor.is_steady
            && !monitor.has_hidden
            && !kernel::is_dead(call.process)
            && !monitor.expired.contains(&session);
        (is_sure && !has_one && !is_next)
            .then(|| format!("client {} waits for {} without a turn", call.process.0, call.place))
    });
}

impl Monitor {
    /// Returns the place of a call of the process that has been waiting only for its own node at `path` since `since`.
    fn waits_for_own(&self, process: Process, path: &str, since: Duration) -> Option<Place> {
        let directory = parent(path);
        let number = number_of(path);
        // A semaphore's turn nodes are in another directory, where other contenders may wait.
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
                    // The call requests all permits, so it cannot be granted before the permit at `path` is released.
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

    /// Returns whether a multi-lock call of the running process may have held the lock at this path since `since`.
    pub(super) fn several_had(&self, path: &str, since: Duration) -> bool {
        let ended = self.ended_at.iter().filter(|(place, _)| place.path() == path);
        self.several_may_have(kernel::own_process(), path)
            || ended.map(|(_, ended)| *ended).max() >= Some(since)
    }

    /// Returns whether a multi-lock call of the process may hold the lock at this path. Unless such a call acquires all
    /// other members as well, it releases the lock before it returns.
    pub(super) fn several_may_have(&self, process: Process, path: &str) -> bool {
        self.waiting.values().any(|call| {
            let is_its = call.kind == Kind::Several && call.process == process;
            is_its && call.place.path() == path
        })
    }
}
