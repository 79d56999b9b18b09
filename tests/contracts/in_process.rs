//! The server of `zoolock::testing` can stop and start again. Its documentation has no examples of this.

use std::sync::Arc;
use std::time::Duration;

use zoolock::testing::Server;
use zoolock::{Client, ClientState};

use common::*;

/// Short, but long enough that sessions and connections survive on a busy machine until the server stops.
const BRIEF: Duration = Duration::from_secs(4);

/// The calls run on other threads, because a call that hangs would never return. The server stays stopped until the
/// session timeout has passed.
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
    // The server may stop before this call begins or while it waits. It must return in either case.
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
