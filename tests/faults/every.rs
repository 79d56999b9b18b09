//! What every kind of lock promises when something fails. Each test runs over the table of subjects.

mod losing;
mod outages;
mod releasing;
mod unconnected;
mod untold;

use std::time::Duration;

use zoolock::{Error, Result};
use zoolock_test_support::{Op, Probe, shared_probe, wait_until};

use common::{SOON, Scene, Subject, Visitor, await_nothing_left};

/// A session that does not end during a test.
const LONG: Duration = Duration::from_secs(60);

/// All nodes below a path, with the czxid that identifies each.
fn tree(probe: &Probe, path: &str) -> Vec<(String, u64)> {
    let Some(stat) = probe.stat(path).unwrap() else {
        return Vec::new();
    };
    let mut below = probe.children(path).unwrap();
    below.sort();
    let below = below.into_iter().flat_map(|node| tree(probe, &format!("{path}/{node}")));
    [(path.to_owned(), stat.czxid as u64)].into_iter().chain(below).collect()
}

/// A multi-lock reports each failure.
fn each(error: Error) -> Vec<Error> {
    match error {
        Error::Release { failures } => failures,
        one => vec![one],
    }
}

/// Whether every error of a call satisfies `such`.
fn says<T>(result: Result<T>, such: impl Fn(&Error) -> bool) -> bool {
    result.is_err_and(|error| each(error).iter().all(such))
}
