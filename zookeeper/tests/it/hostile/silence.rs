//! Servers that open a session and then do nothing.

use std::thread;
use std::time::Duration;

use zoolock_test_support::shared_server;
use zoolock_zookeeper::{ErrorKind, Pending, SessionEventKind, Stat, State, ZooKeeper};

use super::bytes::greeting;
use crate::util::door::{Door, Guest};
use crate::util::{BRIEFLY, SESSION, Told, client_of, said};

/// More than all buffers on the way hold.
const COUNT: usize = 32;

/// A client of a server that opens a session and then never reads, on so many connections.
fn deaf(times: usize) -> (Door, ZooKeeper) {
    let door = Door::new(shared_server().address(), move |guest| {
        if guest.number >= times {
            return guest.pass_on();
        }
        let _session = guest.introduce()?;
        guest.ignore()
    });
    let client = client_of(&door.address(), SESSION);
    (door, client)
}

fn fill(client: &ZooKeeper) -> Vec<Pending<Stat>> {
    let data = vec![7; 1_000_000];
    (0..COUNT).map(|_| client.submit(|batch| batch.set_data("/none", &data, None))).collect()
}

#[test]
fn server_that_never_reads_blocks_nobody() {
    let (_door, client) = deaf(1);
    let (session, told) = (client.session_id(), Told::by(&client));
    let brief = client.with_timeout(BRIEFLY);
    let pending = fill(&brief);
    // No caller waits for the socket.
    assert_ne!(client.state(), State::Closed);
    drop((client.valid_for(), client.keep_lease()));
    for pending in pending {
        let error = pending.wait().unwrap_err();
        assert!(error.is_maybe_done(), "{error}");
    }
    for call in [brief.exists("/").map(drop), brief.add_auth("digest", b"a:b")] {
        assert_eq!(said(call).0, ErrorKind::Timeout);
    }
    // The server is given up in time, and its unread requests are not sent to the next one.
    told.until(SessionEventKind::Resumed);
    client.exists("/").unwrap();
    assert_eq!(client.session_id(), session);
}

#[test]
fn client_at_a_server_that_never_reads_ends_in_time() {
    for is_closed in [false, true] {
        let (_door, client) = deaf(usize::MAX);
        let told = Told::by(&client);
        drop(fill(&client));
        if is_closed {
            let (kind, text) = said(client.with_timeout(BRIEFLY).close());
            assert_eq!(kind, ErrorKind::Timeout, "{text}");
        }
        drop(client);
        told.until(SessionEventKind::Closed);
    }
}

/// A server that grants the shortest timeout must not limit the next one to a third of that, which no network meets.
#[test]
fn tiny_session_timeout_leaves_time_for_the_next_server() {
    const LATE: Duration = Duration::from_millis(200);
    let hurry = |guest: &mut Guest| {
        guest.frame()?;
        guest.send(&greeting(20, 0x1234).0)?;
        guest.linger()
    };
    let door = Door::new(shared_server().address(), hurry);
    let client = client_of(&door.address(), SESSION);
    said(client.with_timeout(BRIEFLY).exists("/"));
    // The real server does not know this session.
    let told = Told::by(&client);
    door.change(|guest| {
        thread::sleep(LATE);
        guest.pass_on()
    });
    told.until(SessionEventKind::Connected);
    client.exists("/").unwrap();
}
