//! Servers that restart with or without their data.

use std::time::Instant;

use zoolock_test_support::Server;
use zoolock_zookeeper::{ErrorKind, SessionEventKind};

use crate::util::{SHORT, Told, client_of, kind, make};

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
