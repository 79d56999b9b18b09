//! Calls that have promised to return in time, and those that are made again on a busy machine.

use std::time::{Duration, Instant};

use zoolock::{Error, Result};
use zoolock_test_support::{Late, wait_until};

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
    let (late, begun) = (Late::start(), Instant::now());
    let result = call();
    let took = begun.elapsed();
    let late = late.in_all();
    println!("{what}: {result:?} after {took:?}, the machine was late by {late:?}");
    assert!(took < limit + late, "{what}: {result:?} after {took:?} (late by {late:?})");
    result
}
