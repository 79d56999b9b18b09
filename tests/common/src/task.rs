//! Calls on other threads, which may block.

use std::fs;
use std::thread;

use zoolock::crossbeam_channel::{Receiver, bounded};
use zoolock::{CancelToken, Lock, Result, Wait};
use zoolock_test_support::wait_until;

use super::SOON;

/// A call on another thread. It may block.
pub struct Task<R>(Receiver<R>);

/// A function that starts a call: [`Task::spawn`] or [`Task::spawn_blocked`].
pub type Start = fn(Box<dyn FnOnce() -> Result<()> + Send>) -> Task<Result<()>>;

/// Starts a call of `lock()` on another thread.
pub fn locking(lock: &(impl Lock + Clone + 'static)) -> Task<Result<()>> {
    locking_by(lock, &CancelToken::new())
}

/// Starts a call on another thread that locks, and that the token can cancel.
pub fn locking_by(lock: &(impl Lock + Clone + 'static), token: &CancelToken) -> Task<Result<()>> {
    let (lock, wait) = (lock.clone(), Wait::FOREVER.cancelled_by(token));
    Task::spawn(move || lock.lock_within(wait).map(drop))
}

/// Returns a call that locks and unlocks.
pub fn visit(lock: impl Into<Box<dyn Lock>>) -> impl FnOnce() -> Result<()> + Send + 'static {
    visit_by(lock.into(), &CancelToken::new())
}

/// Returns a call that locks and unlocks, and that the token can cancel.
pub fn visit_by<L: Into<Box<dyn Lock>>>(
    lock: L,
    token: &CancelToken,
) -> impl FnOnce() -> Result<()> + Send + use<L> {
    let (lock, wait) = (lock.into(), Wait::FOREVER.cancelled_by(token));
    move || lock.lock_within(wait).and_then(|_| lock.unlock())
}

impl<R: Send + 'static> Task<R> {
    pub fn spawn(call: impl FnOnce() -> R + Send + 'static) -> Task<R> {
        let (sender, result) = bounded(1);
        thread::spawn(move || {
            let _ = sender.send(call());
        });
        Task(result)
    }

    /// Starts a call that blocks. Returns when its thread sleeps.
    pub fn spawn_blocked(call: impl FnOnce() -> R + Send + 'static) -> Task<R> {
        let (sender, started) = bounded(1);
        let task = Task::spawn(move || {
            let this = fs::read_link("/proc/thread-self").expect("Linux");
            sender.send(this).expect("a call waits");
            call()
        });
        let status = started.recv_timeout(SOON).expect("the thread has started");
        let status = format!("/proc/{}/status", status.display());
        // The thread is blocked if it sleeps and has not been woken between several checks.
        let (mut seen, mut times) = (None, 0);
        wait_until("the thread is asleep", SOON, || {
            let now = fs::read_to_string(&status).unwrap_or_default();
            let switches = now.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
            let is_asleep = now.contains("(sleeping)") && switches == seen.as_deref();
            times = if is_asleep { times + 1 } else { 0 };
            seen = switches.map(str::to_owned);
            times == 5
        });
        task
    }

    pub fn is_done(&self) -> bool {
        !self.0.is_empty()
    }

    /// Waits until the call has returned, and returns its result.
    #[track_caller]
    pub fn result(&self, what: &str) -> R {
        match self.0.recv_timeout(SOON) {
            Ok(result) => result,
            Err(error) => panic!("{what}: no result within {SOON:?} ({error})"),
        }
    }
}
