//! Leases: how long a session is certain to live.

use std::time::{Duration, Instant};

use zoolock_test_support::{connect_string, wait_until};

use crate::util::{SESSION, SOON, Stage, client_of, logged};

/// The longest possible lease.
fn longest(session_timeout: Duration) -> Duration {
    session_timeout - session_timeout / 50
}

#[test]
fn lease_of_a_new_session_is_its_timeout_minus_a_fiftieth() {
    let before = Instant::now();
    let stage = Stage::new("lease", SESSION);
    let lease = stage.client.lease();
    let passed = before.elapsed();
    println!("{lease:?} {passed:?} after the call");
    assert_eq!(stage.client.session_timeout(), SESSION);
    assert_eq!(lease.session_id, stage.client.session_id());
    assert!(lease.valid_for < longest(SESSION));
    assert!(lease.valid_for >= longest(SESSION).saturating_sub(passed));
    assert!(lease.end >= before + longest(SESSION) && lease.end < Instant::now() + SESSION);
    assert!(stage.client.valid_for() <= lease.valid_for);
}

#[test]
fn servers_decide_the_session_timeout() {
    logged("");
    // Test servers give timeouts from 1 s to 60 s.
    for (asked, given) in [(1, 1000), (i32::MAX as u64, 60_000)] {
        let asked = Duration::from_millis(asked);
        let client = client_of(&connect_string(), asked);
        let lease = client.lease();
        println!("{asked:?} asked, {:?} given: {lease:?}", client.session_timeout());
        assert_eq!(client.session_timeout(), Duration::from_millis(given));
        let warning = format!("timeout of {:?} in place of {asked:?}", client.session_timeout());
        wait_until("a warning", SOON, || !logged(&warning).is_empty());
        assert!(lease.valid_for <= longest(client.session_timeout()));
        client.exists("/").unwrap();
    }
}
