//! `Leadership` with broken connections, outages and expired sessions.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::unbounded;
use zoolock::{ClientState, Hold, Leadership};

use super::{LONG, SHORT};
use common::relay::{Fate, MULTI, relay};
use common::*;

#[test]
fn health_is_bad_in_an_outage_and_the_leader_returns_after_it() {
    let ((proxy, own), path) = (behind_a_proxy(SHORT), fresh_path("leads-later"));
    let (tell, terms) = unbounded();
    let one = Leadership::start(&own, &*path, move |term| {
        let _ = tell.send(Hold::clone(term));
        while !term.wait_timeout(LONG) {}
    });
    let (one, leads) = (one.unwrap(), || terms.recv_timeout(SOON).expect("it leads in the end"));
    let term = leads();
    proxy.cut_off();
    wait_until("its term is over", SOON, || !term.is_held());
    assert!(!one.is_leader());
    wait_until("its health is bad", SOON, || !one.is_healthy());
    assert_eq!(own.state(), ClientState::Lost);
    proxy.refuse(false);
    assert!(leads().fencing_token() > term.fencing_token());
    assert!(one.is_healthy() && one.is_leader());
    one.shutdown();
    await_nodes(&path, 0);
}

/// Covers each state of the leadership, with a server that answers and with one that does not.
#[test]
fn shutdown_without_answers_takes_a_third_of_a_session_timeout() {
    let timeout = Duration::from_secs(6);
    for what in ["leads", "stands by", "pauses", "asks", "is away"] {
        let ((proxy, own), path) = (behind_a_proxy(timeout), fresh_path("shut-down"));
        let others = lock_of(&client(), &path);
        let (tell, told) = unbounded();
        match what {
            "stands by" => others.lock().unwrap(),
            "asks" => proxy.black_hole(Direction::Both),
            "is away" => proxy.cut_off(),
            _ => {}
        }
        let one = Leadership::start(&own, &*path, move |term| {
            tell.send(()).unwrap();
            if what == "pauses" {
                // Unlike `panic!`, this does not print a backtrace, which would be slow.
                resume_unwind(Box::new("on purpose"));
            }
            term.wait_timeout(Duration::MAX);
            assert!(!term.wait_timeout(Duration::ZERO) || term.is_over());
        })
        .unwrap();
        if ["leads", "pauses"].contains(&what) {
            told.recv_timeout(SOON).unwrap();
        }
        if what != "is away" {
            proxy.black_hole(Direction::Both);
        }
        in_time(what, timeout / 3 + Duration::from_millis(500), || one.shutdown());
    }
}

/// A server may close the connection because of a request's length or because credentials are missing. The call then
/// receives neither an answer nor an error.
#[test]
fn health_is_bad_while_every_request_ends_the_connection() {
    let (path, cuts) = (fresh_path("cut-each-time"), Arc::new(AtomicBool::new(true)));
    let on = Arc::clone(&cuts);
    let hosts = relay(move |frame| {
        match !frame.is_answer && frame.op == Some(MULTI) && on.load(Ordering::SeqCst) {
            true => Fate::Cut,
            false => Fate::Pass,
        }
    });
    let own = client_of(&hosts, Duration::from_secs(2));
    let (begun, (tell, terms)) = (Instant::now(), unbounded());
    let one = Leadership::start(&own, &*path, move |term| {
        tell.send(()).unwrap();
        while !term.wait_timeout(LONG) {}
    });
    let one = one.unwrap();
    wait_until("its health is bad", SOON, || !one.is_healthy());
    println!("bad after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= own.session_timeout());
    cuts.store(false, Ordering::SeqCst);
    terms.recv_timeout(SOON).unwrap();
    assert!(one.is_healthy());
    one.shutdown();
}
