//! The calls of a client that wait: where, and what ends them before their deadline. That is a
//! cancel, an outage that is longer than a call allows, or a deadlock. It sends no requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contender::Deadlock;
use crate::kind::LockKind;
use crate::path::LockPath;
use crate::signal::{Ended, Signal};
use crate::sys::thread::{self, ThreadId};
use crate::sys::{self, Mutex};

/// A waiting call looks for a deadlock at intervals that double, up to this many times the first.
const LONGEST_PAUSE: u32 = 12;

/// The waiting calls of one client.
#[derive(Debug)]
pub(crate) struct WaitingCalls {
    table: Mutex<Table>,
    deadlocks: DeadlockCheck,
}

/// What waiting calls do about deadlocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadlockCheck {
    /// After this time a call looks for one.
    pub(crate) after: Duration,
    /// The youngest call of one fails.
    pub(crate) fails: bool,
}

#[derive(Debug, Default)]
struct Table {
    /// By their numbers, so that they end in the order in which they began.
    calls: BTreeMap<u64, Entry>,
    /// The number of the last call.
    last: u64,
    /// Since when there is no connection.
    outage: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    /// The number of the lock object.
    object: u64,
    /// How long the call goes on without a connection, and since when it counts at the earliest.
    connection: Option<(Duration, Instant)>,
    call: Arc<Call>,
}

#[derive(Debug)]
struct Call {
    signal: Signal,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What ended the call, if that was no cancel. The first cause counts.
    cause: Option<Cause>,
    waits: Option<Waits>,
}

/// What ends a call, other than a cancel.
#[derive(Debug, Clone)]
pub(crate) enum Cause {
    Outage,
    Deadlock(Arc<Deadlock>),
}

/// How a call waits for others.
#[derive(Debug)]
struct Waits {
    waiter: Waiter,
    /// When it looks for a deadlock next, and how long after that again. `None` is never.
    look: Option<Instant>,
    pause: Duration,
}

/// Where a call waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its process, behind the thread that has the first level.
    FirstLevel { lock: LockPath, directory: LockPath, kind: LockKind },
    /// In the queue of this directory, with the node of this name.
    Queue { directory: LockPath, name: String },
    /// For the end of the single node at this path.
    SingleNode(LockPath),
}

/// A call that waits for others.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    /// Later calls have higher numbers.
    pub(crate) number: u64,
    pub(crate) thread: ThreadId,
    /// The identity in its node, which it may not have.
    pub(crate) identity: Arc<str>,
    pub(crate) since: Instant,
    pub(crate) place: Place,
    /// Others can read what the thread holds.
    pub(crate) is_told: bool,
}

impl Place {
    /// Returns the path of the lock.
    pub(crate) fn lock(&self) -> &LockPath {
        match self {
            Place::FirstLevel { lock, .. } => lock,
            Place::Queue { directory, .. } => directory,
            Place::SingleNode(path) => path,
        }
    }

    /// Returns the path of the node that waits.
    pub(crate) fn node(&self) -> Option<String> {
        match self {
            Place::Queue { directory, name } => Some(directory.child(name)),
            Place::FirstLevel { .. } | Place::SingleNode(_) => None,
        }
    }
}

/// A call that may have to wait, until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    all: Arc<WaitingCalls>,
    number: u64,
    call: Arc<Call>,
}

impl Default for DeadlockCheck {
    fn default() -> DeadlockCheck {
        DeadlockCheck { after: Duration::from_secs(5), fails: false }
    }
}

impl WaitingCalls {
    pub(crate) fn new(deadlocks: DeadlockCheck) -> WaitingCalls {
        WaitingCalls { table: Mutex::default(), deadlocks }
    }

    /// Registers a call for a lock object, which goes on for this long without a connection.
    pub(crate) fn begin(
        self: &Arc<Self>,
        object: u64,
        connection: Option<Duration>,
    ) -> WaitingCall {
        let call = Arc::new(Call { signal: Signal::new(), state: Mutex::default() });
        let connection = connection.map(|limit| (limit, sys::now()));
        let mut table = self.table.lock();
        table.last += 1;
        let number = table.last;
        table.calls.insert(number, Entry { object, connection, call: Arc::clone(&call) });
        WaitingCall { all: Arc::clone(self), number, call }
    }

    /// Ends the calls for this lock object; all calls for `None`.
    pub(crate) fn cancel(&self, object: Option<u64>) {
        let is_its = |entry: &&Entry| object.is_none_or(|object| entry.object == object);
        let calls: Vec<_> = {
            let table = self.table.lock();
            table.calls.values().filter(is_its).map(|entry| Arc::clone(&entry.call)).collect()
        };
        for call in calls {
            call.signal.raise();
        }
    }

    /// Notes that there is a connection.
    pub(crate) fn end_outage(&self) {
        self.table.lock().outage = None;
    }

    /// Ends the calls that have gone on for long enough without a connection, of which there is none
    /// now. Returns when the next one will have.
    pub(crate) fn end_overdue(&self) -> Option<Instant> {
        let now = sys::now();
        let (mut over, mut next) = (Vec::new(), None);
        {
            let mut table = self.table.lock();
            let outage = *table.outage.get_or_insert(now);
            for entry in table.calls.values() {
                // A limit too large for the clock is none.
                let due = entry
                    .connection
                    .and_then(|(limit, begun)| begun.max(outage).checked_add(limit));
                match due {
                    Some(due) if due <= now => over.push(Arc::clone(&entry.call)),
                    due => next = next.into_iter().chain(due).min(),
                }
            }
        }
        for call in over {
            sys::reached("an outage is longer than a waiting call allows");
            call.end(Cause::Outage);
        }
        next
    }

    /// Returns the calls that wait for others, in the order in which they began.
    pub(crate) fn waiters(&self) -> Vec<Waiter> {
        let calls: Vec<_> = {
            let table = self.table.lock();
            table.calls.values().map(|entry| Arc::clone(&entry.call)).collect()
        };
        let waiter = |call: Arc<Call>| {
            let state = call.state.lock();
            state.waits.as_ref().map(|waits| waits.waiter.clone())
        };
        calls.into_iter().filter_map(waiter).collect()
    }
}

impl Call {
    fn end(&self, cause: Cause) {
        self.state.lock().cause.get_or_insert(cause);
        self.signal.raise();
    }
}

impl WaitingCall {
    /// Returns a signal that is ready when the call has to end before its deadline.
    pub(crate) fn ended(&self) -> &Ended {
        self.call.signal.ended()
    }

    /// Returns what has ended the call, if that was no cancel.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.call.state.lock().cause.clone()
    }

    // ---- deadlocks

    /// Notes where the call waits for others, on this thread. At another place it may have closed a
    /// circle, so its looks begin again.
    pub(crate) fn waits_at(&self, place: Place, identity: &Arc<str>) {
        let (now, pause) = (sys::now(), self.all.deadlocks.after);
        let waits = &mut self.call.state.lock().waits;
        if waits.as_ref().is_some_and(|waits| waits.waiter.place == place) {
            return;
        }
        let last = waits.take();
        let since = last.as_ref().map_or(now, |last| last.waiter.since);
        let soonest =
            last.and_then(|last| last.look).into_iter().chain(now.checked_add(pause)).min();
        let (number, thread, identity) =
            (self.number, thread::current().id(), Arc::clone(identity));
        let waiter = Waiter { number, thread, identity, since, place, is_told: false };
        *waits = Some(Waits { waiter, look: soonest, pause });
    }

    /// Returns when the call looks for a deadlock next.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.call.state.lock().waits.as_ref().and_then(|waits| waits.look)
    }

    /// Returns how the call waits if it is to look for a deadlock now.
    pub(crate) fn start_look(&self) -> Option<Waiter> {
        let now = sys::now();
        let waits = &mut self.call.state.lock().waits;
        let waits = waits.as_mut().filter(|waits| waits.look.is_some_and(|look| look <= now))?;
        let longest = self.all.deadlocks.after.saturating_mul(LONGEST_PAUSE);
        waits.look = now.checked_add(waits.pause);
        waits.pause = waits.pause.saturating_mul(2).min(longest);
        Some(waits.waiter.clone())
    }

    /// Notes that others can read in the node at this place what the thread holds.
    pub(crate) fn note_told(&self, at: &Place) {
        let waits = &mut self.call.state.lock().waits;
        let waiter = waits.as_mut().map(|waits| &mut waits.waiter);
        let here = waiter.filter(|waiter| waiter.place == *at);
        here.into_iter().for_each(|waiter| waiter.is_told = true);
    }

    /// Ends the call, which is the youngest of a deadlock, if calls of this client do that.
    pub(crate) fn break_deadlock(&self, deadlock: Deadlock) {
        if self.all.deadlocks.fails {
            sys::reached("the youngest call of a deadlock fails");
            self.call.end(Cause::Deadlock(Arc::new(deadlock)));
        }
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.all.table.lock().calls.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::TryRecvError;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn all() -> Arc<WaitingCalls> {
        Arc::new(WaitingCalls::new(DeadlockCheck { after: HOUR, fails: true }))
    }

    fn is_by_outage(call: &WaitingCall) -> bool {
        matches!(call.cause(), Some(Cause::Outage))
    }

    fn is_ended(call: &WaitingCall) -> bool {
        call.ended().try_recv() == Err(TryRecvError::Disconnected)
    }

    #[test]
    fn cancel_ends_the_calls_of_one_object_or_all_and_no_later_one() {
        let all = all();
        let (one, other) = (all.begin(1, None), all.begin(2, None));
        all.cancel(Some(1));
        let later = all.begin(1, None);
        assert!(is_ended(&one) && !is_ended(&other) && !is_ended(&later));
        all.cancel(None);
        assert!(is_ended(&other) && is_ended(&later));
        assert!(![one, other, later].iter().any(is_by_outage));
        assert!(all.table.lock().calls.is_empty());
    }

    #[test]
    fn outage_ends_the_calls_that_allow_less() {
        let all = all();
        let limits = [None, Some(Duration::ZERO), Some(HOUR), Some(Duration::MAX)];
        let calls = limits.map(|limit| all.begin(1, limit));
        let before = sys::now();
        let next = all.end_overdue().expect("one call ends in an hour");
        assert!((before + HOUR..=sys::now() + HOUR).contains(&next));
        let ended = [false, true, false, false];
        assert_eq!(calls.each_ref().map(is_ended), ended);
        assert_eq!(calls.each_ref().map(is_by_outage), ended);
        // A call that begins in the outage waits for its own time.
        let later = all.begin(1, Some(HOUR));
        drop(calls);
        assert!(all.end_overdue().expect("it ends in an hour") >= next);
        all.end_outage();
        let again = sys::now();
        assert!(all.end_overdue().expect("it ends in an hour") >= again + HOUR);
        assert!(!is_ended(&later));
    }

    #[test]
    fn looks_begin_again_at_another_place() {
        let check = DeadlockCheck { after: HOUR, fails: false };
        let call = Arc::new(WaitingCalls::new(check)).begin(1, None);
        let looks_at = |path: &str| {
            let place = Place::SingleNode(LockPath::parse(path).unwrap());
            call.waits_at(place, &"somebody".into());
            call.next_look().unwrap()
        };
        let first = looks_at("/a");
        assert_eq!((looks_at("/a"), looks_at("/b")), (first, first), "it is due before");
        let waits = |change: fn(&mut Waits)| change(call.call.state.lock().waits.as_mut().unwrap());
        waits(|waits| {
            waits.look = waits.look.map(|look| look + HOUR);
            waits.pause = 4 * HOUR;
        });
        assert_eq!(looks_at("/b"), first + HOUR);
        let (before, again) = (sys::now(), looks_at("/c"));
        assert!((before + HOUR..=sys::now() + HOUR).contains(&again));
        waits(|waits| assert_eq!(waits.pause, HOUR));
    }

    #[test]
    fn call_says_what_its_thread_holds_once_at_each_place() {
        let check = DeadlockCheck { after: Duration::ZERO, fails: false };
        let call = Arc::new(WaitingCalls::new(check)).begin(1, None);
        assert!(call.start_look().is_none(), "it does not wait yet");
        let path = |path: &str| Place::SingleNode(LockPath::parse(path).unwrap());
        let is_told = || call.start_look().expect("it is due").is_told;
        for place in [path("/a"), path("/b")] {
            call.waits_at(place.clone(), &"somebody".into());
            assert!(!is_told() && !is_told(), "there was no connection");
            call.note_told(&place);
            call.waits_at(place, &"somebody".into());
            assert!(is_told());
        }
        call.note_told(&path("/a"));
        assert!(is_told());
        call.waits_at(path("/a"), &"somebody".into());
        call.note_told(&path("/b"));
        assert!(!is_told(), "an earlier node was told");
    }
}
