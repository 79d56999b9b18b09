//! Somebody who is inside a lock.

use std::sync::{Arc, Mutex};

use zoolock::crossbeam_channel::{Sender, bounded};
use zoolock::{Hold, Lock, Result};
use zoolock_test_support::wait_until;

use super::{SOON, Task};

type Call = Box<dyn FnOnce() -> Result<()> + Send>;

/// A thread that locks, stays inside until it is told to leave, and unlocks.
pub struct Visitor {
    inside: Arc<Mutex<Option<Hold>>>,
    leave: Sender<()>,
    visit: Task<Result<()>>,
}

impl Visitor {
    pub fn start(lock: impl Into<Box<dyn Lock>>) -> Visitor {
        let lock: Box<dyn Lock> = lock.into();
        Visitor::start_telling(lock, || {})
    }

    /// [`start`](Self::start); returns when the thread is asleep, in its wait or inside.
    pub fn start_asleep(lock: impl Into<Box<dyn Lock>>) -> Visitor {
        let lock: Box<dyn Lock> = lock.into();
        Visitor::begin(lock, || {}, Task::spawn_blocked)
    }

    /// Calls back once it has come in.
    pub fn start_telling(
        lock: impl Lock + 'static,
        tell: impl FnOnce() + Send + 'static,
    ) -> Visitor {
        Visitor::begin(lock, tell, Task::spawn)
    }

    fn begin(
        lock: impl Lock + 'static,
        tell: impl FnOnce() + Send + 'static,
        spawn: fn(Call) -> Task<Result<()>>,
    ) -> Visitor {
        let inside = Arc::new(Mutex::new(None));
        let (leave, told) = bounded(1);
        let is_in = Arc::clone(&inside);
        let visit = spawn(Box::new(move || {
            lock.lock()?;
            tell();
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

    /// What it holds, the first of several; waits until it is inside.
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

    /// Was inside, and has unlocked when this returns.
    #[track_caller]
    pub fn leaves(self) {
        self.leaves_saying().unwrap();
    }

    /// Was inside; what its unlock says.
    #[track_caller]
    pub fn leaves_saying(self) -> Result<()> {
        assert!(self.is_in(), "it leaves without having come in");
        self.leave.send(()).unwrap();
        self.visit.result("a visitor")
    }

    /// What a visitor that is not let in is told in the end.
    pub fn result(self) -> Result<()> {
        self.visit.result("a visitor that was not let in")
    }
}
