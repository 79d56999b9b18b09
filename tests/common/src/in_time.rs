//! Calls that must return within a limit, and calls that are repeated because the machine may be busy.

use std::time::{Duration, Instant};

use zoolock::{Error, Result};
use zoolock_test_support::{Late, wait_until};

use super::SOON;

/// Repeats a call while it returns that there is no connection, or that no answer arrived in time.
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

/// Runs a call that must return within `limit`. Delays of the machine, measured by how late a thread that only sleeps
/// wakes up, do not count.
#[track_caller]
pub fn in_time<R: std::fmt::Debug>(what: &str, limit: Duration, call: impl FnOnce() -> R) -> R {
    let (late, begun) = (Late::start(), Instant::now());
    let result = call();
    let took = begun.elapsed();
    let late = late.in_all();
    println!("{what}: {result:?} after {took:?}, the machine was late by {late:?}");
    assert!(took < limit + late, "{what}: {result:?} after {took:?} (late by {late:?})");
    result
}
