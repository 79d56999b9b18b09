//! The limit, and how many may be asked for.

use std::time::Instant;

use zoolock::{DistributedSemaphore, Error, LockOptions};
use zoolock_test_support::{Op, fresh_path, shared_probe, wait_until};

use super::{acquiring, await_leases, is_free, leases, semaphore, turns, waiting_with_the_turn};
use common::{SESSION, SOON, client, client_of, shared_proxy};

#[test]
fn a_higher_limit_lets_those_who_wait_in() {
    let clients = [client(), client()];
    let path = fresh_path("sem-limit-up");
    let own = semaphore(&clients[0], &path, 2);
    let held = own.acquire(2).unwrap();
    // With the turn, and behind it in the process.
    let waiters = [waiting_with_the_turn(&own, 1), acquiring(&own, 2)];
    own.clone().set_limit(5).unwrap();
    let begun = Instant::now();
    let [one, two] = waiters.map(|waiter| waiter.result("a waiter").unwrap());
    println!("{} and {} in {:?}", one.count(), two.count(), begun.elapsed());
    // Another object has a limit of its own.
    let other = semaphore(&clients[1], &path, 2);
    let last = waiting_with_the_turn(&other, 1);
    own.set_limit(6).unwrap();
    assert_eq!((own.limit(), other.limit()), (6, 2));
    let free = [own.available().unwrap(), other.available().unwrap()];
    assert_eq!((free, last.is_done()), ([0, 0], false));
    other.set_limit(5).unwrap();
    other.set_limit(6).unwrap();
    let last = last.result("the other object's").unwrap();
    for permits in [held, one, two, last] {
        assert!(permits.is_held());
        permits.release().unwrap();
    }
    is_free(&own, &[&clients[0], &clients[1]]);
}

#[test]
fn a_lower_limit_keeps_what_is_out_and_holds_back() {
    let proxy = shared_proxy();
    let watched = client_of(&proxy.connect_string(), SESSION);
    let holders = client();
    let path = fresh_path("sem-limit-down");
    let (own, holder) = (semaphore(&watched, &path, 4), semaphore(&holders, &path, 4));
    let mut held: Vec<_> = (0..4).map(|_| holder.acquire(1).unwrap()).collect();
    let waiter = waiting_with_the_turn(&own, 1);
    own.set_limit(2).unwrap();
    assert!(held.iter().all(|permits| permits.is_held()));
    assert_eq!(own.available().unwrap(), 0, "not less than none");
    while held.len() > 1 {
        let looks = proxy.requests(Op::GetChildren);
        held.pop().unwrap().release().unwrap();
        if held.len() > 1 {
            wait_until("it has looked again", SOON, || proxy.requests(Op::GetChildren) > looks);
            await_leases(&path, held.len() + 1);
            assert!(!waiter.is_done(), "{} others are out", held.len());
        }
    }
    let permits = waiter.result("the second of two").unwrap();
    assert_eq!(own.available().unwrap(), 0);
    assert_eq!(holder.available().unwrap(), 2, "its limit is another");
    permits.release().unwrap();
    drop(held);
    is_free(&own, &[&watched, &holders]);
}

#[test]
fn a_call_that_waits_for_more_than_a_lower_limit_goes_on_waiting() {
    let proxy = shared_proxy();
    let watched = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("sem-limit-below");
    let own = semaphore(&watched, &path, 3);
    let held = own.acquire(1).unwrap();
    let waiter = waiting_with_the_turn(&own, 3);
    own.set_limit(2).unwrap();
    let error = own.acquire(3).map(drop).expect_err("more than there are");
    println!("{error}");
    let looks = proxy.requests(Op::GetChildren);
    held.release().unwrap();
    wait_until("it has looked again", SOON, || proxy.requests(Op::GetChildren) > looks);
    assert_eq!((leases(&path).len(), turns(&path).len()), (3, 1));
    assert!(!waiter.is_done(), "three of two");
    own.set_limit(3).unwrap();
    waiter.result("all three").unwrap().release().unwrap();
    is_free(&own, &[&watched]);
}

/// Each sees to it that its own permits are granted only while no more than its limit are out.
#[test]
fn objects_with_different_limits_go_by_their_own() {
    let clients = [client(), client()];
    let path = fresh_path("sem-mismatch");
    let (low, high) = (semaphore(&clients[0], &path, 2), semaphore(&clients[1], &path, 4));
    let both = low.acquire(2).unwrap();
    assert!(low.try_acquire(1).unwrap().is_none());
    let more = high.try_acquire(2).unwrap().expect("four are fine by it");
    assert!(high.try_acquire(1).unwrap().is_none());
    both.release().unwrap();
    assert_eq!((low.available().unwrap(), high.available().unwrap()), (0, 2));
    assert!(low.try_acquire(1).unwrap().is_none(), "two are out");
    let waiter = waiting_with_the_turn(&low, 1);
    more.release().unwrap();
    waiter.result("the low one").unwrap().release().unwrap();
    is_free(&high, &[&clients[0], &clients[1]]);
}

fn is_invalid(what: &str, error: &Error) {
    println!("{error}");
    let seen = matches!(error, Error::InvalidArgument { what: at, reason }
        if *at == what && !reason.is_empty());
    assert!(seen, "{error:?}");
}

#[test]
fn limits_and_counts_that_make_no_sense_are_refused_without_a_request() {
    let client = client();
    let path = fresh_path("sem-refused");
    let before = client.stats().requests;
    let none = DistributedSemaphore::new(&client, &path, 0).map(drop);
    is_invalid("limit", &none.unwrap_err());
    let options = LockOptions::new();
    let none = DistributedSemaphore::with(&client, &path, 0, options).map(drop);
    is_invalid("limit", &none.unwrap_err());
    for bad in ["", "/", "a", "/a/", "/a//b", "/a/../b"] {
        let error = DistributedSemaphore::new(&client, bad, 1).map(drop);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::InvalidPath { .. }), "{bad}: {error}");
    }
    let own = semaphore(&client, &path, 3);
    is_invalid("limit", &own.set_limit(0).unwrap_err());
    assert_eq!(own.limit(), 3, "unchanged");
    for count in [0, 4, u32::MAX] {
        let seen = [
            own.acquire(count).map(drop),
            own.try_acquire(count).map(drop),
            own.try_acquire_for(count, SOON).map(drop),
            own.try_acquire_until(count, Instant::now()).map(drop),
        ];
        for seen in seen {
            is_invalid("number of permits", &seen.unwrap_err());
        }
    }
    assert_eq!(client.stats().requests, before);
    assert!(!shared_probe().unwrap().exists(&path).unwrap());
}

#[test]
fn more_permits_than_a_client_can_have_are_refused_and_nothing_is_left() {
    let client = client();
    let path = fresh_path("sem-huge");
    let own = semaphore(&client, &path, u32::MAX);
    for count in [100_000, i32::MAX as u32, u32::MAX] {
        let begun = Instant::now();
        let seen = [
            own.try_acquire(count).map(drop),
            own.acquire(count).map(drop),
            own.try_acquire_for(count, SOON).map(drop),
        ];
        println!("{count}: {:?} after {:?}", seen[0], begun.elapsed());
        for seen in seen {
            assert!(matches!(seen, Err(Error::Limit { .. })), "{seen:?}");
        }
        assert!(begun.elapsed() < SOON);
    }
    own.acquire(3).unwrap().release().unwrap();
    is_free(&own, &[&client]);
}

#[test]
fn ten_thousand_permits_are_held_by_a_few_clients() {
    const LIMIT: u32 = 10_000;
    let clients = [(); 4].map(|()| client_of(&zoolock_test_support::connect_string(), SESSION * 6));
    let path = fresh_path("sem-many");
    let own = clients.each_ref().map(|client| semaphore(client, &path, LIMIT));
    let mut taken = Vec::new();
    for (number, own) in own.iter().enumerate() {
        let begun = Instant::now();
        let permits = match number {
            0 => own.try_acquire(LIMIT / 4).unwrap().expect("all are free"),
            _ => own.acquire(LIMIT / 4).unwrap(),
        };
        println!("{} taken in {:?}", permits.count(), begun.elapsed());
        taken.push(permits);
    }
    assert_eq!(own[0].available().unwrap(), 0);
    assert!(own[0].try_acquire(1).unwrap().is_none());
    assert!(taken.iter().all(|permits| permits.is_held()));
    assert_eq!(leases(&path).len(), LIMIT as usize);
    let waiter = waiting_with_the_turn(&own[0], 1);
    let begun = Instant::now();
    taken.pop().unwrap().release().unwrap();
    println!("a quarter released in {:?}", begun.elapsed());
    waiter.result("the waiter").unwrap().release().unwrap();
    for permits in taken {
        permits.release().unwrap();
    }
    let clients: Vec<_> = clients.iter().collect();
    is_free(&own[0], &clients);
}
