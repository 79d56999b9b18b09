//! Every rule is needed. Without it the check finds two holders, falling tokens, a waiter that waits for
//! ever, or a leftover node. Each rule's doc says how.

use super::check;
use super::lease::{self, Lease};
use super::opens::{self, Mode, Opens};
use super::queue::{Bounds, Broken, IN_ORDER, NO_STUCK_WAITER, NOTHING_LEFT, ONE_HOLDER, Queue};

#[test]
fn lease_rules_are_all_needed() {
    use lease::Broken::*;

    for broken in
        [ResumeCertifies, ReadsCertify, NoQuarter, ChosenLate, CountedFromAnswer, HoldComesBack]
    {
        check::fails(broken, Lease { broken: Some(broken) }, lease::ONE_HOLDER);
    }
}

#[test]
fn hold_rules_are_all_needed() {
    queue_fails(&[0, 1], Broken::GrantedWithoutLease, ONE_HOLDER);
    queue_fails(&[0, 1], Broken::LeaseIgnored, ONE_HOLDER);
    queue_fails(&[0, 1], Broken::LostNodeLeft, NO_STUCK_WAITER);
}

#[test]
fn order_rules_are_all_needed() {
    queue_fails(&[0, 1, 2], Broken::WokenIsGranted, ONE_HOLDER);
    queue_fails(&[0, 1, 2], Broken::WokenIsGranted, IN_ORDER);
    queue_fails(&[0, 0], Broken::ClientIsNoRival, ONE_HOLDER);
    queue_fails(&[0, 1], Broken::BehindOneself, NO_STUCK_WAITER);
}

#[test]
fn lost_answer_rules_are_all_needed() {
    queue_fails(&[0, 1], Broken::NotRemembered, NO_STUCK_WAITER);
    queue_fails(&[0, 1], Broken::NotRemembered, NOTHING_LEFT);
    queue_fails(&[0, 1], Broken::SearchedOnce, NO_STUCK_WAITER);
    queue_fails(&[0, 1], Broken::DeletedOnce, NO_STUCK_WAITER);
}

#[test]
fn waiting_rules_are_all_needed() {
    queue_fails(&[0, 1], Broken::AbsenceIgnored, NO_STUCK_WAITER);
    queue_fails(&[0, 1], Broken::WatchesLost, NO_STUCK_WAITER);
}

#[test]
fn opening_rules_are_all_needed() {
    use opens::Broken::*;

    opens_fail(OwnNotWatched, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(UnheardIgnored, ONE_HOLDER, [1, 1, 0, 0, 0, 1]);
    opens_fail(WatchedBeforeResume, ONE_HOLDER, [1, 0, 0, 1, 0, 1]);
    opens_fail(OutlivesResume, ONE_HOLDER, [1, 0, 0, 1, 0, 0]);
    opens_fail(OldNumberBelieved, ONE_HOLDER, [1, 0, 0, 0, 0, 1]);
    opens_fail(NumberKept, ONE_HOLDER, [1, 0, 0, 0, 0, 1]);
    opens_fail(NumberKept, ONE_HOLDER, [0, 0, 0, 1, 1, 1]);
    opens_fail(SecondIgnored, ONE_HOLDER, [0, 0, 1, 0, 0, 0]);
    opens_fail(DowngradeIgnored, ONE_HOLDER, [0; 6]);
    opens_fail(AbsenceIgnored, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(AbsenceIgnored, NO_STUCK_WAITER, [0; 6]);
    opens_fail(NothingForgotten, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(ChangeIsEnd, ONE_HOLDER, [0, 1, 0, 0, 0, 0]);
    opens_fail(EventsOvertaken, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(HeardStaysWatched, NO_STUCK_WAITER, [1, 1, 0, 0, 0, 0]);
}

#[test]
fn missed_event_rules_are_all_needed() {
    let bounds = opens::Bounds::new(Mode::Exclusive, (&[Mode::Exclusive], 1), [0; 6]);
    let (bounds, broken) = (bounds.with_hides(1), opens::Broken::NeverLooksAgain);
    check::fails(broken, Opens { bounds, broken: Some(broken) }, NO_STUCK_WAITER);
}

fn opens_fail(broken: opens::Broken, property: &'static str, faults: [u8; 6]) {
    const TWO: &[Mode] = &[Mode::Exclusive; 2];
    let (holder, waiters) = match broken {
        opens::Broken::SecondIgnored => (Mode::Exclusive, (TWO, 0)),
        opens::Broken::DowngradeIgnored => (Mode::Write, (&TWO[1..], 2)),
        _ => (Mode::Exclusive, (&TWO[1..], 2)),
    };
    let bounds = opens::Bounds::new(holder, waiters, faults);
    check::fails(broken, Opens { bounds, broken: Some(broken) }, property);
}

fn queue_fails(waiters: &'static [usize], broken: Broken, property: &'static str) {
    let bounds = Bounds { waiters, cuts: 1, expiries: 1, give_ups: 0 };
    check::fails(broken, Queue { bounds, broken: Some(broken) }, property);
}
