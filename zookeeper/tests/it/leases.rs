//! Leases: how long a session is certain to live.

use std::time::{Duration, Instant};

use zoolock_test_support::{Server, connect_string, wait_until};
use zoolock_zookeeper::{Lease, SessionEventKind, State, ZooKeeper};

use crate::util::{SESSION, SOON, Stage, client_of, logged, make_ephemeral};

/// A session timeout whose lease survives on a busy machine.
const STEADY: Duration = Duration::from_secs(6);

/// The longest possible lease.
fn longest(session_timeout: Duration) -> Duration {
    session_timeout - session_timeout / 50
}

/// Reads the lease until `is_so`, and expects it never to exceed its maximum.
#[track_caller]
fn look_until(what: &str, client: &ZooKeeper, mut is_so: impl FnMut(Lease) -> bool) -> Lease {
    let mut last = client.lease();
    wait_until(what, SOON, || {
        last = client.lease();
        assert!(last.valid_for <= longest(client.session_timeout()), "{last:?}");
        is_so(last)
    });
    last
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

#[test]
fn unkept_lease_ends_while_the_session_continues() {
    // A server without other load.
    let server = Server::start().unwrap();
    let stage = Stage::before(&server, "not_kept", STEADY);
    let (id, path) = (stage.client.session_id(), stage.path("a"));
    make_ephemeral(&stage.client, &path);
    drop(stage.client.keep_lease());
    let first = stage.client.lease();
    for round in 0..2 {
        look_until("little is left", &stage.client, |lease| lease.valid_for < STEADY / 3);
        let renewed = stage.client.renew_lease().unwrap();
        println!("round {round}: {renewed:?}");
        assert!(renewed.valid_for > STEADY / 3 && renewed.end > first.end);
        assert_eq!((renewed.session_id, renewed.term), (first.session_id, first.term));
    }
    let ended = look_until("it has run out", &stage.client, |lease| lease.valid_for.is_zero());
    let begun = Instant::now();
    look_until("T has passed", &stage.client, |lease| {
        let seen = (lease.valid_for, lease.term);
        assert_eq!(seen, (Duration::ZERO, ended.term), "reads renew nothing");
        begun.elapsed() > STEADY
    });
    assert_eq!((stage.client.state(), stage.client.session_id()), (State::Connected, id));
    assert!(stage.probe().exists(&path).unwrap());
    let told = stage.told.kinds();
    assert!(!told.contains(&SessionEventKind::LeaseEnded), "nobody wanted to know: {told:?}");
    let again = stage.client.renew_lease().unwrap();
    println!("{first:?}, {ended:?}, {again:?}");
    assert!(again.term > first.term);
}
