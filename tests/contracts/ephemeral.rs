//! `EphemeralLock`: a single node, which is the lock's path itself.

mod objects;
mod places;
mod waiting;

use std::thread;
use std::time::{Duration, Instant};

use common::basics::{self, hold_of};
use common::single::*;
use common::{
    BRIEFLY, PROBES, SESSION, SOON, Task, assert_cancelled, assert_lost, client, client_of, exists,
    last_transaction, packets, shared_proxy,
};
use zoolock::{Client, EphemeralLock, Error, HoldState, LockOptions, LossReason, Result};
use zoolock_test_support::{
    Direction, FaultProxy, Server, connect_string, fresh_path, shared_probe, wait_until,
};

#[test]
fn smoke() {
    let client = client();
    let path = fresh_path("smoke");
    let lock = lock_of(&client, &path);
    assert_eq!(lock.path(), path);
    assert!(!lock.is_held() && lock.hold().is_none());

    lock.lock().unwrap();
    assert!(lock.is_held());
    let hold = hold_of(&lock);
    let (valid_for, (data, stat)) = (hold.valid_for(), node_at(&path).expect("its node"));
    println!("{hold:?}, valid for {valid_for:?}; on the server: {data:?}, {stat:?}");
    assert_eq!(hold.state(), HoldState::Held);
    assert_eq!(
        (hold.path(), path.rsplit_once('/').unwrap().1),
        (path.as_str(), hold.node().as_str())
    );
    assert!(!valid_for.is_zero() && valid_for <= client.session_timeout());
    assert_ne!(stat.ephemeral_owner, 0);
    let token = hold.fencing_token().unwrap();
    assert_eq!(token, stat.czxid as u64);
    lock.unlock().unwrap();

    assert!(!lock.is_held() && !exists(&path));
    assert_eq!(hold.state(), HoldState::Released);
    assert_eq!(hold.valid_for(), Duration::ZERO);
    assert!(lock.try_lock().unwrap());
    assert!(hold_of(&lock).fencing_token().unwrap() > token);
    lock.unlock().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    assert!(guard.is_held() && lock.is_held(), "{guard:?}");
    guard.release().unwrap();
    assert!(!lock.is_held() && !exists(&path));
    client.close().unwrap();
}

#[test]
fn excludes() {
    basics::excludes::<EphemeralLock>();
}

#[test]
fn times_out() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let clients = [client(), client()];
    let path = fresh_path("times_out");
    let (holder, other) = (lock_of(&clients[0], &path), lock_of(&clients[1], &path));
    holder.lock().unwrap();
    let node = node_at(&path);
    basics::timed_tries_fail(&other, TIMEOUT);
    assert!(!other.try_lock().unwrap());
    assert_eq!(node_at(&path), node, "the holder's node is untouched");
    assert!(holder.is_held() && !other.is_held());
    holder.unlock().unwrap();
    assert!(other.try_lock_for(SOON).unwrap());
    other.unlock().unwrap();
    assert!(other.try_lock_for(Duration::MAX).unwrap());
    other.unlock().unwrap();
}

#[test]
fn cleans_up() {
    let client = client();
    let path = fresh_path("cleans_up");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert!(!exists(&path), "after unlock");
    drop(lock.acquire().unwrap());
    assert!(!exists(&path), "after the drop of a guard");
    lock.acquire().unwrap().release().unwrap();
    assert!(!exists(&path), "after the release of a guard");

    let holder = lock_of(&client, &path);
    holder.lock().unwrap();
    let node = node_at(&path);
    assert!(!lock.try_lock_for(BRIEFLY).unwrap());
    assert_eq!(node_at(&path), node, "after a timeout");
    let waiter = locking(&lock);
    await_in_use(&client, 2);
    lock.cancel_waiters();
    let cancelled = waiter.result("a cancelled waiter");
    println!("cancelled: {cancelled:?}");
    assert_cancelled(&cancelled, &path);
    assert_eq!(node_at(&path), node, "after a cancelled wait");
    drop(holder);
    await_gone(&path, SOON);
    assert!(lock.try_lock_for(SOON).unwrap(), "{:?}", client.stats());
    lock.unlock().unwrap();
    is_tidy(&client, SOON);
    assert!(!exists(&path), "at the end");
}

/// How a client is left without a connection.
type End = (&'static str, fn(&FaultProxy));

const ENDS: [End; 2] = [
    ("cut off", |proxy| {
        proxy.refuse(true);
        proxy.cut();
    }),
    ("silent", |proxy| proxy.black_hole(Direction::Both)),
];

#[test]
fn a_hold_survives_cut_after_cut_with_its_node_and_its_token() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("survives");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let (hold, node) = (hold_of(&lock), node_at(&path));
    let token = hold.fencing_token().unwrap();
    for (round, cut) in (1..).zip([FaultProxy::cut, FaultProxy::reset, FaultProxy::cut]) {
        cut(&proxy);
        common::await_resumed(&client, round);
        assert_eq!(hold.state(), HoldState::Held);
        assert_eq!((node_at(&path), hold.fencing_token().unwrap()), (node.clone(), token));
    }
    lock.unlock().unwrap();
    assert!(!exists(&path));
    assert_eq!((client.stats().holds_lost, client.stats().sessions), (0, 1));
}

#[test]
fn a_hold_without_a_connection_is_lost_before_a_rival_is_granted() {
    for (what, end) in ENDS {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SHORT);
        let path = fresh_path("ends");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let rivals = common::client();
        let rival = lock_of(&rivals, &path);
        let (waiting, seen) = (rival.clone(), hold.clone());
        // Asked by the thread that was granted, so that no other needs to be fast.
        let granted = Task::spawn(move || {
            waiting.lock().map(|()| {
                let told = seen.lost().try_recv().is_err_and(|e| e.is_disconnected());
                (seen.is_held(), told, Instant::now())
            })
        });
        await_in_use(&rivals, 1);
        let polled = hold.clone();
        let unheld = Task::spawn(move || {
            let mut ends = Instant::now();
            while polled.is_held() {
                ends = ends.max(Instant::now() + polled.valid_for());
                thread::sleep(Duration::from_millis(1));
            }
            (Instant::now(), ends)
        });
        let begun = Instant::now();
        end(&proxy);

        let (held, told, granted) = granted.result("the rival").unwrap();
        let (unheld, ends) = unheld.result("is_held() is false");
        println!(
            "{what}: the lease ended {:?} after it, is_held() was false {:?} later, and the rival \
             granted {:?} after that",
            ends - begun,
            unheld.saturating_duration_since(ends),
            granted.saturating_duration_since(unheld),
        );
        assert!(!held, "{what}: held when the rival was granted: {hold:?}");
        assert!(told, "{what}: not told when the rival was granted");
        assert!(ends - begun < SHORT, "the lease is longer than the session");
        assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));

        let node = stat_of(&path);
        assert_lost(&lock.unlock(), &path, LossReason::LeaseExpired);
        proxy.restore();
        assert!(!lock.try_lock_for(Duration::ZERO).unwrap_or(false));
        let mut tried = Ok(true);
        wait_until("it is back and busy", SOON, || {
            tried = lock.try_lock();
            matches!(tried, Ok(false))
        });
        is_tidy(&client, SOON);
        assert_eq!(stat_of(&path).czxid, node.czxid, "the rival's node");
        assert!(rival.is_held());
        rival.unlock().unwrap();
        assert!(lock.try_lock_for(SOON).unwrap(), "{:?}", client.stats());
        lock.unlock().unwrap();
        assert_eq!(client.stats().holds_lost, 1);
    }
}

// ---- what it costs

const CYCLES: u64 = 500;
/// How many packets a server that nobody else uses received during each cycle, and how many
/// transactions it counted.
fn cost(server: &Server, what: &str, mut cycle: impl FnMut()) -> (f64, f64) {
    // The first one may make the directory.
    cycle();
    let first = last_transaction(server);
    let packets = packets(server, || (0..CYCLES).for_each(|_| cycle()));
    let written = last_transaction(server) - first;
    println!("{what}: {packets} packets and {written} transactions for {CYCLES} cycles");
    let each = |count: u64, spare: u64| (count.saturating_sub(spare) as f64 / CYCLES as f64).ceil();
    (each(packets, PROBES), each(written, PROBES))
}

#[test]
fn a_cycle_costs_two_requests_and_what_fails_costs_no_more() {
    let server = Server::start().unwrap();
    let [ours, rivals] =
        [(); 2].map(|()| client_of(&server.connect_string(), Duration::from_secs(60)));
    let lock = lock_of(&ours, "/cost/single");
    let cycle = cost(&server, "lock, unlock", || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    });
    assert_eq!(cycle, (2.0, 2.0), "requests and transactions");
    let tried = cost(&server, "try_lock, unlock", || {
        assert!(lock.try_lock().unwrap());
        lock.unlock().unwrap();
    });
    assert_eq!(tried, (2.0, 2.0), "requests and transactions");

    // A holder's session writes heartbeats: four a session timeout.
    let rival = lock_of(&rivals, "/cost/single");
    rival.lock().unwrap();
    let failed = cost(&server, "failed try_lock", || {
        assert!(!lock.try_lock().unwrap());
    });
    assert_eq!(failed, (2.0, 1.0), "a create that is refused, and a look");
    let watches = || server.metric("zk_watch_count").unwrap();
    assert_eq!(watches(), 0, "a try leaves no watch");
    let expired = cost(&server, "try_lock_for that ends in time", || {
        assert!(!lock.try_lock_for(Duration::from_micros(1)).unwrap_or(false));
    });
    assert!(expired.0 <= 2.0 && expired.1 <= 1.0, "{expired:?}");
    let local = lock_of(&ours, "/cost/local");
    local.lock().unwrap();
    let local = cost(&server, "failed try_lock on a held object", || {
        assert!(!local.try_lock().unwrap());
    });
    assert_eq!(local, (0.0, 0.0));
    println!("watches of those that waited: {}", watches());
    assert!(watches() <= 1, "one a connection and path");
}

// ---- what its node says

#[test]
fn a_node_says_its_id_and_who_made_it() {
    let path = fresh_path("says");
    let client = Client::builder(&connect_string())
        .session_timeout(SESSION)
        .identity("the client's")
        .connect()
        .unwrap();
    let options = LockOptions::new().identity("the lock's own ✓");
    let locks = [
        (lock_of(&client, &path), "the client's"),
        (EphemeralLock::with(&client, &path, options).unwrap(), "the lock's own ✓"),
    ];
    let mut ids = Vec::new();
    for _ in 0..3 {
        for (lock, who) in &locks {
            lock.lock().unwrap();
            let (data, _) = node_at(&path).unwrap();
            println!("{data}");
            let (id, maker) = id_and_maker(&data);
            assert_eq!(maker, *who);
            assert!(!ids.contains(&id.to_owned()), "{id} again: {ids:?}");
            ids.push(id.to_owned());
            lock.unlock().unwrap();
        }
    }
    let lock = lock_of(&common::client(), &path);
    lock.lock().unwrap();
    let (data, _) = node_at(&path).unwrap();
    println!("{data}");
    let host_and_process = format!("/{}/", std::process::id());
    assert!(id_and_maker(&data).1.contains(&host_and_process), "{data}");
    let long = LockOptions::new().identity("x".repeat(16 * 1024 + 1));
    let refused = EphemeralLock::with(&client, &path, long).map(drop);
    assert!(matches!(refused, Err(Error::InvalidArgument { what: "identity", .. })), "{refused:?}");
}
