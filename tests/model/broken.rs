//! Every rule is needed: if it is broken, the check finds two holders, or a waiter that waits forever, as its doc says.

use super::check;
use super::opens::{self, Mode, NO_STUCK_WAITER, ONE_HOLDER, Opens};
use super::table::{self, CLEAN, ENTERED, Nodes};

#[test]
fn opening_rules_are_all_needed() {
    use opens::Broken::*;

    opens_fail(OwnNotWatched, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(WatchedBeforeResume, ONE_HOLDER, [1, 0, 0, 1, 0, 1]);
    opens_fail(OutlivesResume, ONE_HOLDER, [1, 0, 0, 1, 0, 0]);
    opens_fail(SecondIgnored, ONE_HOLDER, [0, 0, 1, 0, 0, 0]);
    opens_fail(DowngradeIgnored, ONE_HOLDER, [0; 6]);
    opens_fail(AbsenceIgnored, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(AbsenceIgnored, NO_STUCK_WAITER, [0; 6]);
    opens_fail(NothingForgotten, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
    opens_fail(ChangeIsEnd, ONE_HOLDER, [0, 1, 0, 0, 0, 0]);
    opens_fail(EventsOvertaken, ONE_HOLDER, [1, 0, 0, 0, 0, 0]);
}

#[test]
fn missed_event_rules_are_all_needed() {
    let bounds = opens::Bounds::new(Mode::Exclusive, (&[Mode::Exclusive], 1), [0; 6]);
    for (bounds, broken) in [
        (opens::Bounds { hides: 1, ..bounds }, opens::Broken::NeverLooksAgain),
        (opens::Bounds { refusals: 1, ..bounds }, opens::Broken::RefusedIsWatched),
    ] {
        check::fails(broken, Opens { bounds, broken: Some(broken) }, NO_STUCK_WAITER);
    }
}

#[test]
fn rules_of_the_table_are_all_needed() {
    use table::Broken::*;

    for (broken, property) in [
        (LossIsRefusal, ENTERED),
        (FailureShowsNothing, ENTERED),
        (LookMovesAlong, ENTERED),
        (LastLookIsOld, ENTERED),
        (TimeIgnored, CLEAN),
        (KeptToItself, CLEAN),
    ] {
        let (calls, cuts, ticks, refusals) = (1, 2, 5, 1);
        let nodes = Nodes { calls, cuts, ticks, refusals, broken: Some(broken) };
        check::fails(broken, nodes, property);
    }
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
