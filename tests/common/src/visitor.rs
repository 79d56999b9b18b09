//! Somebody who is inside a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zoolock::Lock;
use zoolock::crossbeam_channel::{Sender, bounded};
use zoolock_test_support::wait_until;

use super::{SOON, Task};

/// A thread that locks, stays inside until it is told to leave, and unlocks.
pub struct Visitor {
    inside: Arc<AtomicBool>,
    leave: Sender<()>,
    visit: Task<zoolock::Result<()>>,
}

impl Visitor {
    pub fn start(lock: impl Into<Box<dyn Lock>>) -> Visitor {
        let lock: Box<dyn Lock> = lock.into();
        Visitor::start_telling(lock, || {})
    }

    /// Calls back once it has come in.
    pub fn start_telling(
        lock: impl Lock + 'static,
        tell: impl FnOnce() + Send + 'static,
    ) -> Visitor {
        let inside = Arc::new(AtomicBool::new(false));
        let (leave, told) = bounded(1);
        let is_in = Arc::clone(&inside);
        let visit = Task::spawn(move || {
            lock.lock()?;
            tell();
            is_in.store(true, Ordering::SeqCst);
            let _ = told.recv();
            is_in.store(false, Ordering::SeqCst);
            lock.unlock()
        });
        Visitor { inside, leave, visit }
    }

    pub fn is_in(&self) -> bool {
        self.inside.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub fn comes_in(&self) {
        wait_until("the visitor is inside", SOON, || {
            assert!(!self.visit.is_done(), "{:?}", self.visit.result("a visitor"));
            self.is_in()
        });
    }

    /// Was inside, and has unlocked when this returns.
    #[track_caller]
    pub fn leaves(self) {
        assert!(self.is_in(), "it leaves without having come in");
        self.leave.send(()).unwrap();
        self.visit.result("a visitor").unwrap();
    }

    /// What a visitor that is not let in is told in the end.
    pub fn result(self) -> zoolock::Result<()> {
        self.visit.result("a visitor that was not let in")
    }
}
