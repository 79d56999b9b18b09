//! Each rule is needed: without it the check finds two holders, or a waiter that waits for ever.

use super::check::fails;
use super::properties::{IN_ORDER, NO_STUCK_WAITER, NOTHING_FORGOTTEN, ONE_HOLDER};
use super::rules::{Bounds, Broken};

const TWO_CLIENTS: Bounds =
    Bounds { seats: &[0, 1], sessions: 3, sessions_each: 2, give_ups: 1, removals: 0 };

/// A waiter's node is gone and the next one holds. The waiter makes its node again and is granted.
#[test]
fn without_confirmation() {
    fails(Broken::NoConfirmation, TWO_CLIENTS, ONE_HOLDER);
}

/// The same, where the old node goes between the look at it and the create.
#[test]
fn confirmed_before_the_create() {
    fails(Broken::ReadBeforeCreate, TWO_CLIENTS, ONE_HOLDER);
}

/// The same, where the node that stands in for the old one came late itself.
#[test]
fn confirmed_by_an_unconfirmed_node() {
    let bounds = Bounds { sessions: 4, sessions_each: 3, give_ups: 0, ..TWO_CLIENTS };
    fails(Broken::ConfirmedByUnconfirmed, bounds, ONE_HOLDER);
}

/// The reaper ends the session that a hold still lives on.
#[test]
fn a_handle_closed_under_a_hold() {
    fails(Broken::ClosedEarly, TWO_CLIENTS, ONE_HOLDER);
}

/// The server ends it, and the client believes on.
#[test]
fn a_lease_that_is_ignored() {
    fails(Broken::LeaseIgnored, TWO_CLIENTS, ONE_HOLDER);
}

/// The node's session ends without a lease having to.
#[test]
fn a_grant_on_an_old_session() {
    fails(Broken::GrantedOnOldSession, TWO_CLIENTS, ONE_HOLDER);
}

/// One of the holder's nodes goes, as it does in every move. The holder does not.
#[test]
fn a_grant_by_a_wake_up() {
    fails(Broken::GrantedByWakeUp, TWO_CLIENTS, ONE_HOLDER);
}

/// Later grants must have later tokens even where there are no two holders at a time.
#[test]
fn a_grant_out_of_order() {
    fails(Broken::NoConfirmation, TWO_CLIENTS, IN_ORDER);
}

/// "Own" nodes are the seat's, not the client's.
#[test]
fn seats_of_one_client_that_ignore_each_other() {
    let bounds = Bounds { seats: &[0, 0], sessions: 1, ..TWO_CLIENTS };
    fails(Broken::ClientIsNoRival, bounds, ONE_HOLDER);
}

/// The node is on a live session, so it does not go by itself.
#[test]
fn a_forgotten_node_blocks_for_ever() {
    fails(Broken::UnconfirmedForgotten, TWO_CLIENTS, NO_STUCK_WAITER);
}

/// It was not found when it was looked for, and so never deleted.
#[test]
fn a_late_node_is_forgotten() {
    fails(Broken::LateForgotten, TWO_CLIENTS, NOTHING_FORGOTTEN);
}
