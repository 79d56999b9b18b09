//! A thread that holds a lock.

use std::sync::{Arc, Mutex};

use zoolock::crossbeam_channel::{Sender, bounded};
use zoolock::{Hold, Lock, Result};
use zoolock_test_support::wait_until;

use super::SOON;
use super::task::{Start, Task};

/// A thread that locks, holds the lock until the test makes it leave, and unlocks.
pub struct Visitor {
    inside: Arc<Mutex<Option<Hold>>>,
    leave: Sender<()>,
    visit: Task<Result<()>>,
}

impl Visitor {
    pub fn start(lock: impl Into<Box<dyn Lock>>) -> Visitor {
        Visitor::begin(lock.into(), Task::spawn)
    }

    /// Like [`start`](Self::start), but returns when the thread sleeps: either it waits, or it holds the lock.
    pub fn start_asleep(lock: impl Into<Box<dyn Lock>>) -> Visitor {
        Visitor::begin(lock.into(), Task::spawn_blocked)
    }

    fn begin(lock: Box<dyn Lock>, start: Start) -> Visitor {
        let inside = Arc::new(Mutex::new(None));
        let (leave, told) = bounded(1);
        let is_in = Arc::clone(&inside);
        let visit = start(Box::new(move || {
            lock.lock()?;
            *is_in.lock().unwrap() = lock.holds().into_iter().next();
            let _ = told.recv();
            *is_in.lock().unwrap() = None;
            lock.unlock()
        }));
        Visitor { inside, leave, visit }
    }

    pub fn is_in(&self) -> bool {
        self.inside.lock().unwrap().is_some()
    }

    #[track_caller]
    pub fn comes_in(&self) {
        self.hold();
    }

    /// Waits until the visitor holds the lock, and returns its first hold.
    #[track_caller]
    pub fn hold(&self) -> Hold {
        let mut hold = None;
        wait_until("the visitor is inside", SOON, || {
            assert!(!self.visit.is_done(), "{:?}", self.visit.result("a visitor"));
            hold = self.inside.lock().unwrap().clone();
            hold.is_some()
        });
        hold.expect("it is inside")
    }

    /// Expects that the visitor holds the lock, and waits until it has unlocked.
    #[track_caller]
    pub fn leaves(self) {
        self.left().unwrap();
    }

    /// Makes the visitor leave, and returns the result of its unlock.
    #[track_caller]
    pub fn left(self) -> Result<()> {
        assert!(self.is_in(), "it leaves without having come in");
        self.leave.send(()).unwrap();
        self.visit.result("a visitor")
    }

    /// Waits for a visitor that does not acquire the lock, and returns its result.
    pub fn result(self) -> Result<()> {
        self.visit.result("a visitor that was not let in")
    }
}
