//! What every kind of lock promises when something fails. Each test runs over the table of subjects.

mod losing;
mod missed_events;
mod releasing;
mod unconnected;

use std::time::Duration;

use zoolock::{Error, Result};

use super::LONG;
use common::*;

/// A multi-lock reports each failure.
fn each(error: Error) -> Vec<Error> {
    match error {
        Error::Multiple { failures, .. } => failures,
        one => vec![one],
    }
}

/// Whether every error of a call satisfies `such`.
fn says<T>(result: Result<T>, such: impl Fn(&Error) -> bool) -> bool {
    result.is_err_and(|error| each(error).iter().all(such))
}
