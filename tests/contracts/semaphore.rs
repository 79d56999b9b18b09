//! `DistributedSemaphore`: permits up to the limit, all or none of those requested, without starvation. `every` tests a
//! semaphore with a single permit as a lock.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedSemaphore, Error, HoldState, LockKind, LockOptions};

use common::semaphore::*;
use common::*;

use crate::contenders::brief;
use crate::is_invalid;

/// A session timeout so long that clients send no heartbeats during a test.
const QUIET: Duration = Duration::from_secs(60);

/// Creates several clients, each with an object for this path.
fn objects<const N: usize>(path: &str, limit: u32) -> ([Client; N], [DistributedSemaphore; N]) {
    let clients = [(); N].map(|()| client());
    let objects = clients.each_ref().map(|client| semaphore(client, path, limit));
    (clients, objects)
}

#[test]
fn permits_are_counted_and_returned() {
    let (client, path) = (client(), fresh_path("sem-counted"));
    let own = semaphore(&client, &path, 5);
    assert_eq!((own.path(), own.limit()), (&*path, 5));
    assert_eq!(own.available().unwrap(), 5, "before there is a node");
    let permits = own.acquire(2).unwrap();
    let holds = permits.holds();
    println!("{own:?}, {permits:?}; on the server: {:?}", leases(&path));
    assert_eq!((permits.holds().len(), permits.path()), (2, &*path));
    assert_eq!((permits.is_held(), permits.state()), (true, HoldState::Held));
    assert!(!permits.valid_for().is_zero() && permits.valid_for() <= client.session_timeout());
    await_turns(&path, 0);
    assert_eq!(leases(&path), nodes(&permits));
    assert_eq!(own.available().unwrap(), 3);

    let rest = own.try_acquire(3).unwrap().expect("three are free");
    assert_eq!(own.available().unwrap(), 0);
    assert!(own.try_acquire(1).unwrap().is_none());
    let lost = rest.ended().clone();
    assert!(lost.try_recv().is_err_and(|told| told.is_empty()));
    rest.release().unwrap();
    assert!(lost.try_recv().is_err_and(|told| told.is_disconnected()));
    drop(permits);
    assert!(holds.iter().all(|hold| hold.state() == HoldState::Released), "{holds:?}");
    drop(own.acquire_within(5, Duration::MAX).unwrap().expect("all are free"));
    is_free(&own, &[&client]);
    // The running call and the permits keep their client alive.
    let call = acquiring(&own, 2);
    drop((own, client));
    let permits = call.result("a call of a dropped client").unwrap();
    assert_eq!((permits.state(), leases(&path)), (HoldState::Held, nodes(&permits)));
    drop(permits);
    await_leases(&path, 0);
}

/// `every` counts the requests for a single permit. For each permit, its node is created and deleted; each call also
/// creates and deletes its turn node, and lists. Concurrent deletions share a request.
#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn further_permit_costs_at_most_two_requests_and_a_refusal_costs_one() {
    let ((proxy, client), path) = (behind_a_proxy(QUIET), fresh_path("sem-cost"));
    let own = semaphore(&client, &path, 5);
    let costs = |call: &dyn Fn()| {
        call();
        await_turns(&path, 0);
        cost(&proxy, || (0..50).for_each(|_| call()))
    };
    let turns: u64 = costs(&|| own.acquire(3).unwrap().release().unwrap()).iter().sum();
    assert!((50 * 7..=50 * 9).contains(&turns), "{turns} requests for 50 turns");
    is_free(&own, &[&client]);
    let rival = shared_probe().unwrap();
    rival.create_all(&leases_of(&path)).unwrap();
    let name = format!("{path}/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-");
    rival.create(&name, b"", true, true).unwrap();
    let refused = costs(&|| assert!(own.try_acquire(5).unwrap().is_none()));
    let looks = costs(&|| assert_eq!(own.available().unwrap(), 4));
    assert_eq!([refused, looks], [[0, 0, 50, 0, 0]; 2]);
}

/// Three waiters are notified: that a permit is free again, that it has the turn, and that it is the next to have the
/// turn. Each is also notified that its own node has been deleted.
#[test]
fn release_wakes_only_the_waiter_with_the_turn() {
    const WAITERS: usize = 20;
    let (proxy, path) = (shared_proxy(), fresh_path("sem-wakes"));
    let holder = semaphore(&client(), &path, 3);
    let held: Vec<_> = (0..3).map(|_| holder.acquire(1).unwrap()).collect();
    await_turns(&path, 0);
    let waiters: Vec<_> = (1..=WAITERS)
        .map(|number| {
            let client = client_of(&proxy.connect_string(), QUIET);
            let waiter = acquiring(&semaphore(&client, &path, 3), 1);
            await_turns(&path, number);
            waiter
        })
        .collect();
    // The first waiter has the turn and has created a node for its permit, but no permit is free.
    await_leases(&path, 4);
    wait_until("the others watch", SOON, || proxy.requests(Op::SetWatches) >= WAITERS as u64 - 1);
    let mut permits = Vec::new();
    for (number, (waiter, held)) in (1..).zip(waiters.iter().zip(held)) {
        let before = proxy.events();
        held.release().unwrap();
        permits.push(waiter.result("a waiter").unwrap());
        await_turns(&path, WAITERS - number);
        await_leases(&path, 4);
        wait_until("its events have come", SOON, || proxy.events() - before >= 3);
        let events = proxy.events() - before;
        println!("release {number}: {events} events");
        assert!(events <= 6, "{events} events");
    }
    drop(permits);
    for waiter in &waiters[3..] {
        waiter.result("a waiter").unwrap().release().unwrap();
    }
    let total = proxy.events();
    assert!(total <= 6 * WAITERS as u64, "{total} events for {WAITERS} grants in all");
}

#[test]
fn raised_limit_lets_waiters_in() {
    let path = fresh_path("sem-limit-up");
    let (clients, [own, other]) = objects::<2>(&path, 2);
    let held = own.acquire(2).unwrap();
    // One waiter has the turn, and another waits behind it in the same process.
    let waiters = [waiting_with_the_turn(&own, 1), acquiring(&own, 2)];
    own.clone().set_limit(5).unwrap();
    let [one, two] = waiters.map(|waiter| waiter.result("a waiter").unwrap());
    // This does not change the limit of another object.
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
    is_free(&own, &clients.each_ref());
}

/// A node in the directory of permits or of turns with another name is ignored: it takes neither a permit nor the turn.
#[test]
fn other_nodes_are_no_permits() {
    let ([own], [semaphore]) = objects(&fresh_path("no-permits"), 2);
    let (path, probe) = (semaphore.path(), shared_probe().unwrap());
    probe.create_all(&format!("{}/x", leases_of(path))).unwrap();
    probe.create_all(&format!("{path}/locks/hello")).unwrap();
    assert_eq!(semaphore.available().unwrap(), 2);
    let both = semaphore.acquire(2).unwrap();
    assert_eq!(semaphore.available().unwrap(), 0);
    assert!(semaphore.try_acquire(1).unwrap().is_none());
    assert_eq!(brief(&semaphore.contenders().unwrap()), [(LockKind::Semaphore, true); 2]);
    both.release().unwrap();
    await_nothing_left(&own);
}

#[test]
fn invalid_limits_and_counts_are_refused_and_leave_nothing() {
    let (client, path) = (client(), fresh_path("sem-refused"));
    let before = client.stats().requests;
    is_invalid("limit", &DistributedSemaphore::new(&client, &path, 0));
    let none = DistributedSemaphore::with_options(&client, &path, 0, LockOptions::new());
    is_invalid("limit", &none);
    let own = semaphore(&client, &path, 3);
    is_invalid("limit", &own.set_limit(0));
    assert_eq!(own.limit(), 3, "unchanged");
    let asks = |count| {
        [
            own.acquire(count).map(drop),
            own.try_acquire(count).map(drop),
            own.acquire_within(count, SOON).map(drop),
            own.acquire_within(count, Instant::now()).map(drop),
        ]
    };
    for count in [0, 4, u32::MAX] {
        asks(count).iter().for_each(|seen| is_invalid("number of permits", seen));
    }
    assert_eq!(client.stats().requests, before);
    // These are more permits than a client can hold.
    own.set_limit(u32::MAX).unwrap();
    for count in [100_000, i32::MAX as u32, u32::MAX] {
        let seen = &asks(count)[..3];
        println!("{count}: {seen:?}");
        assert!(
            seen.iter().all(|seen| matches!(seen, Err(Error::LimitExceeded { .. }))),
            "{seen:?}"
        );
    }
    own.acquire(3).unwrap().release().unwrap();
    is_free(&own, &[&client]);
}

#[test]
fn try_takes_no_permit_that_a_waiter_needs_and_writes_nothing() {
    let path = fresh_path("sem-try-turn");
    let (clients, own) = objects::<2>(&path, 4);
    let [first, second] = [(); 2].map(|()| own[0].acquire(1).unwrap());
    let large = waiting_with_the_turn(&own[0], 4);
    let small = acquiring(&own[1], 1);
    await_turns(&path, 2);
    first.release().unwrap();
    for own in &own {
        assert!(own.try_acquire(1).unwrap().is_none(), "two are free, but waited for");
        assert_eq!(own.available().unwrap(), 0);
    }
    await_leases(&path, 5);
    second.release().unwrap();
    let all = large.result("the large one").unwrap();
    assert!(nodes(&all).iter().all(|node| leases(&path).contains(node)));
    assert!(!small.is_done(), "it came later, and the large request has all permits");
    all.release().unwrap();
    small.result("the small one").unwrap().release().unwrap();
    is_free(&own[0], &clients.each_ref());
}

#[test]
fn another_limit_is_logged_once_and_a_logger_that_panics_costs_nothing() {
    for name in ["limits", PANICS_THE_LOGGER] {
        let path = fresh_path(name);
        assert_eq!(warnings(&path), [""; 0]);
        let (_clients, [one, other]) = objects(&path, 3);
        other.set_limit(2).unwrap();
        let held = one.acquire(1).unwrap();
        for _ in 0..3 {
            let also = other.acquire(1).unwrap();
            assert!(other.try_acquire(1).unwrap().is_none());
            also.release().unwrap();
        }
        held.release().unwrap();
        if name != PANICS_THE_LOGGER {
            let line = format!(
                "WARN {path}: permits were taken under a limit of 3, but the limit here is 2"
            );
            wait_until("it is logged", SOON, || !warnings(&path).is_empty());
            assert_eq!(warnings(&path), [line]);
        }
    }
}
