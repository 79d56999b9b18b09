//! Sessions that use several connections, and servers that grant, resume and refuse them.

use std::time::{Duration, Instant};

use zoolock_test_support::{connect_string, wait_until};
use zoolock_zookeeper::SessionEventKind;

use crate::util::{SESSION, SHORT, SOON, Stage, client_of, logged};

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
