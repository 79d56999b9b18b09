//! Calls that have promised to return in time, and those that are made again on a busy machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Error, Result};
use zoolock_test_support::wait_until;

use super::SOON;

/// Makes a call again for as long as it says that there was no connection, or no answer in its time.
#[track_caller]
pub fn answered<R>(call: impl Fn() -> Result<R>) -> Result<R> {
    let mut answer = call();
    wait_until("it is answered", SOON, || {
        let unknown = matches!(answer, Err(Error::Disconnected { .. }));
        if unknown {
            answer = call();
        }
        !unknown
    });
    answer
}

/// Makes a call that has promised to return within `limit`. What a thread that only sleeps came
/// too late meanwhile is the machine's fault and not counted.
#[track_caller]
pub fn in_time<R: std::fmt::Debug>(what: &str, limit: Duration, call: impl FnOnce() -> R) -> R {
    const NAP: Duration = Duration::from_millis(10);
    /// Also when the call panics, or the sleeper would never end.
    struct SetAtEnd<'a>(&'a AtomicBool);
    impl Drop for SetAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let over = AtomicBool::new(false);
    let (result, took, late) = thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut late = Duration::ZERO;
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                thread::sleep(NAP);
                late += begun.elapsed().saturating_sub(NAP);
            }
            late
        });
        let at_end = SetAtEnd(&over);
        let begun = Instant::now();
        let result = call();
        let took = begun.elapsed();
        drop(at_end);
        (result, took, sleeper.join().expect("only sleeps"))
    });
    println!("{what}: {result:?} after {took:?}, the machine was late by {late:?}");
    assert!(took < limit + late, "{what}: {result:?} after {took:?} (late by {late:?})");
    result
}
