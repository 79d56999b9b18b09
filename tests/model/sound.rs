//! No property fails while all rules are kept.

use std::env;

use super::check;
use super::opens::{self, Mode, Opens};
use super::table::Nodes;

const ONE: &[Mode] = &[Mode::Exclusive];

#[test]
fn opens_for_one_waiter() {
    opens(Mode::Exclusive, (ONE, 2), [1, 0, 0, 1, 1, 1], [2, 0, 1, 1, 1, 1]);
    opens(Mode::Exclusive, (ONE, 1), [2, 1, 0, 0, 0, 1], [2, 1, 0, 1, 0, 1]);
    opens(Mode::Write, (ONE, 1), [1, 0, 0, 1, 0, 0], [2, 0, 0, 1, 0, 1]);
}

/// The node ahead may be unreadable when it is deleted. The waiter then receives no event.
#[test]
fn opens_for_a_waiter_that_is_not_notified() {
    for faults in [[0; 6], [1, 0, 1, 0, 0, 1]] {
        let bounds = opens::Bounds::new(Mode::Exclusive, (ONE, 1), faults);
        let bounds = opens::Bounds { hides: 1, ..bounds };
        check::everything("opens, not told", Opens { bounds, broken: None });
    }
}

/// A busy server may refuse to set a watch.
#[test]
fn opens_for_a_waiter_that_is_refused() {
    let bounds = opens::Bounds::new(Mode::Exclusive, (ONE, 1), [1, 0, 1, 1, 0, 1]);
    let bounds = opens::Bounds { refusals: 2, ..bounds };
    check::everything("opens, refused", Opens { bounds, broken: None });
}

#[test]
fn opens_for_two_waiters() {
    const TWO: &[Mode] = &[Mode::Exclusive; 2];
    opens(Mode::Exclusive, (TWO, 0), [1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 1]);
    opens(Mode::Exclusive, (TWO, 0), [0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]);
}

#[test]
fn opens_for_three_waiters_and_beside_readers() {
    opens(Mode::Exclusive, (&[Mode::Exclusive; 3], 0), [0; 6], [0, 0, 1, 0, 0, 0]);
    opens(Mode::Write, (&[Mode::Read, Mode::Exclusive], 0), [0; 6], [1, 0, 0, 0, 0, 0]);
    opens(Mode::Write, (&[Mode::Exclusive, Mode::Read], 0), [0; 6], [1, 0, 0, 0, 0, 0]);
}

#[test]
fn table_of_nodes() {
    let bounds =
        |calls, cuts, ticks, refusals| Nodes { calls, cuts, ticks, refusals, broken: None };
    check::everything("table, one call", bounds(1, 2, 5, 1));
    check::everything("table, two calls", of_size(bounds(2, 1, 1, 0), bounds(2, 2, 5, 1)));
}

#[test]
fn random_histories_of_the_table() {
    let nodes = Nodes { calls: 4, cuts: 4, ticks: 12, refusals: 3, broken: None };
    check::some("table, four calls", nodes, of_size(50_000, 1_000_000));
}

/// The arrays contain, in this order: deletions, changes, give-ups, cuts, expiries, and lists without an event.
fn opens(holder: Mode, (waiters, rivals): (&'static [Mode], u8), small: [u8; 6], large: [u8; 6]) {
    let bounds = opens::Bounds::new(holder, (waiters, rivals), of_size(small, large));
    let what = format!("opens, {waiters:?} behind {holder:?}");
    check::everything(&what, Opens { bounds, broken: None });
}

/// Returns the small bounds, or the large ones if the environment selects them.
fn of_size<T>(small: T, large: T) -> T {
    match env::var("ZOOLOCK_MODEL") {
        Ok(size) if size == "large" => large,
        Ok(size) => panic!("ZOOLOCK_MODEL is {size:?}, can only be \"large\""),
        Err(_) => small,
    }
}
