//! Servers that have opened a session and then do nothing.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::shared_server;
use zoolock_zookeeper::{ErrorKind, Pending, SessionEventKind, Stat, State};

use super::bytes::greeting;
use super::door::{Door, Guest};
use crate::util::{BRIEFLY, SESSION, Told, client_of, said};

#[test]
fn a_server_that_never_reads_blocks_nobody() {
    /// More than any buffer on the way takes.
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
    // Nobody who asks something of the client waits for the socket.
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
    // It is given up in time, and what it has not read is not sent to the next.
    told.until(SessionEventKind::Resumed);
    client.exists("/").unwrap();
    println!("{:?} after {:.1?}", told.kinds(), begun.elapsed());
    assert_eq!(client.session_id(), session);
}

#[test]
fn a_client_at_a_server_that_never_reads_is_closed_and_dropped_in_time() {
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

/// Whoever is given a millisecond must not give the next server a third of that: no network is as
/// fast.
#[test]
fn a_session_timeout_of_next_to_nothing_keeps_nobody_from_the_next_server() {
    const LATE: Duration = Duration::from_millis(200);
    let hurry = |guest: &mut Guest| {
        guest.frame()?;
        guest.send(&greeting(1, 0x1234).0)?;
        guest.linger()
    };
    let door = Door::new(shared_server().address(), hurry);
    let client = client_of(&door.address(), SESSION);
    println!("{:?}", client.session_timeout());
    let error = client.with_timeout(BRIEFLY).exists("/").unwrap_err();
    println!("{error}");
    // The session is none that the real server knows.
    let told = Told::by(&client);
    door.change(|guest| {
        thread::sleep(LATE);
        guest.pass_on()
    });
    told.until(SessionEventKind::Connected);
    client.exists("/").unwrap();
    println!("{:?}", told.kinds());
}
