//! Servers that open a session and then do nothing.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::shared_server;
use zoolock_zookeeper::{ErrorKind, Pending, SessionEventKind, Stat, State};

use super::bytes::greeting;
use crate::util::door::{Door, Guest};
use crate::util::{BRIEFLY, SESSION, Told, client_of, said};

#[test]
fn server_that_never_reads_blocks_nobody() {
    /// More than all buffers on the way hold.
    const COUNT: usize = 32;
    const SIZE: usize = 1_000_000;
    let deaf = |guest: &mut Guest| {
        let _session = guest.introduce()?;
        guest.ignore()
    };
    let door = Door::once(shared_server().address(), Arc::new(deaf));
    let client = client_of(&door.address(), SESSION);
    let (session, told) = (client.session_id(), Told::by(&client));
    let brief = client.with_timeout(BRIEFLY);
    let data = vec![7; SIZE];
    let begun = Instant::now();
    let pending: Vec<Pending<Stat>> =
        (0..COUNT).map(|_| brief.submit(|batch| batch.set_data("/none", &data, None))).collect();
    println!("{COUNT} requests submitted in {:.1?}", begun.elapsed());
    // No caller waits for the socket.
    assert_ne!(client.state(), State::Closed);
    let _ = client.valid_for();
    let keeper = client.keep_lease();
    drop(keeper);
    for pending in pending {
        let error = pending.wait().unwrap_err();
        assert!(error.is_maybe_done(), "{error}");
    }
    println!("all are answered {:.1?} after the first", begun.elapsed());
    let error = brief.exists("/").unwrap_err();
    println!("{error}");
    // The server is given up in time, and its unread requests are not sent to the next one.
    told.until(SessionEventKind::Resumed);
    client.exists("/").unwrap();
    println!("{:?} after {:.1?}", told.kinds(), begun.elapsed());
    assert_eq!(client.session_id(), session);
}

#[test]
fn client_at_a_server_that_never_reads_ends_in_time() {
    for is_closed in [false, true] {
        let deaf = |guest: &mut Guest| {
            let _session = guest.introduce()?;
            guest.ignore()
        };
        let door = Door::new(shared_server().address(), deaf);
        let client = client_of(&door.address(), SESSION);
        let told = Told::by(&client);
        let data = vec![7; 1_000_000];
        for _ in 0..16 {
            drop(client.submit(|batch| batch.set_data("/none", &data, None)));
        }
        let begun = Instant::now();
        if is_closed {
            let (kind, text) = said(client.with_timeout(BRIEFLY).close());
            assert_eq!(kind, ErrorKind::Timeout, "{text}");
        } else {
            drop(client);
        }
        told.until(SessionEventKind::Closed);
        println!("closed: {is_closed}, over after {:.1?}", begun.elapsed());
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
    println!("{:?}", client.session_timeout());
    let error = client.with_timeout(BRIEFLY).exists("/").unwrap_err();
    println!("{error}");
    // The real server does not know this session.
    let told = Told::by(&client);
    door.change(|guest| {
        thread::sleep(LATE);
        guest.pass_on()
    });
    told.until(SessionEventKind::Connected);
    client.exists("/").unwrap();
    println!("{:?}", told.kinds());
}
