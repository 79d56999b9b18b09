//! What every kind of lock promises in case of faults. Each test runs for all subjects in a table.

mod losing;
mod missed_events;
mod releasing;
mod unconnected;

use std::time::Duration;

use zoolock::{Error, Result};

use super::LONG;
use common::*;

/// Returns the errors of all members of a multi-lock, or the error itself if it is not from a multi-lock.
fn each(error: Error) -> Vec<Error> {
    match error {
        Error::Multiple { failures, .. } => failures,
        one => vec![one],
    }
}

/// Returns whether a call failed and each of its errors satisfies `such`.
fn says<T>(result: Result<T>, such: impl Fn(&Error) -> bool) -> bool {
    result.is_err_and(|error| each(error).iter().all(such))
}
