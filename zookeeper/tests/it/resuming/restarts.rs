//! Servers that restart with or without their data.

use std::time::{Duration, Instant};

use zoolock_test_support::{Server, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind};

use crate::util::{SHORT, SOON, Told, client_of, kind, make, make_ephemeral};

/// A short session timeout that still covers a restart.
const MODERATE: Duration = Duration::from_secs(10);

#[test]
fn session_outlives_a_long_downtime_of_its_only_server() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), MODERATE);
    let told = Told::by(&client);
    let id = client.session_id();
    let path = make_ephemeral(&client, "/a");
    for stop in [Server::stop, Server::kill] {
        stop(&server).unwrap();
        told.until(SessionEventKind::Suspended);
        let down = Instant::now();
        let waits = client.submit(|batch| batch.get_data(&path, None));
        wait_until("it is down for longer than T", SOON, || down.elapsed() > MODERATE * 3 / 2);
        server.start_again().unwrap();
        let ended = told.next();
        println!("{ended:?} after {:?}", down.elapsed());
        // Servers count from their start, so nobody else can end the session.
        assert_eq!((ended.kind, ended.session_id), (SessionEventKind::Resumed, id));
        assert_eq!(waits.wait().unwrap().1.ephemeral_owner, id);
    }
}

#[test]
fn server_without_its_data_ends_the_session_in_bounded_time() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), SHORT);
    let told = Told::by(&client);
    let id = client.session_id();
    make(&client, "/a", b"");
    (0..20).for_each(|_| assert!(client.set_data("/a", b"", None).is_ok()));
    let (watcher, events) = zoolock_zookeeper::Watcher::channel();
    client.get_data_w("/a", &watcher).unwrap();
    server.stop().unwrap();
    server.wipe().unwrap();
    server.start_again().unwrap();
    let back = Instant::now();
    let expired = told.until(SessionEventKind::Expired);
    let connected = told.until(SessionEventKind::Connected);
    println!("{:?} after {:?}; {events:?}", expired.kind, back.elapsed());
    assert_eq!(expired.session_id, id);
    // A server numbers its sessions from its start time.
    assert_eq!(connected.session_id, client.session_id());
    assert!(back.elapsed() < 8 * SHORT, "T is {SHORT:?}");
    assert_eq!(kind(client.get_data("/a")), ErrorKind::NoNode);
    assert_eq!(events.try_iter().count(), 1, "the watch has ended");
    make(&client, "/a", b"");
}
