//! `DistributedSemaphore`.

mod contenders;
mod costs;
mod limits;
mod quantities;
mod threads;

use std::time::{Duration, Instant};

use common::semaphore::*;
use common::{
    Arrivals, SOON, assert_cancelled, await_resumed, client, client_of, is_lost, never_two_inside,
    shared_proxy,
};
use zoolock::{HoldState, LossReason};
use zoolock_test_support::{FaultProxy, fresh_path, shared_probe, wait_until};

#[test]
fn smoke() {
    let client = client();
    let path = fresh_path("sem-smoke");
    let semaphore = semaphore(&client, &path, 5);
    assert_eq!((semaphore.path(), semaphore.limit()), (&*path, 5));
    assert_eq!(semaphore.available().unwrap(), 5, "before there is a node");

    let permits = semaphore.acquire(2).unwrap();
    println!("{permits:?}; on the server: {:?}", leases(&path));
    assert_eq!((permits.count(), permits.path()), (2, &*path));
    assert!(permits.is_held());
    assert_eq!(permits.state(), HoldState::Held);
    assert!(!permits.valid_for().is_zero() && permits.valid_for() <= client.session_timeout());
    assert_eq!(leases(&path), nodes(&permits));
    assert_eq!(turns(&path), [""; 0], "the turn was given back");
    let names = nodes(&permits);
    assert!(names.iter().all(|name| name.contains("-lease-")), "{names:?}");
    let holds = permits.holds();
    let probe = shared_probe().unwrap();
    for hold in &holds {
        let node = format!("{path}/{LEASES}/{}", hold.node());
        let stat = probe.stat(&node).unwrap().expect("its node");
        assert_eq!(hold.fencing_token().unwrap(), stat.czxid as u64);
        assert_ne!(stat.ephemeral_owner, 0);
    }
    assert_eq!(semaphore.available().unwrap(), 3);

    let rest = semaphore.try_acquire(3).unwrap().expect("three are free");
    assert_eq!(semaphore.available().unwrap(), 0);
    assert!(semaphore.try_acquire(1).unwrap().is_none());
    assert!(rest.lost().try_recv().is_err_and(|e| e.is_empty()));
    let lost = rest.lost().clone();
    rest.release().unwrap();
    assert!(lost.try_recv().is_err_and(|e| e.is_disconnected()));
    drop(permits);
    for hold in &holds {
        assert_eq!(hold.state(), HoldState::Released);
    }
    assert_eq!(leases(&path), [""; 0]);

    let for_long = semaphore.try_acquire_for(5, SOON).unwrap();
    drop(for_long.expect("all are free"));
    let for_ever = semaphore.try_acquire_for(5, Duration::MAX).unwrap();
    drop(for_ever.expect("all are free"));
    let until = semaphore.try_acquire_until(1, Instant::now() + SOON);
    drop(until.unwrap().expect("all are free"));
    is_free(&semaphore, &[&client]);
    client.close().unwrap();
}

#[test]
fn excludes() {
    const ENTRIES: u32 = 15;
    let clients = [client(), client()];
    let path = fresh_path("sem-excludes");
    let both = clients.each_ref().map(|client| semaphore(client, &path, 1));
    let permits = both[0].acquire(1).unwrap();
    assert!(both[1].try_acquire(1).unwrap().is_none());
    permits.release().unwrap();
    let visitors = both.iter().flat_map(|own| [own.clone(), own.clone()]);
    never_two_inside(visitors, ENTRIES, |semaphore, inside| {
        let permits = semaphore.acquire(1).unwrap();
        inside();
        permits.release().unwrap();
    });
    is_free(&both[0], &[&clients[0], &clients[1]]);
}

/// Any two of them together are more than the limit.
#[test]
fn fifo() {
    const COUNTS: [u32; 6] = [2, 3, 2, 2, 3, 2];
    let clients = [client(), client()];
    let path = fresh_path("sem-fifo");
    let held = semaphore(&clients[0], &path, 3).acquire(3).unwrap();
    let mut arrivals = Arrivals::new();
    for (number, count) in COUNTS.into_iter().enumerate() {
        let own = semaphore(&clients[number % 2], &path, 3);
        arrivals.join(move |inside| {
            let permits = own.acquire(count).unwrap();
            inside();
            permits.release().unwrap();
        });
        await_turns(&path, number + 1);
    }
    assert!(arrivals.is_empty(), "more are out than there are");
    held.release().unwrap();
    assert_eq!(arrivals.order(), [0, 1, 2, 3, 4, 5]);
    is_free(&semaphore(&clients[0], &path, 3), &[&clients[0], &clients[1]]);
}

#[test]
fn times_out() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let clients = [client(), client()];
    let path = fresh_path("sem-times_out");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 3));
    let held = own[0].acquire(2).unwrap();
    for timeout in [TIMEOUT, Duration::ZERO] {
        let begun = Instant::now();
        let seen = own[1].try_acquire_for(2, timeout).unwrap();
        let took = begun.elapsed();
        println!("try_acquire_for({timeout:?}): {seen:?} after {took:?}");
        assert!(seen.is_none() && took >= timeout && took < SOON);
    }
    let begun = Instant::now();
    let seen = own[1].try_acquire_until(2, begun + TIMEOUT).unwrap();
    assert!(seen.is_none() && begun.elapsed() >= TIMEOUT, "{seen:?}");
    assert!(own[1].try_acquire(2).unwrap().is_none());
    assert_eq!(await_leases(&path, 2), nodes(&held), "nothing else is left");
    await_turns(&path, 0);
    // The third one was free all the time.
    let third = own[1].try_acquire_for(1, SOON).unwrap().expect("one");
    third.release().unwrap();
    // Behind somebody who has the turn.
    let ahead = waiting_with_the_turn(&own[0], 2);
    let begun = Instant::now();
    let seen = own[1].try_acquire_for(1, TIMEOUT).unwrap();
    println!("behind another: {seen:?} after {:?}", begun.elapsed());
    assert!(seen.is_none() && begun.elapsed() >= TIMEOUT);
    assert_eq!(await_turns(&path, 1).len(), 1, "of the one ahead");
    held.release().unwrap();
    drop(ahead.result("the one ahead").unwrap());
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn cleans_up() {
    let client = client();
    let path = fresh_path("sem-cleans_up");
    let own = semaphore(&client, &path, 2);
    let permits = own.acquire(2).unwrap();
    assert_eq!(leases(&path), nodes(&permits));
    permits.release().unwrap();
    assert_eq!((leases(&path).len(), turns(&path).len()), (0, 0), "release");
    drop(own.acquire(2).unwrap());
    assert_eq!((leases(&path).len(), turns(&path).len()), (0, 0), "drop");
    drop(own.try_acquire(2).unwrap());
    assert_eq!((leases(&path).len(), turns(&path).len()), (0, 0), "try");

    let held = own.acquire(1).unwrap();
    let timeout = Duration::from_millis(200);
    assert!(own.try_acquire_for(2, timeout).unwrap().is_none());
    assert_eq!(await_leases(&path, 1), nodes(&held), "after a timeout");
    await_turns(&path, 0);
    let waiter = waiting_with_the_turn(&own, 2);
    own.cancel_waiters();
    let cancelled = waiter.result("a cancelled waiter");
    println!("cancelled: {cancelled:?}");
    assert_cancelled(&cancelled, &path);
    assert_eq!(await_leases(&path, 1), nodes(&held), "after a cancel");
    await_turns(&path, 0);
    drop(held);
    is_free(&own, &[&client]);
}

#[test]
fn survives_cut() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), Duration::from_secs(6));
    let path = fresh_path("sem-survives_cut");
    let own = semaphore(&cut, &path, 3);
    own.acquire(2).unwrap().release().unwrap();
    proxy.cut();
    own.acquire(2).unwrap().release().unwrap();
    println!("cut while idle: {:?}", cut.stats());

    let rivals = client();
    let held = semaphore(&rivals, &path, 3).acquire(2).unwrap();
    let first = waiting_with_the_turn(&own, 2);
    let second = acquiring(&semaphore(&cut, &path, 3), 3);
    let before = await_turns(&path, 2);
    proxy.cut();
    await_resumed(&cut, 2);
    assert_eq!(turns(&path), before);
    await_leases(&path, 4);
    assert!(!first.is_done() && !second.is_done(), "too many are out");
    held.release().unwrap();
    let first = first.result("the first waiter").unwrap();
    println!("cut while waiting: {first:?}, {:?}", cut.stats());
    assert!(!second.is_done(), "one is left, three are wanted");
    first.release().unwrap();
    second.result("the second waiter").unwrap().release().unwrap();
    is_free(&own, &[&cut, &rivals]);
}

#[test]
fn survives_cut_while_held() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), Duration::from_secs(3));
    let path = fresh_path("sem-survives_cut");
    let own = semaphore(&cut, &path, 3);
    let permits = own.acquire(3).unwrap();
    let holds = permits.holds();
    let tokens = || -> Vec<u64> { holds.iter().map(|h| h.fencing_token().unwrap()).collect() };
    let (before, known) = (nodes(&permits), tokens());
    proxy.cut();
    await_resumed(&cut, 1);
    assert_eq!(permits.state(), HoldState::Held);
    let after = await_leases(&path, 3);
    println!("{after:?}; {:?}", cut.stats());
    assert_eq!((nodes(&permits), tokens()), (before.clone(), known));
    assert_eq!(after, before);

    proxy.refuse(true);
    FaultProxy::cut(&proxy);
    wait_until("suspended", SOON, || permits.state() == HoldState::Suspended);
    assert!(permits.is_held());
    let begun = Instant::now();
    let released = permits.release();
    println!("release while suspended: {released:?}, {:?}", begun.elapsed());
    released.unwrap();
    assert_eq!(holds[0].state(), HoldState::Released);
    proxy.refuse(false);
    await_leases(&path, 0);

    let permits = own.acquire(3).unwrap();
    proxy.refuse(true);
    proxy.cut();
    let took = wait_until("lost", SOON, || !permits.is_held());
    assert_eq!(permits.state(), HoldState::Lost(LossReason::LeaseExpired));
    let heard = permits.lost().recv_timeout(SOON);
    assert!(heard.is_err_and(|error| error.is_disconnected()));
    let released = permits.release().expect_err("they were lost");
    println!("lost {took:?} after the cut; release: {released:?}");
    assert!(is_lost(&released, &path, LossReason::LeaseExpired));
    proxy.refuse(false);
    let again = own.try_acquire_for(3, SOON).unwrap().expect("all came back");
    again.release().unwrap();
    is_free(&own, &[&cut]);
}
