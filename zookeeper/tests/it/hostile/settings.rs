//! Invalid settings, and servers that are none.

use std::io::Write;
use std::time::{Duration, Instant};

use zoolock_test_support::connect_string;
use zoolock_zookeeper::{ConnectFailure, ErrorKind, ZooKeeper};

use crate::util::door::Door;
use crate::util::{SESSION, SOON, client_of, said, shared_proxy};

#[test]
fn impossible_session_timeouts_are_refused() {
    let most = Duration::from_millis(i32::MAX as u64);
    for timeout in
        [Duration::ZERO, Duration::from_nanos(1), most + Duration::from_millis(1), Duration::MAX]
    {
        let (kind, text) = said(ZooKeeper::connect("127.0.0.1:1", timeout));
        assert_eq!(kind, ErrorKind::BadArguments);
        assert!(text.contains("a session timeout of "), "{text}");
        assert!(text.contains("1 to 2147483647 are allowed"), "{text}");
    }
}

#[test]
fn every_server_of_the_list_is_named_with_its_own_reason() {
    let nobody = shared_proxy();
    nobody.refuse(true);
    let refused = nobody.address();
    let http = Door::new(refused, |guest| {
        guest.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        guest.linger()
    });
    let begun = Instant::now();
    let servers = format!("{refused},{}", http.address());
    let error = ZooKeeper::builder(&servers).connect_timeout(SOON).connect().unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::ConnectFailed);
    assert_eq!(error.connect_failure(), Some(ConnectFailure::NoSession), "{text}");
    assert!(begun.elapsed() < SOON, "nothing was worth waiting for: {:?}", begun.elapsed());
    assert!(text.contains(&format!("{refused}: Connection refused")), "{text}");
    assert!(text.contains(&format!("{}: the answer begins with", http.address())), "{text}");
    // Both leave the connect to a good server.
    client_of(&format!("{servers},{}", connect_string()), SESSION).exists("/").unwrap();
}
