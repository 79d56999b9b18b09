//! Sessions that use several connections, and servers that grant, resume and refuse them.

use std::time::{Duration, Instant};

use zoolock_test_support::{Server, connect_string, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, Watcher};

use crate::util::{Events, SESSION, SHORT, SOON, Stage, client_of, kind, logged, make};

#[test]
fn servers_decide_the_session_timeout() {
    logged("");
    // Test servers grant timeouts from 1 s to 60 s.
    for (asked, given) in [(1, 1000), (i32::MAX as u64, 60_000)] {
        let (asked, given) = (Duration::from_millis(asked), Duration::from_millis(given));
        let client = client_of(&connect_string(), asked);
        let lease = client.lease();
        assert_eq!(client.session_timeout(), given);
        let warning = format!("timeout of {given:?} instead of {asked:?}");
        wait_until("a warning", SOON, || !logged(&warning).is_empty());
        assert!(lease.valid_for <= given - given / 50);
        client.exists("/").unwrap();
    }
}

#[test]
fn server_that_hangs_up_is_retried_with_pauses() {
    let stage = Stage::new("hangs_up", SESSION);
    let id = stage.client.session_id();
    stage.proxy.accept_and_close(true);
    stage.proxy.cut();
    stage.events.until(SessionEventKind::Suspended);
    let before = stage.proxy.connections();
    let begun = Instant::now();
    wait_until("some time has passed", SOON, || begun.elapsed() > SHORT);
    let tries = stage.proxy.connections() - before;
    assert!((2..=100).contains(&tries), "{tries}");
    stage.resume();
    assert_eq!(stage.client.session_id(), id);
}

#[test]
fn server_without_its_data_ends_the_session_in_bounded_time() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), SHORT);
    let session_events = Events::of(&client);
    let id = client.session_id();
    make(&client, "/a", b"");
    (0..20).for_each(|_| assert!(client.set_data("/a", b"", None).is_ok()));
    let (watcher, events) = Watcher::channel();
    client.get_data_w("/a", &watcher).unwrap();
    server.stop().unwrap();
    server.wipe().unwrap();
    server.start_again().unwrap();
    let back = Instant::now();
    let expired = session_events.until(SessionEventKind::Expired);
    let connected = session_events.until(SessionEventKind::Connected);
    assert_eq!(expired.session_id, id);
    // The ids of a server's sessions are derived from the time at which it started.
    assert_eq!(connected.session_id, client.session_id());
    assert!(back.elapsed() < 8 * SHORT, "T is {SHORT:?}");
    assert_eq!(kind(client.get_data("/a")), ErrorKind::NoNode);
    assert_eq!(events.try_iter().count(), 1, "the watch has ended");
    make(&client, "/a", b"");
}
