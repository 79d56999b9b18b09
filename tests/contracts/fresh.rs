//! Paths that are used once, such as a lock for each order.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, Hold, Lock, LockOptions,
};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use common::{
    SOON, Task, await_nodes, behind_a_proxy, children, client, exists, lock_of, quiet_server,
};

/// Operations that a lock may request.
const OPS: [Op; 7] =
    [Op::Create, Op::Multi, Op::Delete, Op::GetChildren, Op::GetData, Op::Exists, Op::Sync];
const KINDS: [&str; 5] = ["exclusive", "reentrant", "read", "write", "in the background"];

fn of_kind(kind: &str, client: &Client, path: &str) -> Box<dyn Lock> {
    match kind {
        "exclusive" => Box::new(lock_of(client, path)),
        "reentrant" => Box::new(DistributedReentrantLock::new(client, path).unwrap()),
        "read" => Box::new(DistributedRwLock::new(client, path).unwrap().read_lock()),
        "write" => Box::new(DistributedRwLock::new(client, path).unwrap().write_lock()),
        _ => {
            let options = LockOptions::new().background_release(true);
            Box::new(DistributedLock::with_options(client, path, options).unwrap())
        }
    }
}

/// A client that has seen the servers create a container and a new directory, and the directory of
/// its new paths.
fn seasoned() -> (FaultProxy, Client, String) {
    let (proxy, client) = behind_a_proxy(Duration::from_secs(60));
    let above = fresh_path("orders");
    for name in ["first", "second"] {
        lock_of(&client, &format!("{above}/{name}")).acquire().unwrap().release().unwrap();
    }
    (proxy, client, above)
}

fn requests(proxy: &FaultProxy) -> [u64; OPS.len()] {
    OPS.map(|op| proxy.requests(op))
}

fn requests_since(proxy: &FaultProxy, before: [u64; OPS.len()]) -> Vec<u64> {
    requests(proxy).iter().zip(before).map(|(after, before)| after - before).collect()
}

fn cycle(lock: &dyn Lock) -> Hold {
    lock.lock().unwrap();
    let hold = lock.holds().remove(0);
    lock.unlock().unwrap();
    hold
}

/// Waits until a release has been answered. This costs a list and a read.
fn settle(client: &Client, path: &str) {
    await_nodes(path, 0);
    // This answer comes after that of the last deletion.
    client.contenders(path).unwrap();
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn new_path_costs_two_requests_and_leaves_nothing() {
    const PATHS: u64 = 20;
    let (proxy, client, above) = seasoned();
    for kind in KINDS {
        let before = requests(&proxy);
        let mut last = 0;
        for number in 0..PATHS {
            let path = format!("{above}/{kind}-{number}");
            let hold = cycle(&*of_kind(kind, &client, &path));
            assert!(hold.fencing_token() > last, "{kind}: {} after {last}", hold.fencing_token());
            last = hold.fencing_token();
            settle(&client, &path);
        }
        let cost = requests_since(&proxy, before);
        println!("{kind}: {PATHS} paths, [create, multi, delete, list, ..] = {cost:?}");
        assert_eq!(cost, [0, 2 * PATHS, 0, PATHS, PATHS, 0, 0], "{kind}");
        assert_eq!(children(&above), ["first"], "{kind}");
    }
}

/// Only the first of them is taken for a new one.
#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are fewer requests")]
fn first_use_of_a_directory_that_exists_costs_one_request_more() {
    const PATHS: u64 = 20;
    let (proxy, client, above) = seasoned();
    let probe = shared_probe().unwrap();
    let before = requests(&proxy);
    for number in 0..PATHS {
        let path = format!("{above}/{number}");
        probe.create(&path, b"", false, false).unwrap();
        cycle(&lock_of(&client, &path));
    }
    let cost = requests_since(&proxy, before);
    println!("{PATHS} paths, [create, multi, delete, list, ..] = {cost:?}");
    assert_eq!(cost, [PATHS, PATHS + 1, PATHS, PATHS, 0, 0, 0]);
}

/// Their paths are longer than those of all nodes that a client may have at a time.
#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts the servers remove directories")]
fn ten_thousand_new_paths_leave_no_nodes() {
    let (server, client) = quiet_server();
    let nodes = || server.metric("zk_znode_count").unwrap();
    lock_of(&client, "/orders/first").acquire().unwrap().release().unwrap();
    let before = nodes();
    let long = format!("/orders/{}", vec!["x".repeat(250); 15].join("/"));
    lock_of(&client, &format!("{long}/first")).acquire().unwrap().release().unwrap();
    let before = (before, nodes());
    for number in 0..10_000 {
        let above = if number % 20 == 0 { &long } else { "/orders" };
        lock_of(&client, &format!("{above}/{number}")).acquire().unwrap().release().unwrap();
    }
    let after = nodes();
    println!("{before:?} nodes before, {after} after");
    // The server may have removed an empty directory of those above.
    assert!(after <= before.1, "{before:?}, {after}");
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn path_that_is_used_again_costs_two_requests_a_turn() {
    const TURNS: u64 = 10;
    let (proxy, client, above) = seasoned();
    for kind in KINDS {
        let path = format!("{above}/{kind}");
        let lock = of_kind(kind, &client, &path);
        let turn = || {
            cycle(&*lock);
            settle(&client, &path);
        };
        turn();
        assert!(!exists(&path), "{kind}: it was used once");
        turn();
        assert!(exists(&path), "{kind}: it is used again");
        (0..3).for_each(|_| turn());
        let before = requests(&proxy);
        (0..TURNS).for_each(|_| turn());
        let cost = requests_since(&proxy, before);
        println!("{kind}: {TURNS} turns, [create, multi, delete, list, ..] = {cost:?}");
        assert_eq!(cost, [TURNS, 0, TURNS, TURNS, TURNS, 0, 0], "{kind}");
    }
}

#[test]
fn directory_stays_if_somebody_else_has_made_or_used_it() {
    let (_proxy, client, above) = seasoned();
    let probe = shared_probe().unwrap();
    for kind in KINDS {
        for what in ["made", "written", "joined"] {
            let path = format!("{above}/{kind}-{what}");
            if what == "made" {
                probe.create(&path, b"", false, false).unwrap();
            }
            let lock = of_kind(kind, &client, &path);
            lock.lock().unwrap();
            match what {
                "written" => drop(probe.set(&path, b"a user's").unwrap()),
                "joined" => drop(probe.create(&format!("{path}/x"), b"", false, false).unwrap()),
                _ => {}
            }
            let stat = || {
                let stat = probe.stat(&path).unwrap().expect(what);
                (stat.czxid, stat.mzxid, stat.version, stat.data_length)
            };
            let before = stat();
            lock.unlock().unwrap();
            await_nodes(&path, usize::from(what == "joined"));
            println!("{kind}, {what}: {before:?}, {:?}", children(&path));
            assert_eq!(stat(), before, "{kind}, {what}");
        }
    }
}

/// Waiters of this and of another client, in a directory that was made for the holder's node.
#[test]
fn waiter_is_let_in_though_the_directory_was_made_for_the_holder() {
    let (_proxy, ours, above) = seasoned();
    let others = client();
    for (kind, number) in KINDS.into_iter().zip(0..) {
        let path = format!("{above}/{kind}-{number}");
        let lock = of_kind(kind, &ours, &path);
        lock.lock().unwrap();
        let waits = lock_of(&others, &path);
        let waiter = Task::spawn(move || waits.acquire()?.release());
        await_nodes(&path, 2);
        lock.unlock().unwrap();
        waiter.result("the waiter").unwrap();
        await_nodes(&path, 0);
    }
}

#[test]
fn clients_that_meet_at_new_paths_exclude_each_other() {
    const CLIENTS: usize = 4;
    const PATHS: usize = 50;
    let above = fresh_path("meeting");
    let (is_in, begin) = (AtomicBool::new(false), Barrier::new(CLIENTS));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let client = client();
                for number in 0..PATHS {
                    let lock = lock_of(&client, &format!("{above}/{number}"));
                    begin.wait();
                    let guard = lock.acquire().unwrap();
                    assert!(!is_in.swap(true, Ordering::SeqCst), "two are in {number}");
                    is_in.store(false, Ordering::SeqCst);
                    guard.release().unwrap();
                }
                client.close().unwrap();
            });
        }
    });
    wait_until("all have gone", SOON, || {
        children(&above).iter().all(|path| children(&format!("{above}/{path}")).is_empty())
    });
    println!("{} directories of {PATHS} are left", children(&above).len());
}
