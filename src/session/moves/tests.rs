//! Moves and losses by clocks that the test moves.

use std::time::{Duration, SystemTime};

use crossbeam_channel::TryRecvError;

use super::*;
use crate::local::Ownership;
use crate::session::Standing;
use crate::session::stage::{Holder, client};

const HOUR: Duration = Duration::from_secs(3600);
const EXPIRED: Standing = Standing::Lost(LossReason::LeaseExpired);

/// What the clocks say after the machine was suspended: only the system clock has gone on.
fn after_suspension(slept: Duration) -> Moment {
    let now = Moment::now();
    let system = now.system + slept;
    Moment { system, ..now }
}

#[test]
fn a_machine_that_was_suspended_past_the_lease_finds_its_holds_lost() {
    let holder = Holder::new(Ownership::AnyThread);
    let (session, seat) = (holder.client.session(), &holder.seat);
    let timeout = holder.connection.timeout();
    let woken = after_suspension(timeout / 2);
    assert_eq!(seat.standing(woken), Standing::Held, "half a lease is left");
    let woken = after_suspension(timeout);
    assert_eq!(seat.standing(woken), EXPIRED, "before anything noticed");
    assert_eq!(seat.valid_for(woken), Duration::ZERO);
    assert_eq!(seat.ended().try_recv(), Err(TryRecvError::Empty));
    session.lapse(woken);
    println!("{:?} after {timeout:?}", seat.standing(Moment::now()));
    assert_eq!(seat.standing(Moment::now()), EXPIRED, "it stays lost");
    assert_eq!(seat.ended().try_recv(), Err(TryRecvError::Disconnected), "announced");
    let released = session.release(seat);
    assert!(released.is_err_and(|error| error.is_lost()), "unlock says so");
}

#[test]
fn a_system_clock_that_was_set_back_loses_nothing_and_proves_nothing() {
    let holder = Holder::new(Ownership::AnyThread);
    let now = Moment::now();
    let set_back = Moment { system: SystemTime::UNIX_EPOCH, ..now };
    assert_eq!(holder.seat.standing(set_back), Standing::Held);
    let later = Moment { monotonic: now.monotonic + HOUR, ..set_back };
    assert_eq!(holder.seat.standing(later), EXPIRED);
}

/// Between the look at the old node and the confirmation.
#[test]
fn a_move_that_is_confirmed_after_the_leases_end_is_a_loss_whatever_was_seen() {
    for (slept, late) in [(Duration::ZERO, false), (HOUR, true)] {
        let (holder, (_other, target)) = (Holder::new(Ownership::AnyThread), client());
        let (session, seat) = (holder.client.session(), &holder.seat);
        let begun = seat.begin_move(&target, session.garbage()).expect("begun");
        assert!(seat.entered(&begun.id, &begun.name));
        let confirmed = seat.confirm(&begun, || after_suspension(slept), session.garbage());
        println!("slept {slept:?}: {confirmed:?}");
        assert_eq!(matches!(confirmed, Confirmed::Late), late);
        let on_target = seat.held_on().is_some_and(|on| Arc::ptr_eq(&on, &target));
        assert_eq!(on_target, !late, "where it is held");
        let over = seat.end(Ending::Release, Moment::now, session.garbage());
        let on = over.and_then(|over| over.connection).expect("a place");
        assert_eq!(Arc::ptr_eq(&on, &target), !late, "where its node is");
    }
}

#[test]
fn a_move_to_a_connection_that_is_dead_by_then_is_none() {
    let (holder, (_other, target)) = (Holder::new(Ownership::AnyThread), client());
    let (session, seat) = (holder.client.session(), &holder.seat);
    let begun = seat.begin_move(&target, session.garbage()).expect("begun");
    assert!(seat.entered(&begun.id, &begun.name));
    target.mixed_up();
    let confirmed = seat.confirm(&begun, Moment::now, session.garbage());
    assert!(matches!(confirmed, Confirmed::NoLease), "{confirmed:?}");
    assert_eq!(seat.standing(Moment::now()), Standing::Held, "where it was");
    assert!(seat.begin_move(&target, session.garbage()).is_none(), "nor begun there");
    let again = seat.confirm(&begun, Moment::now, session.garbage());
    assert!(matches!(again, Confirmed::NoLease), "{again:?}");
}

#[test]
fn a_move_that_another_one_has_replaced_confirms_nothing() {
    let (holder, (_one, first), (_two, second)) =
        (Holder::new(Ownership::AnyThread), client(), client());
    let (session, seat) = (holder.client.session(), &holder.seat);
    let interrupted = seat.begin_move(&first, session.garbage()).expect("begun");
    let begun = seat.begin_move(&second, session.garbage()).expect("begun again");
    assert_eq!(session.garbage().len(), 1, "the interrupted move's node");
    let late = seat.confirm(&interrupted, Moment::now, session.garbage());
    assert!(matches!(late, Confirmed::GivenUp), "{late:?}");
    let confirmed = seat.confirm(&begun, Moment::now, session.garbage());
    assert!(matches!(confirmed, Confirmed::Moved(_)), "{confirmed:?}");
}

#[test]
fn a_seat_that_was_released_meanwhile_does_not_move() {
    let (holder, (_other, target)) = (Holder::new(Ownership::AnyThread), client());
    let (session, seat) = (holder.client.session(), &holder.seat);
    let begun = seat.begin_move(&target, session.garbage()).expect("begun");
    let now = Moment::now();
    let ended = seat.end(Ending::Release, || now, session.garbage());
    let ids = ended.expect("released").ids;
    assert_eq!((ids.len(), ids.first()), (2, Some(&begun.id)), "both nodes are garbage");
    assert!(!seat.entered(&begun.id, &begun.name), "whoever has the answer deletes it");
    let confirmed = seat.confirm(&begun, || now, session.garbage());
    assert!(matches!(confirmed, Confirmed::GivenUp), "{confirmed:?}");
    assert!(seat.begin_move(&target, session.garbage()).is_none());
}

/// An answer about the old node may come late, when the seat has moved and deletes it itself.
#[test]
fn the_end_of_a_node_that_a_hold_has_left_is_not_its_end() {
    let (holder, (_other, target)) = (Holder::new(Ownership::AnyThread), client());
    let (session, seat) = (holder.client.session(), &holder.seat);
    let begun = seat.begin_move(&target, session.garbage()).expect("begun");
    let confirmed = seat.confirm(&begun, Moment::now, session.garbage());
    assert!(matches!(confirmed, Confirmed::Moved(_)), "{confirmed:?}");
    for ending in [Ending::NodeGone, Ending::NotConfirmed] {
        let over = seat.end(ending(&begun.from), Moment::now, session.garbage());
        assert!(over.is_none(), "{:?}: {over:?}", ending(&begun.from));
    }
    session.node_gone(seat, &begun.from);
    assert_eq!(seat.standing(Moment::now()), Standing::Held);
    session.node_gone(seat, &begun.name);
    let lost = Standing::Lost(LossReason::NodeDeleted);
    assert_eq!(seat.standing(Moment::now()), lost, "its own");
}
