//! What a job that is left over on a dead connection must not do. Through the library's front door
//! it takes a thread that is off the processor at the wrong moment; here it is called by name.

use std::time::Duration;

use zoolock_test_support::{connect_string, fresh_path};

use super::*;
use crate::client::Client;
use crate::node::Kind;
use crate::path::LockPath;

fn seat(client: &Client) -> Arc<Seat> {
    let seat = client.session().seat(Claim {
        directory: LockPath::parse(&fresh_path("job")).expect("a path"),
        kind: Kind::Exclusive,
        owner: None,
        identity: client.identity(),
    });
    seat.expect("a seat")
}

fn client() -> (Client, Arc<Connection>) {
    let client = Client::connect(&connect_string(), Duration::from_secs(10)).expect("connect");
    let connection = client.session().live().expect("a connection");
    (client, connection)
}

#[test]
fn it_enters_no_node_on_a_dead_connection() {
    let (client, dead) = client();
    dead.mixed_up();
    let session = client.session();
    let seat = seat(&client);
    let live = session.await_live(seat.path(), &Until::within(Duration::from_secs(20)));
    let live = live.expect("the next connection");
    let name = match enter(
        session,
        &seat,
        &live,
        &Until::within(Duration::from_secs(20)),
    ) {
        Ok(Step::Granted(name)) => name,
        _ => panic!("the only contender was not granted"),
    };
    let late = Job::new(session, &seat);
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
    let until = Until::within(Duration::from_secs(20));
    let entered = enter(session, &seat, &connection, &until);
    assert!(matches!(entered, Ok(Step::Granted(_))), "granted");
    seat.wake().0.try_send(0).expect("room for a signal");
    let late = Job::new(session, &seat);
    let looked = connection.call(&until, move |wire| late.look(wire, true).map(drop));
    assert_eq!(looked, Ok(()));
    assert_eq!(seat.wake().1.len(), 1, "the signal is the waiter's");
    session.give_up(&seat);
}
