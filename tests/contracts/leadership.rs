//! `Leadership`: only one candidate leads at a time, and it contends again after each term.

use std::panic::panic_any;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::unbounded;
use zoolock::{Client, Hold, Leadership, Term};

use common::*;

use crate::Bomb;

/// Longer than any test takes.
const EVER: Duration = Duration::from_secs(600);

fn candidate(client: &Client, path: &str, lead: impl FnMut(&Term) + Send + 'static) -> Leadership {
    Leadership::start(client, path, lead).unwrap()
}

#[test]
fn shutdown_ends_a_term_in_order_and_a_wait_at_once() {
    let (own, path, (tell, events)) = (client(), fresh_path("shutdown"), unbounded());
    let told = tell.clone();
    let leading = candidate(&own, &path, move |term| {
        assert!(!term.is_over() && term.deadline() > Instant::now());
        tell.send(("leads", term.is_stopping())).unwrap();
        assert!(term.wait_timeout(EVER));
        // The lease has not ended yet, so that the leader can stop in an orderly way.
        assert!(term.is_held() && term.deadline() > Instant::now());
        tell.send(("stopped", term.is_stopping())).unwrap();
    });
    assert_eq!(events.recv_timeout(SOON), Ok(("leads", false)));
    let (lead, terms) = unbounded();
    let stands_by = candidate(&client(), &path, move |_| lead.send(()).unwrap());
    await_nodes(&path, 2);
    stands_by.shutdown();
    assert!(terms.is_empty());
    await_nodes(&path, 1);
    Task::spawn(move || leading.shutdown()).result("the leader's shutdown");
    told.send(("returned", true)).unwrap();
    let order: Vec<_> = events.try_iter().collect();
    assert_eq!(order, [("stopped", true), ("returned", true)]);
    assert_eq!(children(&path), [""; 0], "released before shutdown returned");
    assert_eq!(own.stats().holds_lost, 0);
    let lock = lock_of(&own, &path);
    assert!(lock.try_lock().unwrap(), "the lock is free, and the client works");
}

/// Each term ends without a loss, even if the payload of a panic panics when it is dropped, or if the logger panics
/// when the panic is reported.
#[test]
fn contest_survives_panics_caused_by_a_panic() {
    let (own, others) = (client(), client());
    let panics: [(_, fn()); 3] = [
        ("panics", || panic!("on purpose")),
        ("bomb", || panic_any(Bomb)),
        (PANICS_THE_LOGGER, || panic!("on purpose")),
    ];
    for (name, panics) in panics {
        let (path, (tell, terms)) = (fresh_path(name), unbounded());
        warnings(&path);
        let one = candidate(&own, &path, move |term| {
            tell.send(term.fencing_token()).unwrap();
            panics();
        });
        let (rival, mut last) = (lock_of(&others, &path), 0);
        for number in 1..=3 {
            let token = terms.recv_timeout(SOON);
            assert!(token.is_ok_and(|token| token > last), "{path}: {token:?} in term {number}");
            last = token.unwrap();
            let guard = rival.acquire_within(SOON).unwrap().expect("it was released");
            guard.release().unwrap();
        }
        assert!(one.is_healthy());
        one.shutdown();
        let is_told = warnings(&path).iter().any(|line| line.contains("it panicked"));
        assert_eq!(is_told, name != PANICS_THE_LOGGER);
    }
    await_nothing_left(&own);
}

/// A revocation request wakes the function once per term. All later waits in the term return immediately.
#[test]
fn revoked_term_ends_every_kind_of_wait() {
    let (own, path, (tell, told)) = (client(), fresh_path("asked-for"), unbounded());
    let one = candidate(&own, &path, move |term| {
        tell.send(false).unwrap();
        tell.send(term.wait_timeout(EVER) && term.wait_timeout(EVER) && term.is_held()).unwrap();
    });
    for _ in 0..3 {
        assert_eq!(told.recv_timeout(SOON), Ok(false), "it leads");
        own.revoke(&one.leader().unwrap().unwrap()).unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(true));
    }
    one.shutdown();
    await_nodes(&path, 0);
    // Several threads may wait for the end of one term.
    let (tell, told) = unbounded();
    let one = candidate(&own, &path, move |term| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    tell.send(false).unwrap();
                    tell.send(term.wait_timeout(EVER)).unwrap();
                });
            }
        });
    });
    (0..3).for_each(|_| assert_eq!(told.recv_timeout(SOON), Ok(false)));
    own.revoke(&one.leader().unwrap().unwrap()).unwrap();
    (0..3).for_each(|_| assert_eq!(told.recv_timeout(SOON), Ok(true)));
    one.shutdown();
}

/// The function shuts down its own leadership by a handle that it received through a channel.
#[test]
fn function_may_shut_down_its_own_leadership() {
    let (own, path) = (client(), fresh_path("ends-itself"));
    warnings(&path);
    let (give, handle) = unbounded::<Leadership>();
    let one = candidate(&own, &path, move |_| handle.recv().expect("its handle").shutdown());
    give.send(one).unwrap();
    drop(give);
    await_nodes(&path, 0);
    await_nothing_left(&own);
    assert_eq!(warnings(&path), [""; 0]);
}

#[test]
fn health_is_bad_while_the_function_ignores_a_revocation() {
    let (path, (tell, told)) = (fresh_path("asked-in-vain"), unbounded());
    let (go_on, waits) = unbounded::<()>();
    let own = client_of(&connect_string(), Duration::from_secs(2));
    let one = candidate(&own, &path, move |term| {
        tell.send(term.wait_timeout(EVER)).unwrap();
        let _ = waits.recv();
    });
    wait_until("it leads", SOON, || one.is_leader());
    own.revoke(&one.leader().unwrap().unwrap()).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(true));
    let begun = Instant::now();
    assert!(one.is_healthy(), "it may still return in time");
    wait_until("its health is bad", SOON, || !one.is_healthy());
    assert!(one.is_leader() && begun.elapsed() >= own.session_timeout());
    drop(go_on);
    one.shutdown();
}

#[test]
fn panic_after_a_long_term_keeps_the_health_good() {
    let (path, (tell, terms)) = (fresh_path("panics-late"), unbounded());
    let own = client_of(&connect_string(), Duration::from_secs(2));
    let timeout = own.session_timeout();
    let one = candidate(&own, &path, move |term| {
        tell.send(Hold::clone(term)).unwrap();
        assert!(term.wait_timeout(timeout + timeout / 10), "on purpose");
    });
    let first = terms.recv_timeout(SOON).unwrap();
    // The failures of two terms are not in a row, because the second term lasted longer than a session timeout.
    wait_until("the third term", SOON, || {
        assert!(one.is_healthy(), "after a panic");
        terms.len() > 1
    });
    assert!(!first.is_held());
    one.shutdown();
}
