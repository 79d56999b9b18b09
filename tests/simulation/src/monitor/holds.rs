//! Checks holds: their nodes, how soon they are granted, and how long they last. Mutual exclusion and tokens are
//! checked by the checkers of histories.

use std::time::Duration;

use kernel::Process;
use zoolock::{Hold, HoldState, LossReason};
use zoolock_checker::{HoldId, Mode, Unlocked};

use super::acquisitions::{NodeId, id_of};
use super::outages::has_lost_one;
use super::{
    Maker, Monitor, Node, QueueId, SECOND, UNTOLD, check, monitor, parent, queue, violation,
};
use crate::client::{SLACK, board, has_jumped, has_stalled};
use crate::histories;
use crate::plan::{Kind, Place};

pub(crate) struct Held {
    pub process: Process,
    pub who: String,
    pub kind: Kind,
    pub place: Place,
    pub mode: Mode,
    /// All holds of a grant, and their nodes. A semaphore's grant has a hold for each permit.
    pub holds: Vec<Hold>,
    pub nodes: Vec<NodeId>,
    pub token: u64,
    granted: Duration,
    /// The id of the hold, which is also in the history and in the data of its writes.
    pub id: HoldId,
    /// The earliest and the latest time at which the hold ends by its time limit.
    lasts: Option<(Duration, Duration)>,
    /// Whether the owner is releasing the hold, or has detected that the hold is over.
    pub(super) has_left: bool,
    /// Whether its node was deleted or its session was ended by others, which the owner may not have detected yet.
    pub(super) is_doubtful: bool,
}

/// The in-process queue that a lock uses: a process, and the kind and place of the lock.
pub(super) type Level = (Process, Kind, Place);

pub(super) fn level(process: Process, kind: Kind, place: Place) -> Level {
    let kind = match kind {
        Kind::Several | Kind::Leadership => Kind::Exclusive,
        kind => kind,
    };
    (process, kind, place)
}

impl Held {
    pub(crate) fn new(who: String, kind: Kind, place: Place, mode: Mode, holds: Vec<Hold>) -> Held {
        Held {
            process: kernel::own_process(),
            who,
            kind,
            place,
            mode,
            nodes: holds.iter().map(|hold| id_of(kind, hold)).collect(),
            token: holds.first().map_or(0, |hold| hold.fencing_token()),
            holds,
            granted: kernel::elapsed(),
            id: histories::next_hold(),
            lasts: None,
            has_left: false,
            is_doubtful: false,
        }
    }

    /// Returns whether the process considers the lock held, or `None` if finding out would have to wait for a thread.
    pub(super) fn is_held(&self) -> Option<bool> {
        kernel::peek(self.process, || self.holds.iter().all(Hold::is_held))
    }

    /// Returns whether one of the holds has such a state, or `None` if finding out would have to wait for a thread.
    pub(super) fn has(&self, is_like: impl Fn(HoldState) -> bool) -> Option<bool> {
        kernel::peek(self.process, || self.holds.iter().any(|hold| is_like(hold.state())))
    }

    pub(super) fn queue(&self) -> QueueId {
        queue(self.kind, self.place)
    }

    pub(super) fn level(&self) -> Level {
        level(self.process, self.kind, self.place)
    }

    pub(super) fn has_node(&self, path: &str) -> bool {
        self.nodes.iter().any(|(node, _)| node == path)
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|(path, _)| &**path)
    }

    /// Checks that the hold has not exceeded its time limit, and that it was not lost for that reason before the limit.
    fn check_time(&self) -> Option<String> {
        let now = kernel::elapsed();
        let was_too_long = self.has(|state| state == HoldState::Lost(LossReason::HeldTooLong))?;
        let (who, place) = (&self.who, self.place);
        // The clock of a suspended machine does not advance.
        if has_jumped(self.process, self.granted) {
            return None;
        }
        match self.lasts {
            Some((_, end)) if now > end + SLACK && self.is_held() == Some(true) => {
                Some(format!("{who} has {place} at {now:?}, until {end:?} at the latest"))
            }
            Some((end, _)) if was_too_long && now < end => {
                Some(format!("{who} had {place} for too long at {now:?}, before {end:?}"))
            }
            // A read below a write may end with the write. The options of a leadership are not known here.
            None if was_too_long && !matches!(self.kind, Kind::Read | Kind::Leadership) => {
                Some(format!("{who} had {place} for too long without a limit"))
            }
            _ => None,
        }
    }
}

/// Records and checks a grant. Its call began at `begun`, and the hold lasts for at most `most`. If it is a read below
/// the thread's own write, `under` is the hold of that write.
pub(crate) fn granted(
    mut held: Held,
    begun: Duration,
    most: Option<Duration>,
    under: Option<usize>,
) -> usize {
    kernel::note(|| format!("has {} ({:?}), token {:#x}", held.place, held.kind, held.token));
    let is_held = held.is_held() == Some(true);
    monitor(|monitor| {
        monitor.check_nodes(&mut held, under, is_held);
        monitor.note_losses();
        monitor.check_wait(&held, begun).into_iter().for_each(violation);
        let under = under.and_then(|under| Some(monitor.held.get(&under)?.id));
        histories::granted(&held, begun, under);
        if held.is_held() == Some(false) {
            histories::lost(held.id);
        }
        if held.is_doubtful {
            histories::doubted(held.id);
        }
        let number = held.id.number as usize;
        if held.mode == Mode::Exclusive {
            // If the owner cannot detect that its node is gone, it does not count as having acquired the lock.
            if !held.is_doubtful {
                monitor.queues.entry(held.queue()).or_default().newest = number;
            }
            monitor.exclusive.insert(number, held.queue());
        }
        held.lasts = most.map(|time| (begun + time, held.granted + time));
        monitor.held.insert(number, held);
        number
    })
}

impl Monitor {
    /// Checks that the nodes of a grant exist. If others have deleted them, records that.
    fn check_nodes(&self, held: &mut Held, under: Option<usize>, is_held: bool) {
        for (path, token) in &held.nodes {
            // The client may take a new directory for the one that it found empty.
            held.is_doubtful |= self.untold.contains(parent(path));
            let is_robbed = || self.is_robbed(held.process, path);
            let problem = match (self.nodes.get(path), self.gone.get(path)) {
                (Some(node), _) if node.czxid as u64 == *token => continue,
                // A read below a write has the token of the write, and not that of its own node.
                (Some(_), _) if under.is_some() => continue,
                // Others deleted the process's node, and this one has the same name.
                (Some(_), _) if is_robbed() => {
                    held.is_doubtful = true;
                    continue;
                }
                (Some(_), _) => "with another token than its node",
                // Others deleted a node with this name.
                (None, Some(gone)) if gone.by_somebody || is_robbed() => {
                    held.is_doubtful = true;
                    if !gone.was_behind || under.is_some() {
                        continue;
                    }
                    "which was deleted when others were ahead of it"
                }
                (None, _) => "which does not exist",
            };
            // If it is not held, it ended before the grant was recorded, for example because the client was closed.
            if is_held {
                violation(format!("{} has {path}, {problem}", held.who));
            }
        }
    }

    /// Notifies the checkers of histories which holds are lost, because lost holds no longer exclude others.
    fn note_losses(&self) {
        for held in self.held.values().filter(|held| !held.has_left) {
            match held.is_held() {
                Some(true) => {}
                Some(false) => histories::lost(held.id),
                // Finding out would have to wait for another thread, so the state of the hold is unknown.
                None => histories::doubted(held.id),
            }
        }
    }

    /// Checks that a lock is granted soon after it has become free.
    fn check_wait(&self, held: &Held, begun: Duration) -> Option<String> {
        // A semaphore may have fewer permits for a while, and a leadership begins and ends terms by itself.
        let is_well = self.is_well
            && !matches!(held.kind, Kind::Semaphore | Kind::Several | Kind::Leadership);
        let soon = if is_well {
            self.soon()
        } else if board(|board| board.are_healed) {
            // After a long outage, the client waits for a second between two handshakes.
            self.soon() + Duration::from_secs(1)
        } else if self.is_gentle && held.kind != Kind::Several {
            // A client that was disconnected must reconnect first. A multi-lock's second place may be kept for as long
            // as its options require.
            self.timeout * 3 / 4
        } else {
            return None;
        };
        // Threads of a process have to wait until their client has detected that the hold is lost.
        let key = held.level();
        let is_robbed = |one: &Held| one.level() == key && one.is_doubtful;
        let was_lost = self.lost_at.get(&key).is_some_and(|at| *at >= begun)
            || self.held.values().any(is_robbed);
        if was_lost || self.several_may_have(held.process, held.place.path()) {
            return None;
        }
        // A call cannot have waited for a node that it has created itself.
        let is_own = |maker: &Maker, made: Duration| made >= begun && self.is_of_thread(maker);
        // Every multi-lock also needs the second place.
        let directories = || held.paths().map(parent).chain([SECOND]);
        let left = directories().filter_map(|directory| self.left_at.get(directory)).flatten();
        let freed = left.filter(|(maker, (made, _))| !is_own(maker, *made));
        let freed = freed.map(|(_, (_, left))| *left);
        let freed = freed.chain(self.ended_at.get(&held.place).copied());
        // A call may have begun before the client's first session.
        let freed = freed.chain(self.connected.get(&held.process).map(|(at, _)| *at));
        let late = kernel::elapsed() - freed.fold(begun, Duration::max);
        (late > soon)
            .then(|| format!("{} has {} only {late:?} after it was free", held.who, held.place))
    }
}

/// Records that a hold lasts until `time` after `begun`, but for at least `least` after its grant.
pub(crate) fn lasts(hold: usize, begun: Duration, time: Duration, least: Duration) {
    monitor(|monitor| {
        if let Some(held) = monitor.held.get_mut(&hold) {
            let end = (kernel::elapsed() + time).max(held.granted + least);
            held.lasts = Some((begun + time, end));
        }
    });
}

/// Records that the owner begins to release a hold.
pub(crate) fn left(hold: usize) {
    check(|monitor| monitor.held.get(&hold).and_then(Held::check_time));
    monitor(|monitor| {
        if let Some(held) = monitor.held.get_mut(&hold) {
            let (is_held, now) = (held.is_held(), kernel::elapsed());
            if is_held == Some(false) {
                histories::lost(held.id);
            }
            if is_held != Some(true) {
                monitor.lost_at.insert(held.level(), now);
            }
            held.has_left = true;
            let nodes = held.nodes.iter().map(|(path, _)| ((path.clone(), held.token), now));
            monitor.given.extend(nodes);
            monitor.ended_at.insert(held.place, now);
            histories::left(held.id);
        }
    });
}

/// Checks that a multi-lock's member that its process considers held is first in its queue.
pub(crate) fn is_first(who: &str, own: &Hold) {
    let (process, (path, token)) = (kernel::own_process(), id_of(Kind::Several, own));
    check(|monitor| {
        let is_first = |node: &Node| !monitor.is_behind(&path, node.czxid);
        let is_its = monitor.node(&path, token).is_some_and(is_first);
        let is_doubtful = monitor.is_robbed(process, &path)
            || monitor.untold.contains(parent(&path))
            || kernel::peek(process, || own.is_held()) != Some(true);
        (!is_its && !is_doubtful).then(|| format!("{who} holds {path} with others, and has it not"))
    });
}

/// Returns whether a hold is lost, and its process has detected that.
pub(crate) fn is_lost(hold: usize) -> bool {
    let is_lost = |held: &Held| held.has(|state| matches!(state, HoldState::Lost(_)));
    monitor(|monitor| monitor.held.get(&hold).and_then(is_lost)) == Some(true)
}

/// Returns whether the running process may lose a lock at this path for such a reason.
pub(crate) fn may_be_lost(lock: &str, reason: LossReason) -> bool {
    let process = kernel::own_process();
    monitor(|monitor| match reason {
        LossReason::NodeDeleted => {
            let is_its = |session| monitor.sessions.get(session) == Some(&process);
            monitor.robbed.iter().any(|(session, node)| node.starts_with(lock) && is_its(session))
        }
        // In other runs, an answer may be so late that a lease ends without a recorded outage.
        LossReason::LeaseExpired => {
            !(monitor.is_steady && monitor.is_quick)
                || has_lost_one(&monitor.outages, process)
                || has_jumped(process, Duration::ZERO)
        }
        _ => true,
    })
}

pub(crate) fn ended(hold: usize, said: Unlocked) {
    monitor(|monitor| {
        if let Some(held) = monitor.held.remove(&hold) {
            histories::unlocked(held.id, said);
            // The hold may have been lost after its owner had begun to release it.
            if held.has(|state| matches!(state, HoldState::Lost(_))) != Some(false) {
                monitor.lost_at.insert(held.level(), kernel::elapsed());
            }
            monitor.ended_at.insert(held.place, kernel::elapsed());
            if !matches!(held.kind, Kind::Read | Kind::Write) {
                let locks = held.holds.iter().map(|hold| hold.path().to_owned());
                monitor.former.extend(locks.zip(held.nodes));
            }
        }
    });
}

/// Checks a holder that has polled for revocation requests since `since`: if there was a request for its first node,
/// the holder must have received it in time.
pub(crate) fn listened(hold: usize, since: Duration) {
    check(|monitor| {
        // No revocation can be requested for the node of an `EphemeralLock`.
        let held = monitor.held.get(&hold).filter(|held| held.kind != Kind::Single)?;
        let asked = monitor.requested.get(held.nodes.first()?)?;
        // From time to time, clients check nodes for which they have received no event.
        let limit = match (monitor.has_hidden, monitor.is_steady) {
            (true, _) => monitor.timeout * UNTOLD,
            (false, true) => monitor.soon(),
            (false, false) => monitor.timeout * 3 / 2,
        };
        let late = kernel::elapsed() - since.max(*asked);
        let is_well = held.has(|state| state != HoldState::Held) == Some(false)
            && !has_stalled(held.process, since);
        (is_well && late > limit).then(|| {
            format!("{} was not notified for {late:?} of a request for {}", held.who, held.place)
        })
    });
}

/// Returns the lock and node of one of the last two holds that have ended.
pub(crate) fn former() -> Option<(String, NodeId)> {
    let back = kernel::with_random(|random| random.usize(1..3));
    monitor(|monitor| {
        let index = monitor.former.len().checked_sub(back)?;
        monitor.former.get(index).cloned()
    })
}

/// Returns whether a process has a hold here, possibly a lost one, or a call that is waiting or has just been granted.
pub(crate) fn has_here(process: Process, kind: Kind, place: Place) -> bool {
    may_hold_here(process, kind, place)
        || monitor(|monitor| monitor.does_wait(level(process, kind, place)))
}

/// Returns whether a process has a hold here, possibly a lost one, or a multi-lock call that may hold the lock. For
/// permits, a waiting call counts as well, because it may have the turn.
pub(crate) fn may_hold_here(process: Process, kind: Kind, place: Place) -> bool {
    let key = level(process, kind, place);
    monitor(|monitor| {
        monitor.held.values().any(|held| held.level() == key)
            || monitor.several_may_have(key.0, place.path())
            || kind == Kind::Semaphore && monitor.does_wait(key)
    })
}

/// Returns how many holds a thread has in a queue, including lost ones.
pub(crate) fn holds_here(who: &str, kind: Kind, place: Place) -> usize {
    let is_here = |held: &&Held| held.who == who && held.queue() == queue(kind, place);
    monitor(|monitor| monitor.held.values().filter(is_here).count())
}

/// Returns whether a hold has not ended, and nobody else has deleted its node.
pub(crate) fn is_sure(hold: usize) -> bool {
    monitor(|monitor| monitor.held.get(&hold).is_some_and(|held| !held.is_doubtful))
}

/// Checks that a hold whose node was deleted at `begun` is over: its owner has detected that, or its lease has ended.
pub(super) fn goes_on(hold: usize, begun: Duration) {
    check(|monitor| {
        let held = monitor.held.get(&hold).filter(|held| !held.has_left)?;
        let is_well = !kernel::is_dead(held.process) && !has_stalled(held.process, begun);
        let goes_on = held.has(|state| state != HoldState::Held) == Some(false);
        (is_well && goes_on).then(|| {
            format!("{} has {} since its node was deleted at {begun:?}", held.who, held.place)
        })
    });
}
