//! `DistributedSemaphore`.

mod costs;
mod limits;
mod quantities;

use std::time::{Duration, Instant};

use common::semaphore::*;
use common::{SOON, client, in_time};
use zoolock::HoldState;
use zoolock_test_support::{fresh_path, shared_probe};

#[test]
fn permits_are_counted_and_come_back() {
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
fn of_several_permits_only_the_one_that_is_meant_is_asked_for() {
    let (holder, others) = (client(), client());
    let path = fresh_path("sem-revoke");
    let permits = semaphore(&holder, &path, 2).acquire(2).unwrap();
    let asked: Vec<_> = permits.holds().iter().map(|h| h.revocation().unwrap()).collect();
    let own = semaphore(&others, &path, 2);
    let all = own.contenders().unwrap();
    let second = permits.holds()[1].node();
    let wanted = all.iter().find(|c| c.node.ends_with(&second)).unwrap();
    others.revoke(wanted).unwrap();
    asked[1].recv_timeout(SOON).unwrap();
    assert!(asked[0].is_empty(), "the other one was not meant");
    assert!(permits.is_held());
    permits.release().unwrap();
    is_free(&own, &[&holder, &others]);
}

#[test]
fn permits_keep_their_client_alive() {
    let path = fresh_path("sem-last-handle");
    let permits = {
        let client = client();
        semaphore(&client, &path, 2).acquire(2).unwrap()
    };
    assert_eq!(permits.state(), HoldState::Held);
    assert_eq!(leases(&path), nodes(&permits));
    assert!(permits.lost().try_recv().is_err_and(|e| e.is_empty()));
    let prompt = Duration::from_secs(2);
    in_time("drop", prompt, || drop(permits));
    await_leases(&path, 0);
    let waiter = {
        let client = client();
        let own = semaphore(&client, &path, 2);
        acquiring(&own, 2)
    };
    // The call has a handle of its own until it ends.
    waiter.result("a call of a dropped client").unwrap().release().unwrap();
    await_leases(&path, 0);
}

/// Semaphores, permits and their holds, printed while others use them.
#[test]
fn printing_says_what_it_is() {
    let client = client();
    let path = fresh_path("sem-debug");
    let own = semaphore(&client, &path, 2);
    let permits = own.acquire(1).unwrap();
    let (one, other) = (format!("{own:?}"), format!("{permits:?}"));
    println!("{one}\n{other}");
    assert!(one.contains("DistributedSemaphore") && one.contains(&path));
    assert!(other.contains("Permits") && other.contains(&nodes(&permits)[0]));
}
