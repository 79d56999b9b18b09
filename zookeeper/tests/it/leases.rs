//! Leases: for how long a session is certain to live, and who is told when that is over.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use zoolock_test_support::{Direction, Op, Server, wait_until};
use zoolock_zookeeper::{Lease, SessionEventKind, State, ZooKeeper};

use crate::util::{SESSION, SOON, Stage, Told, client_of, make_ephemeral};

/// For leases that are to be kept on a busy machine.
const STEADY: Duration = Duration::from_secs(6);

/// A server that nobody else keeps busy.
fn quiet_server() -> &'static Server {
    static QUIET: OnceLock<Server> = OnceLock::new();
    QUIET.get_or_init(|| Server::start().unwrap())
}

/// The longest that a lease can be.
fn longest(session_timeout: Duration) -> Duration {
    session_timeout - session_timeout / 50
}

/// Looks at a lease until something is so, and that it never says more than it may.
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
fn a_new_session_is_certain_to_live_for_its_timeout_without_a_fiftieth() {
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
fn the_servers_have_the_last_word_on_the_timeout() {
    let servers = zoolock_test_support::connect_string();
    for (asked, given) in [(10, 1000), (70_000, 60_000)] {
        let client = client_of(&servers, Duration::from_millis(asked));
        let lease = client.lease();
        println!("{asked} ms asked, {:?} given: {lease:?}", client.session_timeout());
        assert_eq!(client.session_timeout(), Duration::from_millis(given));
        assert!(lease.valid_for <= longest(client.session_timeout()));
    }
}

#[test]
fn a_lease_that_is_kept_does_not_end_on_an_idle_client() {
    let stage = Stage::before(quiet_server(), "kept", STEADY);
    let keeper = stage.client.keep_lease();
    let first = stage.client.lease();
    let (begun, mut least, mut renewed, mut last) = (Instant::now(), STEADY, 0, first.end);
    look_until("5 T have passed", &stage.client, |lease| {
        assert!(!lease.valid_for.is_zero(), "{lease:?} after {:?}", begun.elapsed());
        assert_eq!(lease.term, first.term);
        least = least.min(lease.valid_for);
        // Both clocks count, so the end moves by itself a little.
        renewed += u32::from(lease.end > last + STEADY / 20);
        last = lease.end;
        begun.elapsed() > 5 * STEADY
    });
    let (writes, pings) = (stage.proxy.requests(Op::SetData), stage.proxy.requests(Op::Ping));
    println!("never less than {least:?}, renewed {renewed} times: {writes} writes, {pings} pings");
    assert!(!stage.told.kinds().contains(&SessionEventKind::LeaseEnded));
    assert!(renewed >= 10);
    assert!(writes + pings < 100, "that is no traffic to keep a lease of {STEADY:?}");
    drop(keeper);
}

#[test]
fn a_lease_that_is_not_kept_ends_while_the_session_goes_on() {
    let stage = Stage::before(quiet_server(), "not_kept", STEADY);
    let (id, path) = (stage.client.session_id(), stage.path("a"));
    make_ephemeral(&stage.client, &path);
    drop(stage.client.keep_lease());
    let first = stage.client.lease();
    let ended = look_until("it has run out", &stage.client, |lease| lease.valid_for.is_zero());
    assert!(Instant::now() >= first.end);
    let begun = Instant::now();
    look_until("2 T have passed", &stage.client, |lease| {
        assert_eq!(
            (lease.valid_for, lease.term),
            (Duration::ZERO, ended.term),
            "reads renew nothing"
        );
        begun.elapsed() > 2 * STEADY
    });
    assert_eq!((stage.client.state(), stage.client.session_id()), (State::Connected, id));
    assert!(stage.probe().exists(&path).unwrap());
    let told = stage.told.kinds();
    assert!(!told.contains(&SessionEventKind::LeaseEnded), "nobody wanted to know: {told:?}");
    // Whoever keeps it from now on has another term.
    let keeper = stage.client.keep_lease();
    let again = look_until("it is certified", &stage.client, |lease| !lease.valid_for.is_zero());
    println!("{first:?}, {ended:?}, {again:?}");
    assert!(again.term > first.term);
    drop(keeper);
}

#[test]
fn a_lease_that_is_not_kept_can_be_renewed_by_hand() {
    let stage = Stage::before(quiet_server(), "by_hand", STEADY);
    let first = stage.client.lease();
    for round in 0..3 {
        look_until("little is left", &stage.client, |lease| lease.valid_for < STEADY / 3);
        let renewed = stage.client.renew_lease().unwrap();
        println!("round {round}: {renewed:?}");
        assert!(renewed.valid_for > STEADY / 3 && renewed.end > first.end);
        assert_eq!((renewed.session_id, renewed.term), (first.session_id, first.term));
    }
    look_until("it has run out", &stage.client, |lease| lease.valid_for.is_zero());
    assert!(stage.client.renew_lease().unwrap().term > first.term);
}

#[test]
fn a_silent_way_is_left_for_another_before_the_lease_ends() {
    let [first, second] = [(); 2].map(|()| crate::util::shared_proxy());
    second.refuse(true);
    let servers = format!("{},{}", first.connect_string(), second.connect_string());
    let client = client_of(&servers, SESSION);
    second.refuse(false);
    let (told, keeper) = (Told::by(&client), client.keep_lease());
    let before = client.lease();
    first.black_hole(Direction::Both);
    let begun = Instant::now();
    let mut least = before.valid_for;
    look_until("it is certified on another way", &client, |lease| {
        assert!(!lease.valid_for.is_zero(), "{lease:?}\n{:#?}\n{:#?}", first.log(), second.log());
        least = least.min(lease.valid_for);
        second.open_connections() > 0 && lease.valid_for > SESSION * 3 / 4
    });
    println!("after {:?}, with {least:?} left at least", begun.elapsed());
    assert_eq!(client.lease().term, before.term);
    assert_eq!(told.kinds(), [SessionEventKind::Suspended, SessionEventKind::Resumed]);
    drop(keeper);
}

#[test]
fn a_session_that_outlives_its_lease_has_another_term() {
    let server = Server::start().unwrap();
    // From the server's start on there is so much time to be back.
    let client = client_of(&server.connect_string(), SESSION);
    let (told, keeper) = (Told::by(&client), client.keep_lease());
    let id = client.session_id();
    let first = client.lease();
    server.stop().unwrap();
    told.until(SessionEventKind::LeaseEnded);
    assert!(client.valid_for().is_zero());
    assert_eq!(client.lease().term, first.term);
    server.start_again().unwrap();
    told.until(SessionEventKind::Resumed);
    let again = look_until("it is certified", &client, |lease| !lease.valid_for.is_zero());
    println!("{first:?}, {again:?}, {:?}", told.kinds());
    assert_eq!(again.session_id, id);
    assert!(again.term > first.term);
    drop(keeper);
    client.close().unwrap();
    assert!(client.valid_for().is_zero());
}
