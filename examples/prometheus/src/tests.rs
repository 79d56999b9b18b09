//! Tests the metrics of one lock after calls with every outcome, and after every way to lose it.

use zoolock::testing::Server;
use zoolock::{CancelToken, Error, Wait};
use zoolock_test_support::wait_until;

use super::*;

const SOON: Duration = Duration::from_secs(60);

#[test]
fn each_outcome_of_a_call_and_each_end_of_a_hold_is_counted() {
    let numbers = PrometheusBuilder::new().install_recorder().expect("the only recorder");
    let server = Server::start().expect("a server");
    let timeout = Duration::from_secs(2);
    let builder = server.builder().session_timeout(timeout).observer(MetricsObserver::new());
    let (client, others) = (builder.connect().expect("a client"), server.client().expect("one"));
    let options = LockOptions::new().name("one");
    let brief = options.clone().hold_at_most(Duration::from_millis(10));
    let [lock, brief] = [options, brief].map(|options| {
        DistributedLock::with_options(&client, "/locks/one", options).expect("a path")
    });
    let rival = DistributedLock::new(&others, "/locks/one").expect("a path");

    let held = rival.acquire().expect("held");
    assert!(lock.try_acquire().expect("busy").is_none());
    assert!(lock.acquire_within(Duration::from_millis(50)).expect("late").is_none());
    let (waiting, token) = (lock.clone(), CancelToken::new());
    let wait = Wait::FOREVER.cancelled_by(&token);
    let waiting = thread::spawn(move || waiting.acquire_within(wait).map(drop));
    wait_until("it waits", SOON, || client.stats().waiting == 1);
    token.cancel();
    let cancelled = waiting.join().expect("no panic");
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    held.release().expect("released");

    lock.acquire().and_then(|guard| guard.release()).expect("a turn");
    let held = brief.acquire().expect("held");
    held.wait(); // it is held for too long
    drop(held);
    let held = lock.acquire().expect("held");
    server.delete(&held.hold()).expect("deleted");
    drop(held);
    let held = lock.acquire().expect("held");
    server.suspend(&client);
    held.wait(); // its lease ends
    server.resume(&client);
    drop(held);
    let held = lock.acquire().expect("held");
    client.close().expect("closed");
    drop(held);
    assert!(matches!(lock.acquire().map(drop), Err(Error::Closed)));

    let labels = r#"lock="exclusive",name="one""#;
    // Losses are reported on a thread of the client.
    let has = |line: String| {
        wait_until(&line, SOON, || numbers.render().lines().any(|one| one == line));
    };
    for (outcome, calls) in
        [("acquired", 5), ("busy", 1), ("timed_out", 1), ("cancelled", 1), ("failed", 1)]
    {
        has(format!(r#"zoolock_acquisitions_total{{{labels},outcome="{outcome}"}} {calls}"#));
    }
    for reason in ["lease_expired", "node_deleted", "client_closed", "held_too_long"] {
        has(format!(r#"zoolock_lost_total{{{labels},reason="{reason}"}} 1"#));
    }
    for histogram in ["wait", "hold"] {
        has(format!("zoolock_{histogram}_seconds_count{{{labels}}} 5"));
    }
    has(format!("zoolock_queue_length_count{{{labels}}} 8"));
}
