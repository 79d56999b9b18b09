//! The first level alone: order and hand-over.

mod handing_over;

use std::sync::{Arc, Barrier};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::*;
use crate::signal::{Broadcast, Signal};

/// A time that is longer than any of these tests.
const LONG: Duration = Duration::from_secs(20);

/// The owner of a hold.
#[derive(PartialEq)]
enum OwnedBy {
    Thread,
    Object,
}

/// The number of the object of most tests, and of another one.
const ONE: u64 = 1;
const OTHER: u64 = 2;

/// A lock with one object, and the signal of its client's end.
struct Fixture {
    local: Local<u32, u32>,
    cancel: Broadcast,
    closed: Signal,
}

impl Fixture {
    fn new(owner: OwnedBy) -> Fixture {
        Fixture {
            local: Local::new(owner == OwnedBy::Thread, Box::new(|_| panic!("nothing was left"))),
            cancel: Broadcast::new(),
            closed: Signal::new(),
        }
    }

    fn until(&self, limit: Duration) -> Until {
        Until::new(Some(Instant::now() + limit), self.cancel.listen())
    }

    fn enter(&self, limit: Duration) -> Result<Entry<'_, u32, u32>, Stopped> {
        self.enter_as(ONE, limit)
    }

    fn enter_as(&self, object: u64, limit: Duration) -> Result<Entry<'_, u32, u32>, Stopped> {
        self.local.enter(object, &self.until(limit), self.closed.ended())
    }

    /// Enters without other threads.
    fn first(&self) -> Turn<'_, u32, u32> {
        first(self.enter(LONG))
    }

    fn last(&self) -> (u32, Turn<'_, u32, u32>) {
        match self.local.exit(ONE, None) {
            Ok(Exit::Last(hold, turn)) => (hold, turn),
            _ => panic!("not the last exit"),
        }
    }

    /// Returns how many threads have ever waited.
    fn queued(&self) -> u64 {
        self.local.state.lock().next
    }

    fn await_queued(&self, count: u64) {
        let begun = Instant::now();
        while self.queued() < count {
            assert!(begun.elapsed() < LONG, "{} waiters", self.queued());
            thread::yield_now();
        }
    }

    /// Starts a thread that enters, leaves, and reports the result. Returns when it waits.
    fn waiter<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        limit: Duration,
    ) -> ScopedJoinHandle<'s, Result<(), Stopped>> {
        let before = self.queued();
        let waiter = scope.spawn(move || self.enter(limit).map(drop));
        self.await_queued(before + 1);
        waiter
    }

    /// Asserts that no thread is in, and none waits.
    fn assert_free(&self) {
        let state = self.local.state.lock();
        let (owner, holds, waiting) = (state.owner, state.holds.len(), state.waiting.len());
        assert_eq!((owner, holds, waiting), (None, 0, 0));
    }
}

fn first<'a>(entered: Result<Entry<'a, u32, u32>, Stopped>) -> Turn<'a, u32, u32> {
    match entered {
        Ok(Entry::First(turn)) => turn,
        _ => panic!("not in as the first"),
    }
}

fn elsewhere<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(body).join().expect("the thread ends"))
}

// ---- one thread

#[test]
fn try_enter_is_refused_while_a_thread_is_inside_or_entering() {
    let fixture = Fixture::new(OwnedBy::Object);
    let refused = || elsewhere(|| fixture.local.try_enter(ONE).is_none());
    let turn = fixture.first();
    assert!(refused(), "on the way in");
    turn.keep(1);
    assert!(refused(), "held");
    let (_, turn) = fixture.last();
    assert!(refused(), "on the way out");
    drop(turn);
    let entered = elsewhere(|| matches!(fixture.local.try_enter(ONE), Some(Entry::First(_))));
    assert!(entered, "free");
    fixture.assert_free();
}

#[test]
fn owner_leaves_as_often_as_it_entered() {
    let fixture = Fixture::new(OwnedBy::Thread);
    fixture.first().keep(7);
    for depth in 2..=3 {
        match fixture.enter(LONG) {
            Ok(Entry::Again(7)) => fixture.local.deepen(ONE),
            _ => panic!("not in again"),
        }
        assert_eq!(fixture.local.depth(ONE), depth);
    }
    assert!(matches!(fixture.local.try_enter(ONE), Some(Entry::Again(7))));
    for depth in [2, 1] {
        let exit = fixture.local.exit(ONE, None);
        assert!(matches!(exit, Ok(Exit::Inner(7))));
        assert_eq!(fixture.local.depth(ONE), depth);
    }
    drop(fixture.last());
    fixture.assert_free();
}

#[test]
fn stale_guard_ends_nothing() {
    let fixture = Fixture::new(OwnedBy::Object);
    assert_eq!(fixture.local.exit(ONE, None).err(), Some(Refused::NotHeld));
    fixture.first().keep(7);
    let exit = |only: u32| fixture.local.exit(ONE, Some(&move |hold| *hold == only));
    assert_eq!(exit(6).err(), Some(Refused::NotHeld));
    assert_eq!(fixture.local.hold(ONE), Some(7));
    let Ok(Exit::Last(7, turn)) = exit(7) else {
        panic!("its own guard ends it");
    };
    assert_eq!(exit(7).err(), Some(Refused::NotHeld), "on the way out");
    drop(turn);
    assert_eq!(exit(7).err(), Some(Refused::NotHeld), "afterwards");
    fixture.assert_free();
}

// ---- several objects

#[test]
fn lost_hold_keeps_its_own_object_in_use_and_no_other() {
    let fixture = Fixture::new(OwnedBy::Object);
    thread::scope(|scope| {
        fixture.first().keep(7);
        let its = fixture.waiter(scope, LONG);
        let others = scope.spawn(|| first(fixture.enter_as(OTHER, LONG)).keep(8));
        fixture.await_queued(2);
        fixture.local.lose(|hold| *hold == 6);
        assert!(!others.is_finished(), "another hold was lost");
        fixture.local.lose(|hold| *hold == 7);
        others.join().expect("it is in");
        fixture.local.lose(|hold| *hold == 7);
        assert_eq!((fixture.local.hold(ONE), fixture.local.hold(OTHER)), (Some(7), Some(8)));
        assert!(matches!(fixture.local.exit(ONE, None), Ok(Exit::Lost(7))));
        assert!(!its.is_finished(), "the other object is held");
        drop(fixture.local.end(OTHER));
        assert_eq!(its.join().expect("it is in"), Ok(()));
    });
    fixture.assert_free();
}

#[test]
fn hold_is_not_handed_to_a_thread_behind_the_lost_hold_of_its_object() {
    let fixture = Fixture::new(OwnedBy::Object);
    thread::scope(|scope| {
        fixture.first().keep(7);
        let its = fixture.waiter(scope, LONG);
        fixture.local.lose(|hold| *hold == 7);
        let turn = first(fixture.enter_as(OTHER, LONG));
        assert!(!turn.may_hand_over(u32::MAX));
        drop(turn);
        assert!(matches!(fixture.local.exit(ONE, None), Ok(Exit::Lost(7))));
        assert_eq!(its.join().expect("it is in"), Ok(()));
    });
    fixture.assert_free();
}

#[test]
fn unlock_of_a_lost_hold_lets_a_thread_of_its_object_in() {
    let fixture = Fixture::new(OwnedBy::Object);
    thread::scope(|scope| {
        fixture.first().keep(7);
        let its = fixture.waiter(scope, LONG);
        fixture.local.lose(|hold| *hold == 7);
        assert!(matches!(fixture.local.exit(ONE, None), Ok(Exit::Lost(7))));
        assert_eq!(its.join().expect("it is in"), Ok(()));
    });
    fixture.assert_free();
}

// ---- waiting

#[test]
fn fifo() {
    const WAITERS: u64 = 20;
    let fixture = Fixture::new(OwnedBy::Thread);
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let turn = fixture.first();
        for number in 0..WAITERS {
            let (fixture, order) = (&fixture, &order);
            scope.spawn(move || {
                let turn = fixture.first();
                order.lock().push(number);
                drop(turn);
            });
            fixture.await_queued(number + 1);
        }
        drop(turn);
    });
    let expected: Vec<u64> = (0..WAITERS).collect();
    assert_eq!(order.into_inner(), expected);
    fixture.assert_free();
}

#[test]
fn handed_over_turn_lets_no_other_thread_in() {
    let fixture = Fixture::new(OwnedBy::Thread);
    let (entered, leave) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let turn = fixture.first();
        let next = scope.spawn(|| {
            let turn = fixture.first();
            entered.wait();
            leave.wait();
            drop(turn);
        });
        fixture.await_queued(1);
        drop(turn);
        let handed_over = fixture.local.try_enter(ONE).is_none();
        entered.wait();
        let inside = fixture.local.try_enter(ONE).is_none();
        leave.wait();
        next.join().expect("it leaves");
        assert!(handed_over, "entered before it was awake");
        assert!(inside, "entered beside it");
    });
    fixture.assert_free();
}

#[test]
fn waiter_that_gives_up_keeps_the_others_in_order() {
    let fixture = Fixture::new(OwnedBy::Thread);
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let turn = fixture.first();
        let (fixture, order) = (&fixture, &order);
        for (number, limit) in [LONG, Duration::from_millis(50), LONG].into_iter().enumerate() {
            scope.spawn(move || {
                if let Ok(entry) = fixture.enter(limit) {
                    order.lock().push(number);
                    drop(entry);
                }
            });
            fixture.await_queued(number as u64 + 1);
        }
        let begun = Instant::now();
        while fixture.local.state.lock().waiting.len() > 2 {
            assert!(begun.elapsed() < LONG, "the second one still waits");
            thread::yield_now();
        }
        drop(turn);
    });
    assert_eq!(order.into_inner(), [0, 2]);
    fixture.assert_free();
}

#[test]
fn cancel_ends_earlier_waits_and_no_later_one() {
    let fixture = Fixture::new(OwnedBy::Thread);
    let before = fixture.until(LONG);
    thread::scope(|scope| {
        let turn = fixture.first();
        let waiters: Vec<_> = (0..5).map(|_| fixture.waiter(scope, LONG)).collect();
        fixture.cancel.send();
        for waiter in waiters {
            let stopped = waiter.join().expect("it returns");
            assert_eq!(stopped, Err(Stopped::Cancelled));
        }
        let late = elsewhere(|| fixture.local.enter(ONE, &before, fixture.closed.ended()).err());
        assert_eq!(late, Some(Stopped::Cancelled), "a call begun before it");
        let later = fixture.waiter(scope, LONG);
        drop(turn);
        assert_eq!(later.join().expect("it returns"), Ok(()), "a later call");
    });
    fixture.assert_free();
}

// ---- races
