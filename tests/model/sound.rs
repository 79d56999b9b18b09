//! With all its rules the protocol is sound.

use std::env;

use super::check;
use super::lease::Lease;
use super::numbers::{self, Numbers};
use super::queue::{Bounds, Queue};

#[test]
fn lease() {
    check::everything("lease", Lease { broken: None });
}

#[test]
fn two_clients() {
    queue("two clients", &[0, 1], [2, 1, 1], [3, 2, 1]);
}

#[test]
fn three_clients() {
    queue("three clients", &[0, 1, 2], [1, 1, 1], [2, 1, 1]);
}

/// They share its session, and what becomes of it.
#[test]
fn two_waiters_of_one_client() {
    queue("two waiters of one client", &[0, 0, 1], [1, 1, 0], [1, 1, 1]);
}

#[test]
fn numbers_of_one_waiter() {
    numbers(1, [3, 2, 1, 1, 1], [4, 3, 1, 2, 1]);
}

/// They share what their client knows.
#[test]
fn numbers_of_two_waiters() {
    numbers(2, [3, 2, 0, 1, 0], [4, 3, 1, 1, 1]);
}

/// Cuts, expiries and give-ups.
fn queue(what: &str, waiters: &'static [usize], small: [u8; 3], large: [u8; 3]) {
    let [cuts, expiries, give_ups] = of_size(small, large);
    let bounds = Bounds { waiters, cuts, expiries, give_ups };
    check::everything(what, Queue { bounds, broken: None });
}

/// Creates of the client and of its rival, give-ups, cuts and expiries.
fn numbers(waiters: usize, small: [u8; 5], large: [u8; 5]) {
    let [claims, rivals, give_ups, cuts, expiries] = of_size(small, large);
    let bounds = numbers::Bounds { waiters, claims, rivals, give_ups, cuts, expiries };
    check::everything(&format!("numbers, waiters: {waiters}"), Numbers { bounds, broken: None });
}

/// The small bounds, or the large ones if the environment asks for them.
fn of_size<T>(small: T, large: T) -> T {
    match env::var("ZOOLOCK_MODEL") {
        Ok(size) if size == "large" => large,
        Ok(size) => panic!("ZOOLOCK_MODEL is {size:?}, can only be \"large\""),
        Err(_) => small,
    }
}
