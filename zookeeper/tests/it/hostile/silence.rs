//! Servers that open a session, but do nothing afterwards.

use std::thread;
use std::time::Duration;

use zoolock_test_support::shared_server;
use zoolock_zookeeper::{ErrorKind, Pending, SessionEventKind, Stat, State, ZooKeeper};

use super::bytes::greeting;
use crate::util::fake_server::{Connection, FakeServer};
use crate::util::{BRIEFLY, Events, SESSION, client_of, said};

/// With this many requests, all buffers between client and server are full.
const COUNT: usize = 32;

/// Returns a client of a server that, on this many connections, opens a session and then reads nothing.
fn deaf(times: usize) -> (FakeServer, ZooKeeper) {
    let fake_server = FakeServer::new(shared_server().address(), move |connection| {
        if connection.number >= times {
            return connection.pass_on();
        }
        let _session = connection.introduce()?;
        connection.ignore()
    });
    let client = client_of(&fake_server.address(), SESSION);
    (fake_server, client)
}

fn fill(client: &ZooKeeper) -> Vec<Pending<Stat>> {
    let data = vec![7; 1_000_000];
    (0..COUNT).map(|_| client.submit(|batch| batch.set_data("/none", &data, None))).collect()
}

#[test]
fn server_that_never_reads_blocks_nobody() {
    let (_door, client) = deaf(1);
    let (session, events) = (client.session_id(), Events::of(&client));
    let brief = client.with_timeout(BRIEFLY);
    let pending = fill(&brief);
    // None of these callers waits for the socket.
    assert_ne!(client.state(), State::Closed);
    drop((client.valid_for(), client.keep_lease()));
    for pending in pending {
        let error = pending.wait().unwrap_err();
        assert!(error.is_maybe_done(), "{error}");
    }
    for call in [brief.exists("/").map(drop), brief.add_auth("digest", b"a:b")] {
        assert_eq!(said(call).0, ErrorKind::Timeout);
    }
    // The client abandons the server in time. Requests that it did not read are not sent to the next server.
    events.until(SessionEventKind::Resumed);
    client.exists("/").unwrap();
    assert_eq!(client.session_id(), session);
}

#[test]
fn client_at_a_server_that_never_reads_ends_in_time() {
    for is_closed in [false, true] {
        let (_door, client) = deaf(usize::MAX);
        let events = Events::of(&client);
        drop(fill(&client));
        if is_closed {
            let (kind, text) = said(client.with_timeout(BRIEFLY).close());
            assert_eq!(kind, ErrorKind::Timeout, "{text}");
        }
        drop(client);
        events.until(SessionEventKind::Closed);
    }
}

/// If a server grants the shortest timeout, the next must not be limited to a third of it: no network is so fast.
#[test]
fn tiny_session_timeout_leaves_time_for_the_next_server() {
    const LATE: Duration = Duration::from_millis(200);
    let hurry = |connection: &mut Connection| {
        connection.frame()?;
        connection.send(&greeting(20, 0x1234).0)?;
        connection.linger()
    };
    let fake_server = FakeServer::new(shared_server().address(), hurry);
    let client = client_of(&fake_server.address(), SESSION);
    said(client.with_timeout(BRIEFLY).exists("/"));
    // The real server does not know this session.
    let events = Events::of(&client);
    fake_server.change(|connection| {
        thread::sleep(LATE);
        connection.pass_on()
    });
    events.until(SessionEventKind::Connected);
    client.exists("/").unwrap();
}
