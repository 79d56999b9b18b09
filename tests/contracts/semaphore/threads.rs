//! Many threads: clones, permits that travel, calls that are cancelled or closed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedSemaphore, Error, HoldState, LossReason, Permits};
use zoolock_test_support::{fresh_path, wait_until};

use super::{
    Meter, acquiring, await_leases, await_turns, is_free, leases, nodes, semaphore, turns,
    waiting_with_the_turn,
};
use common::{SOON, Task, assert_cancelled, client, in_time, is_lost, warnings};

#[test]
fn semaphores_and_permits_may_go_to_any_thread() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<DistributedSemaphore>();
    sendable::<Permits>();
    let client = client();
    let path = fresh_path("sem-travel");
    let own = semaphore(&client, &path, 2);
    let permits = {
        let own = own.clone();
        Task::spawn(move || own.acquire(2).unwrap()).result("a thread that ends")
    };
    assert!(permits.is_held(), "though its thread has ended");
    Task::spawn(move || drop(permits)).result("a thread that drops them");
    assert_eq!(leases(&path), [""; 0]);
    let permits = own.acquire(1).unwrap();
    let released = Task::spawn(move || permits.release()).result("one that releases them");
    released.unwrap();
    is_free(&own, &[&client]);
}

#[test]
fn clones_are_one_object() {
    let client = client();
    let path = fresh_path("sem-clones");
    let own = semaphore(&client, &path, 1);
    let clone = own.clone();
    own.set_limit(2).unwrap();
    assert_eq!((clone.limit(), clone.path()), (2, own.path()));
    let permits = own.acquire(2).unwrap();
    assert_eq!(clone.available().unwrap(), 0);
    let waiter = waiting_with_the_turn(&own, 1);
    clone.cancel_waiters();
    let seen = waiter.result("cancelled by the clone");
    assert!(seen.as_ref().is_err_and(Error::is_cancelled), "{seen:?}");
    drop((own, permits));
    is_free(&clone, &[&client]);
}

#[test]
fn many_threads_of_one_object_share_it() {
    const LIMIT: u32 = 3;
    const ROUNDS: u32 = 20;
    let client = client();
    let path = fresh_path("sem-threads");
    let own = semaphore(&client, &path, LIMIT);
    let meter = Arc::new(Meter::default());
    let begun = Instant::now();
    let threads: Vec<_> = (0..8_u32)
        .map(|number| {
            let (own, meter) = (own.clone(), Arc::clone(&meter));
            Task::spawn(move || {
                for round in 0..ROUNDS {
                    let count = (number + round) % LIMIT + 1;
                    meter.use_up(own.acquire(count).unwrap(), |_| thread::yield_now());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.result("a thread");
    }
    println!("{} grants in {:?}", meter.grants(), begun.elapsed());
    meter.never_saw_more_than(LIMIT);
    assert_eq!(meter.grants(), 8 * ROUNDS);
    is_free(&own, &[&client]);
}

/// One waits for permits with the turn, one behind it in the process, one in the queue.
#[test]
fn cancel_waiters_ends_the_waits_of_one_object_in_every_phase() {
    let clients = [client(), client()];
    let path = fresh_path("sem-cancel");
    let (own, other) = (semaphore(&clients[0], &path, 2), semaphore(&clients[1], &path, 2));
    let held = own.acquire(1).unwrap();
    let cancelled = |what: &str, seen: zoolock::Result<Permits>| {
        println!("{what}: {seen:?}");
        assert_cancelled(&seen, &path);
    };
    let first = waiting_with_the_turn(&own, 2);
    let queued = acquiring(&other, 2);
    await_turns(&path, 2);
    other.cancel_waiters();
    cancelled("in the queue", queued.result("one in the queue"));
    await_turns(&path, 1);
    let behind = acquiring(&own, 2);
    let unaffected = acquiring(&other, 1);
    await_turns(&path, 2);
    // Whether it has come to wait for the first one's turn cannot be seen from outside.
    wait_until("both are cancelled", SOON, || {
        own.cancel_waiters();
        first.is_done() && behind.is_done()
    });
    cancelled("with the turn", first.result("with the turn"));
    cancelled("behind it", behind.result("behind it"));
    // It was behind them.
    let unaffected = unaffected.result("another object's").unwrap();
    assert_eq!(await_leases(&path, 2).len(), 2);
    assert_eq!(turns(&path), [""; 0]);
    assert!(held.is_held(), "what is held is not affected");
    drop((held, unaffected));
    // Calls that come later are not.
    own.acquire(2).unwrap().release().unwrap();
    is_free(&own, &[&clients[0], &clients[1]]);
}

/// At any instant of the wait: between the two phases, too.
#[test]
fn a_cancel_is_heard_at_any_time() {
    const ROUNDS: u64 = 60;
    let client = client();
    let path = fresh_path("sem-cancel-any");
    let own = semaphore(&client, &path, 2);
    let held = own.acquire(1).unwrap();
    let (mut random, mut longest) = (fastrand::Rng::with_seed(7), Duration::ZERO);
    for _ in 0..ROUNDS {
        let waiter = acquiring(&own, 2);
        // So that it is a call that waits, and not one that comes later.
        wait_until("it has begun", SOON, || !turns(&path).is_empty());
        thread::sleep(Duration::from_micros(random.u64(0..4000)));
        let begun = Instant::now();
        own.cancel_waiters();
        let seen = waiter.result("a cancelled call");
        longest = longest.max(begun.elapsed());
        assert!(seen.as_ref().is_err_and(Error::is_cancelled), "{seen:?}");
        await_turns(&path, 0);
        assert_eq!(await_leases(&path, 1), nodes(&held));
    }
    println!("{ROUNDS} cancelled, the longest took {longest:?}");
    held.release().unwrap();
    is_free(&own, &[&client]);
}

#[test]
fn a_close_ends_waits_in_every_phase() {
    let (closed, others) = (client(), client());
    let path = fresh_path("sem-close");
    let (own, held) =
        (semaphore(&closed, &path, 2), semaphore(&others, &path, 2).acquire(1).unwrap());
    let waiters = [
        waiting_with_the_turn(&own, 2),
        acquiring(&own, 1),
        acquiring(&semaphore(&closed, &path, 2), 1),
    ];
    await_turns(&path, 2);
    closed.close().unwrap();
    for waiter in waiters {
        let seen = waiter.result("a call on a closed client");
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    }
    assert_eq!((leases(&path), turns(&path)), (nodes(&held), Vec::new()));
    for seen in [
        own.acquire(1).map(drop),
        own.try_acquire(1).map(drop),
        own.available().map(drop),
        own.contenders().map(drop),
        own.try_acquire_for(1, SOON).map(drop),
    ] {
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    }
    drop(held);
    is_free(&semaphore(&others, &path, 2), &[&others]);
}

#[test]
fn permits_of_a_closed_client_are_lost_and_their_drop_tells_the_log() {
    let client = client();
    let path = fresh_path("sem-closed-permits");
    assert_eq!(warnings(&path), [""; 0]);
    let own = semaphore(&client, &path, 3);
    let (permits, others) = (own.acquire(2).unwrap(), own.acquire(1).unwrap());
    let hold = permits.holds().remove(0);
    client.close().unwrap();
    let lost = HoldState::Lost(LossReason::ClientClosed);
    assert_eq!((permits.state(), hold.state()), (lost, lost));
    assert!(permits.lost().try_recv().is_err_and(|e| e.is_disconnected()));
    assert_eq!(leases(&path), [""; 0]);
    let released = in_time("release", Duration::from_secs(1), || permits.release());
    assert!(is_lost(&released.unwrap_err(), &path, LossReason::ClientClosed));
    in_time("drop", Duration::from_secs(1), || drop(others));
    let logged = warnings(&path);
    println!("{logged:#?}");
    assert!(logged.iter().any(|line| line.contains("dropped permits")), "{logged:?}");
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
