//! Holds that have to move while their leases run out: what comes between must not cost them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Hold, HoldState};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, Then, fresh_path, wait_until,
};

use crate::lock::core::hold_of;
use crate::util::relay::{Fate, Frame, Relay, UNTOUCHED};
use crate::util::{
    SOON, TwoWays, await_moved, children, client_of, lock_of, shared_address, shared_proxy,
};

const T: Duration = Duration::from_secs(6);

/// As little of a lease as a quiet client with good connections has left at times, about.
fn await_short_lease(hold: &Hold, timeout: Duration) -> Duration {
    let most = timeout / 20 * 11;
    wait_until("the lease is short", SOON, || hold.valid_for() < most);
    hold.valid_for()
}

/// The server's requests come, and the answer to a move's create never does.
#[test]
fn a_second_connection_that_falls_silent_leaves_time_for_a_third() {
    let ways = TwoWays::start(T);
    let path = fresh_path("silent-second");
    let lock = lock_of(&ways.client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let left = await_short_lease(&hold, T);
    let caught = ways.second.on(Op::Create).path_contains(&path);
    let caught = caught.hold_answer();
    ways.leave_the_first();
    assert!(caught.wait(SOON), "{}", ways.log());
    ways.first.refuse(false);
    wait_until("held or lost", SOON, || hold.state() != HoldState::Suspended);
    println!("{left:?} were left; {hold:?}, {:?}", ways.client.stats());
    assert_eq!(hold.state(), HoldState::Held);
    assert_eq!(ways.client.stats().connections, 3);
    lock.unlock().unwrap();
}

/// Links that carry nothing any more, as behind a firewall that forgot them: their handles cannot
/// be closed. Where they are many, new ones are held back, unless something is held.
#[test]
fn handles_that_cannot_be_closed_do_not_cost_a_hold() {
    const SHORT: Duration = Duration::from_secs(4);
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("silent-links");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let mut silent = Vec::new();
    for round in 1..=9 {
        let heartbeat = proxy.on(Op::SetData).path_contains(&path);
        silent.push(heartbeat.drop_request(Then::Hold));
        await_moved(&client, round);
    }
    println!("{hold:?}, {:?}", client.stats());
    assert_eq!(hold.state(), HoldState::Held);
    let handles = client.stats().handles;
    assert!(handles > 8, "{handles} handles");

    lock.unlock().unwrap();
    let begun = Instant::now();
    proxy.cut();
    wait_until("they are closed", SOON, || client.stats().handles <= 1);
    let closed = begun.elapsed();
    wait_until("connected", SHORT / 2, || client.stats().connections > 10);
    println!("closed {closed:?} after the cut, connected {:?}", begun.elapsed());
}

#[test]
fn a_refusal_that_passes_does_not_cost_a_hold() {
    let path: &'static str = fresh_path("refused-once").leak();
    let refused = AtomicBool::new(false);
    let relay = Relay::start(shared_address(), move |frame: &Frame<'_>| {
        match frame.moving_create_below(path) {
            Some(create) if !refused.swap(true, Ordering::SeqCst) => {
                Fate::Instead(create.without_acl())
            }
            _ => UNTOUCHED,
        }
    });
    let client = client_of(&relay.connect_string(), T);
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    relay.cut();
    let took = await_moved(&client, 1);
    println!("{} refused, moved after {took:?}: {hold:?}", relay.changed());
    assert_eq!((relay.changed(), hold.state()), (1, HoldState::Held));
    lock.unlock().unwrap();
}

/// 64 at a time, each two round trips: the deletions of old nodes have to wait for all of them.
#[test]
fn many_holds_move_within_one_lease_over_a_slow_network() {
    const HOLDS: usize = 800;
    const ROUND_TRIP: Duration = Duration::from_millis(160);
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    // Twice as long as that takes on a machine with nothing else to do.
    let client = client_of(&proxy.connect_string(), T * 2);
    let locks: Vec<_> =
        (0..HOLDS).map(|number| lock_of(&client, &format!("/many/{number}"))).collect();
    thread::scope(|scope| {
        for part in locks.chunks(HOLDS / 16) {
            scope.spawn(move || part.iter().for_each(|lock| lock.lock().unwrap()));
        }
    });
    let left = await_short_lease(&hold_of(&locks[0]), T * 2);
    proxy.delay(Direction::Both, ROUND_TRIP / 2);
    let begun = Instant::now();
    proxy.cut();
    wait_until("all have moved or are lost", SOON, || {
        let stats = client.stats();
        stats.seats_moved + stats.seats_lost >= HOLDS as u64
    });
    println!("{left:?} were left; {:?} after {:?}", client.stats(), begun.elapsed());
    proxy.restore();
    assert_eq!(client.stats().seats_lost, 0);
}

fn unlock_at(lock: &DistributedLock, instant: Instant) {
    while Instant::now() < instant {
        thread::yield_now();
    }
    lock.unlock().unwrap();
}

/// Whatever a move is about to do next, or has just done.
#[test]
fn an_unlock_at_any_moment_of_a_move_leaves_no_node_that_others_wait_for() {
    const LOCKS: usize = 64;
    const LONG: Duration = Duration::from_secs(12);
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), LONG);
    let locks: Vec<_> =
        (0..LOCKS).map(|_| lock_of(&client, &fresh_path("unlocked-moving"))).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let mut slowest = Duration::ZERO;
    for round in 0..30 {
        locks.iter().for_each(|lock| lock.lock().unwrap());
        let before = client.stats().connections;
        proxy.cut();
        wait_until("connected", SOON, || client.stats().connections > before);
        let begun = Instant::now();
        thread::scope(|scope| {
            for lock in &locks {
                let instant = begun + Duration::from_micros(random.u64(..20_000));
                scope.spawn(move || unlock_at(lock, instant));
            }
        });
        let what = format!("the nodes of round {round} are gone before the garbage list is due");
        let took = wait_until(&what, LONG / 4, || client.stats().garbage == 0);
        slowest = slowest.max(took);
        for lock in &locks {
            assert_eq!(children(lock.path()), [""; 0]);
        }
    }
    println!("at most {slowest:?}, {:?}", client.stats());
}

/// A quota is refused with a code that the crate does not know.
#[test]
fn a_create_that_is_refused_for_an_unknown_reason_leaves_no_garbage() {
    let flag = "-Dzookeeper.enforceQuota=true";
    let server = Server::builder().jvm_flag(flag).start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let quota = "/zookeeper/quota/full";
    probe.create_all("/full/lock").unwrap();
    probe.create_all(quota).unwrap();
    let limits = [
        ("zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2"),
        ("zookeeper_stats", "count=2,bytes=0"),
    ];
    for (name, limit) in limits {
        let node = format!("{quota}/{name}");
        probe.create(&node, limit.as_bytes(), false, false).unwrap();
    }
    let client: Client = client_of(&server.connect_string(), T);
    let lock = lock_of(&client, "/full/lock");
    wait_until("the quota counts", SOON, || match lock.lock() {
        Ok(()) => lock.unlock().is_err(),
        Err(_) => true,
    });
    for _ in 0..10 {
        let seen = lock.lock();
        assert!(seen.is_err(), "{seen:?}");
    }
    println!("{:?}: {:?}", lock.lock(), client.stats());
    assert_eq!(client.stats().garbage, 0);
}
