//! Each rule is needed: without it the check finds two holders, tokens that fall, a waiter that
//! waits for ever, or a node that is left. The rules say how, each at its name.

use super::check;
use super::lease::{self, Lease};
use super::numbers::{self, Numbers};
use super::queue::{Bounds, Broken, IN_ORDER, NO_STUCK_WAITER, NOTHING_LEFT, ONE_HOLDER, Queue};

#[test]
fn rules_of_the_lease() {
    use lease::Broken::*;

    for broken in
        [ResumeCertifies, ReadsCertify, NoQuarter, ChosenLate, CountedFromAnswer, HoldComesBack]
    {
        check::fails(broken, Lease { broken: Some(broken) }, lease::ONE_HOLDER);
    }
}

#[test]
fn rules_of_the_hold() {
    queue_fails(&[0, 1], Broken::GrantedWithoutLease, ONE_HOLDER);
    queue_fails(&[0, 1], Broken::LeaseIgnored, ONE_HOLDER);
    queue_fails(&[0, 1], Broken::LostNodeLeft, NO_STUCK_WAITER);
}

#[test]
fn rules_of_the_order() {
    queue_fails(&[0, 1, 2], Broken::WokenIsGranted, ONE_HOLDER);
    queue_fails(&[0, 1, 2], Broken::WokenIsGranted, IN_ORDER);
    queue_fails(&[0, 0], Broken::ClientIsNoRival, ONE_HOLDER);
    queue_fails(&[0, 1], Broken::BehindOneself, NO_STUCK_WAITER);
}

#[test]
fn rules_of_what_was_not_answered() {
    queue_fails(&[0, 1], Broken::NotRemembered, NO_STUCK_WAITER);
    queue_fails(&[0, 1], Broken::NotRemembered, NOTHING_LEFT);
    queue_fails(&[0, 1], Broken::SearchedOnce, NO_STUCK_WAITER);
    queue_fails(&[0, 1], Broken::DeletedOnce, NO_STUCK_WAITER);
}

#[test]
fn rules_of_waiting() {
    queue_fails(&[0, 1], Broken::AbsenceIgnored, NO_STUCK_WAITER);
    queue_fails(&[0, 1], Broken::WatchesLost, NO_STUCK_WAITER);
}

#[test]
fn rules_of_the_numbers() {
    use numbers::Broken::*;

    numbers_fail(1, NotWatched);
    numbers_fail(1, WatchedBehind);
    numbers_fail(1, NotedUnwatched);
    numbers_fail(1, GapAccepted);
    numbers_fail(2, NotedAtGrant);
    numbers_fail(1, NotedGivenUp);
    numbers_fail(1, NotedLate);
    numbers_fail(1, NotSetAgain);
    numbers_fail(1, EventsOvertaken);
    numbers_fail(1, KeptOverSession);
}

fn numbers_fail(waiters: usize, broken: numbers::Broken) {
    let expiries = u8::from(broken == numbers::Broken::KeptOverSession);
    let bounds = numbers::Bounds { waiters, claims: 3, rivals: 2, give_ups: 1, cuts: 1, expiries };
    check::fails(broken, Numbers { bounds, broken: Some(broken) }, ONE_HOLDER);
}

fn queue_fails(waiters: &'static [usize], broken: Broken, property: &'static str) {
    let bounds = Bounds { waiters, cuts: 1, expiries: 1, give_ups: 0 };
    check::fails(broken, Queue { bounds, broken: Some(broken) }, property);
}
