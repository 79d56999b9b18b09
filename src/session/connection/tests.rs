//! Leases and grants of a connection, by signs of life that the test invents.

use super::*;
use crate::client::Client;
use crate::error::LossReason;
use crate::local::Ownership;
use crate::node::Kind;
use crate::options::LockOptions;
use crate::session::{Grant, Seat, Standing};
use crate::site::Site;

/// The lease of a connection that was silent for two session timeouts and is renewed now.
fn renewed(timeout: Duration) -> Lease {
    let now = Moment::now();
    let ago =
        |time: Duration| Moment { monotonic: now.monotonic - time, system: now.system - time };
    let mut lease = Lease::new(timeout, ago(timeout * 2), ago(timeout * 2).monotonic);
    lease.answered(ago(timeout / 8), ago(timeout / 2), now, Proof::Leader);
    lease
}

/// A client, its connection, and a seat that has a place there, but no node on the server.
struct Waiting {
    client: Client,
    connection: Arc<Connection>,
    seat: Arc<Seat>,
}

impl Waiting {
    fn new() -> Waiting {
        let hosts = zoolock_test_support::connect_string();
        let client = Client::connect(&hosts, Duration::from_secs(10)).expect("connect");
        let connection = client.session().live().expect("a connection");
        let site = Site::new(&client, "/term", LockOptions::new()).expect("a path");
        let claim = site.claim(&site.path, Kind::Exclusive, Ownership::AnyThread);
        let seat = client.session().seat(claim).expect("a seat");
        let id = seat.enter(&connection).expect("an id");
        assert!(seat.entered(&id, "node"), "its place");
        Waiting { client, connection, seat }
    }

    /// The last sign of life was so long ago.
    fn silent_for(&self, time: Duration) {
        let now = Moment::now();
        let then = Moment { monotonic: now.monotonic - time, system: now.system - time };
        let lease = Lease::new(self.connection.timeout(), then, now.monotonic);
        self.connection.vitals.lock().connected(lease);
    }

    fn is_granted(&self) -> bool {
        let granted = self.seat.grant(&self.connection, "node");
        let standing = self.seat.standing(Moment::now());
        println!("{granted:?}, {standing:?}");
        assert_eq!(granted.is_ok(), standing == Standing::Held);
        granted.is_ok()
    }
}

#[test]
fn nothing_is_granted_without_a_lease() {
    let waiting = Waiting::new();
    waiting.silent_for(waiting.connection.timeout());
    assert!(!waiting.is_granted(), "its lease had ended");
    waiting.silent_for(Duration::ZERO);
    assert!(waiting.is_granted(), "its lease runs");
}

#[test]
fn nothing_is_granted_on_a_dead_connection() {
    let waiting = Waiting::new();
    waiting.connection.mixed_up();
    assert!(!waiting.is_granted());
}

#[test]
fn a_lease_too_short_to_reconnect_is_renewed_before_a_grant() {
    for (part, asked) in [(0, false), (2, false), (3, true), (4, true)] {
        let waiting = Waiting::new();
        let (session, timeout) = (waiting.client.session(), waiting.connection.timeout());
        waiting.silent_for(timeout / 5 * part);
        let until = Until::within(timeout);
        let granted = session.grant(&waiting.seat, &waiting.connection, "node", &until);
        println!("{part} fifths ago: {granted:?}");
        // There is no such node, as the request that renews the lease finds out.
        let expected = match asked {
            true => Grant::NodeGone,
            false => Grant::Held,
        };
        assert_eq!(granted, Ok(expected), "{part} fifths ago");
    }
}

#[test]
fn a_lease_renewed_after_its_end_does_not_bring_a_hold_back() {
    let waiting = Waiting::new();
    let (connection, seat) = (&waiting.connection, &waiting.seat);
    assert!(waiting.is_granted());
    let renewed = renewed(connection.timeout());
    connection.vitals.lock().connected(renewed);
    let (term, left) = connection.lease(Moment::now());
    println!("term {term}, {left:?} left");
    assert!(left > Duration::ZERO, "the lease runs again");
    let standing = seat.standing(Moment::now());
    assert_eq!(standing, Standing::Lost(LossReason::LeaseExpired));
}

/// Whoever takes it over shall have some time left.
#[test]
fn with_less_than_a_third_of_a_lease_a_hold_is_neither_passed_on_nor_taken_over() {
    let waiting = Waiting::new();
    let (session, seat) = (waiting.client.session(), &waiting.seat);
    let tenth = waiting.connection.timeout() / 10;
    assert!(waiting.is_granted());
    waiting.silent_for(tenth * 7);
    assert!(session.pass_on(seat).is_none(), "passed on");
    assert_eq!(seat.standing(Moment::now()), Standing::Held);
    waiting.silent_for(tenth * 5);
    let heir = session.pass_on(seat).expect("an heir");
    waiting.silent_for(tenth * 7);
    assert!(!heir.take_over(), "taken over");
    assert_eq!(heir.standing(Moment::now()), Standing::Held);
    waiting.silent_for(Duration::ZERO);
    assert!(heir.take_over(), "not taken over");
}
