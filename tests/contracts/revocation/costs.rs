//! What listening costs.

use std::time::Duration;

use zoolock_test_support::{FaultProxy, Probe, Server, fresh_path, wait_until};

use super::{contender_of, ends, is_asked, is_not_asked};
use common::basics::hold_of;
use common::{SESSION, SOON, await_resumed, client, client_of, lock_of, packets};

#[test]
fn listening_costs_one_request_however_many_listen() {
    let server = Server::start().unwrap();
    // Long enough that nothing else is sent meanwhile.
    let own = client_of(&server.connect_string(), Duration::from_secs(60));
    let lock = lock_of(&own, "/cost");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let plain = packets(&server, || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    });
    let listened = packets(&server, || {
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let before = own.stats().requests;
        let listeners: Vec<_> = (0..10).map(|_| hold.revocation().unwrap()).collect();
        wait_until("it is watched", SOON, || own.stats().requests > before);
        is_not_asked(&listeners[0], "nobody asked");
        hold.fencing_token().unwrap();
        lock.unlock().unwrap();
    });
    println!("{plain} packets without, {listened} with ten listeners and a token");
    assert_eq!(plain, 3);
    // The token may have been asked for beside it.
    assert!((plain + 1..=plain + 2).contains(&listened), "{listened}");
    let probe = Probe::connect(server.address()).unwrap();
    lock.lock().unwrap();
    let contender = own.contenders("/cost").unwrap().pop().unwrap();
    let asking = packets(&server, || own.revoke(&contender).unwrap());
    assert_eq!(asking, 1);
    lock.unlock().unwrap();
    drop(probe);
}

#[test]
fn no_watch_is_left_behind() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let own = client_of(&proxy.connect_string(), SESSION);
    let watches = || server.metric("zk_watch_count").unwrap();
    let lock = lock_of(&own, "/watched");
    let mut most = 0;
    for round in 0..100 {
        lock.lock().unwrap();
        let asked = hold_of(&lock).revocation().unwrap();
        if round % 10 == 0 {
            // Let the read through before the release.
            hold_of(&lock).fencing_token().unwrap();
            most = most.max(watches());
        }
        if round % 10 == 5 {
            let contender = own.contenders("/watched").unwrap().pop().unwrap();
            own.revoke(&contender).unwrap();
            is_asked(&asked, "the holder");
        }
        lock.unlock().unwrap();
        ends(&asked, "released");
    }
    let took = wait_until("no watch is left", SOON, || watches() == 0);
    println!("at most {most} watches, none {took:?} after the last release");
    // Over a cut.
    let guard = lock.acquire().unwrap();
    let _asked = guard.revocation().unwrap();
    proxy.cut();
    await_resumed(&own, 1);
    wait_until("it is watched again", SOON, || watches() == 1);
    guard.release().unwrap();
    wait_until("no watch is left", SOON, || watches() == 0);
}

#[test]
fn a_hold_that_looks_again_and_again_listens_as_long_as_it_likes() {
    const LOOKS: u32 = 20_000;
    let own = client();
    let guard = lock_of(&own, &fresh_path("polling")).acquire().unwrap();
    let before = own.stats().requests;
    let begun = std::time::Instant::now();
    for _ in 0..LOOKS {
        let asked = guard.revocation().unwrap();
        is_not_asked(&asked, "nobody asked");
    }
    let took = begun.elapsed();
    let asked = guard.revocation().unwrap();
    own.revoke(&contender_of(&own, &guard)).unwrap();
    let begun = std::time::Instant::now();
    is_asked(&asked, "the holder");
    println!(
        "{LOOKS} looks in {took:?} and {} requests, told after {:?}",
        own.stats().requests - before,
        begun.elapsed()
    );
    guard.release().unwrap();
}
