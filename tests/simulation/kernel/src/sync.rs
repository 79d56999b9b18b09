//! Mutexes and condition variables with the interface of `parking_lot`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lock_api::{GuardNoSend, RawMutex};

use crate::clock::count;
use crate::scheduler::{MUTEX, block, has_locked, has_unlocked, may_give_way, taken_at, will_lock};

#[derive(Debug)]
pub struct Raw(AtomicBool);

// SAFETY: the mutex is held only by the thread that changed `false` to `true`.
unsafe impl RawMutex for Raw {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Raw = Raw(AtomicBool::new(false));
    type GuardMarker = GuardNoSend;

    #[track_caller]
    fn lock(&self) {
        may_give_way();
        // Not for `try_lock`, which never waits and therefore need not follow the order of the mutexes.
        will_lock(Location::caller());
        while !self.try_lock() {
            block(MUTEX, None, Some(&|| !self.0.load(Ordering::Relaxed)));
        }
    }

    #[track_caller]
    fn try_lock(&self) -> bool {
        let is_taken = !self.0.swap(true, Ordering::Relaxed);
        if is_taken {
            has_locked(self.address(), Location::caller());
        }
        is_taken
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Relaxed);
        has_unlocked(self.address());
    }
}

impl Raw {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

pub type Mutex<T> = lock_api::Mutex<Raw, T>;
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Raw, T>;

#[derive(Debug, Default)]
pub struct Condvar(RefCell<VecDeque<Rc<AtomicBool>>>);

// SAFETY: all threads of a simulation run on one real thread.
unsafe impl Send for Condvar {}
// SAFETY: as for `Send`.
unsafe impl Sync for Condvar {}

#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub fn new() -> Condvar {
        Condvar::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_for(guard, None);
    }

    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> WaitTimeoutResult {
        self.wait_for(guard, Some(count(end)))
    }

    fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, end: Option<u64>) -> WaitTimeoutResult {
        let notified = Rc::new(AtomicBool::new(false));
        self.0.borrow_mut().push_back(Rc::clone(&notified));
        let is_notified = || notified.load(Ordering::Relaxed);
        // SAFETY: the raw mutex is neither locked nor unlocked by this.
        let address = unsafe { MutexGuard::mutex(guard).raw() }.address();
        let place = taken_at(address, None);
        MutexGuard::unlocked(guard, || block("a condition variable", end, Some(&is_notified)));
        taken_at(address, place);
        self.0.borrow_mut().retain(|one| !Rc::ptr_eq(one, &notified));
        WaitTimeoutResult(!is_notified())
    }

    /// Wakes the thread that has been waiting for the longest time.
    pub fn notify_one(&self) {
        if let Some(notified) = self.0.borrow_mut().pop_front() {
            notified.store(true, Ordering::Relaxed);
        }
    }

    pub fn notify_all(&self) {
        for notified in self.0.borrow_mut().drain(..) {
            notified.store(true, Ordering::Relaxed);
        }
    }
}
