//! What a job that is left over on a dead connection must not do. Through the library's front door
//! it takes a thread that is off the processor at the wrong moment; here it is called by name.

use std::time::Duration;

use zoolock_test_support::fresh_path;

use super::*;
use crate::client::Client;
use crate::local::Ownership;
use crate::node::Kind;
use crate::options::LockOptions;
use crate::session::Until;
use crate::session::stage::client;
use crate::site::Site;

fn seat(client: &Client) -> Arc<Seat> {
    let site = Site::new(client, &fresh_path("job"), LockOptions::new()).expect("a path");
    let claim = site.claim(&site.path, Kind::Exclusive, Ownership::AnyThread);
    let seat = client.session().seat(claim);
    seat.expect("a seat")
}

fn soon() -> Until {
    Until::within(Duration::from_secs(20))
}

#[test]
fn it_enters_no_node_on_a_dead_connection() {
    let (client, dead) = client();
    dead.mixed_up();
    let session = client.session();
    let seat = seat(&client);
    let live = session.await_live(seat.path(), &soon());
    let attempt = Attempt {
        session,
        seat: &seat,
        connection: &live.expect("the next connection"),
        until: &soon(),
    };
    let queue = Queue(&attempt);
    let Ok(Step::Granted(name)) = queue.enter() else {
        panic!("the only contender was not granted");
    };
    let late = queue.job();
    let entered = dead.step(|wire| late.enter(wire, &dead, true).map(drop));
    println!("entering late: {entered:?}");
    assert!(entered.is_none_or(|entered| entered == Err(Failure::Dead)));
    let own = seat.own().map(|(name, _)| name);
    assert_eq!(own, Some(name), "the seat's node is still its own");
    session.give_up(&seat);
}

#[test]
fn it_takes_no_signal() {
    let (client, connection) = client();
    let session = client.session();
    let seat = seat(&client);
    let attempt = Attempt { session, seat: &seat, connection: &connection, until: &soon() };
    let queue = Queue(&attempt);
    assert!(matches!(queue.enter(), Ok(Step::Granted(_))), "granted");
    seat.wake().0.try_send(0).expect("room for a signal");
    let late = queue.job();
    let looked = connection.call(&soon(), move |wire| late.look(wire, true).map(drop));
    assert_eq!(looked, Ok(()));
    assert_eq!(seat.wake().1.len(), 1, "the signal is the waiter's");
    session.give_up(&seat);
}
