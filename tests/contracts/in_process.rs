//! Behaviour of the server of `zoolock::testing` that its documentation does not show: it can stop and start again.

use std::sync::Arc;
use std::time::Duration;

use zoolock::testing::Server;
use zoolock::{Client, ClientState};

use common::*;

/// A short session timeout, but long enough that sessions and connections survive until the stop on a busy machine.
const BRIEF: Duration = Duration::from_secs(4);

/// The calls run on other threads, because a call that hangs would never return. The session timeout passes while the
/// server is stopped.
#[test]
fn stopped_server_lets_every_call_return() {
    let server = Arc::new(Server::start().unwrap());
    let clients = [(); 3].map(|()| server.builder().session_timeout(BRIEF).connect().unwrap());
    let [early, late, ended] = &clients;
    let call = |client: &Client, call: fn(&Server, &Client)| {
        let (server, client) = (Arc::clone(&server), client.clone());
        Task::spawn(move || call(&server, &client))
    };
    server.suspend(early);
    server.suspend(late);
    // Either order is fine: the call is waiting when the server stops, or finds it stopped.
    let before = call(late, Server::resume);
    server.stop();
    let calls = [before, call(early, Server::resume), call(ended, Server::expire)];
    calls.iter().for_each(|call| call.result("a call during the stop"));
    let connect_timeout = Duration::from_millis(500);
    assert!(server.builder().connect_timeout(connect_timeout).connect().is_err());
    let are = |state: ClientState| clients.iter().all(|client| client.state() == state);
    wait_until("they have been away for a timeout", SOON, || are(ClientState::Lost));
    server.start_again();
    wait_until("the clients are back", SOON, || are(ClientState::Connected));
    assert_eq!(clients.map(|client| client.stats().sessions), [1, 1, 2]);
}
