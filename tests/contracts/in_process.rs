//! What the server of `zoolock::testing` does that its documentation does not show: it stops and starts again.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use zoolock::testing::Server;
use zoolock::{Client, ClientState, ConnectionEvent};
use zoolock_test_support::wait_until;

use common::SOON;

/// A short session timeout.
const BRIEF: Duration = Duration::from_millis(500);

/// The calls run on threads, because a hanging call never returns.
#[test]
fn stopped_server_lets_every_call_return() {
    let server = Arc::new(Server::start().unwrap());
    let [early, late, ended] = [(); 3].map(|()| server.client().unwrap());
    let (say, returned) = mpsc::channel();
    let call = |client: &Client, call: fn(&Server, &Client)| {
        let (server, client, say) = (Arc::clone(&server), client.clone(), say.clone());
        thread::spawn(move || {
            call(&server, &client);
            say.send(()).unwrap();
        });
    };
    server.suspend(&early);
    server.suspend(&late);
    // The order does not matter: the call waits when the server stops, or finds it stopped.
    call(&late, Server::resume);
    server.stop();
    call(&early, Server::resume);
    call(&ended, Server::expire);
    (0..3).for_each(|_| returned.recv_timeout(SOON).expect("each call returns"));
    server.start_again();
    for client in [&early, &late, &ended] {
        wait_until("the client is back", SOON, || client.state() == ClientState::Connected);
    }
    let sessions = [&early, &late, &ended].map(|client| client.stats().sessions);
    assert_eq!(sessions, [1, 1, 2]);
}

/// The session's timeout passes while the server is stopped.
#[test]
fn stopped_server_accepts_no_client_and_ends_no_session() {
    let server = Server::start().unwrap();
    // Long enough for a busy machine to keep connection and session until the stop.
    let client = server.builder().session_timeout(BRIEF * 4).connect().unwrap();
    let changes = client.subscribe();
    server.stop();
    assert_eq!(changes.recv_timeout(SOON), Ok(ConnectionEvent::Suspended));
    assert!(server.builder().connect_timeout(BRIEF).connect().is_err());
    wait_until("it has been away for a session timeout", SOON, || {
        client.state() == ClientState::Lost
    });
    let before = client.stats();
    server.start_again();
    wait_until("it is back", SOON, || client.state() == ClientState::Connected);
    let after = client.stats();
    println!("{after:?}");
    assert_eq!((after.sessions, after.resumed), (before.sessions, before.resumed + 1));
}
