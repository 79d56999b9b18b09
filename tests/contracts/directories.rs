//! The directories of locks, which come and go with their use.

use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, Hold, Lock, LockOptions,
};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe};

use common::{await_nodes, behind_a_proxy, children, exists, lock_of};

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

/// A client that has used a lock in the directory of its new paths.
fn seasoned() -> (FaultProxy, Client, String) {
    let (proxy, client) = behind_a_proxy(Duration::from_secs(60));
    let above = fresh_path("orders");
    lock_of(&client, &format!("{above}/first")).acquire().unwrap().release().unwrap();
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
        assert_eq!(cost, [0, 2 * PATHS, 0, PATHS, 0, 0, 0], "{kind}");
        assert_eq!(children(&above), [""; 0], "{kind}");
    }
}

/// The first call finds out that it exists.
#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts a waiting call lists once more")]
fn directory_of_another_client_costs_three_requests_a_turn() {
    const TURNS: u64 = 10;
    let (proxy, client, above) = seasoned();
    for kind in KINDS {
        let path = format!("{above}/{kind}");
        shared_probe().unwrap().create(&path, b"", false, false).unwrap();
        let lock = of_kind(kind, &client, &path);
        let before = requests(&proxy);
        for number in 0..=TURNS {
            cycle(&*lock);
            await_nodes(&path, 0);
            let cost = requests_since(&proxy, before);
            let turns = number + 1;
            println!("{kind}: [create, multi, delete, list, ..] = {cost:?}");
            let refused = 2;
            assert_eq!(cost, [turns, refused, turns, turns, 0, 0, 0], "{kind}");
        }
    }
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn path_that_is_used_again_costs_two_requests_a_turn() {
    const TURNS: u64 = 10;
    let (proxy, client, above) = seasoned();
    for kind in KINDS {
        let path = format!("{above}/{kind}");
        let lock = of_kind(kind, &client, &path);
        let before = requests(&proxy);
        // The next turn may come before the answer to a release in the background.
        (0..TURNS).for_each(|_| drop(cycle(&*lock)));
        settle(&client, &path);
        assert!(!exists(&path), "{kind}");
        let cost = requests_since(&proxy, before);
        println!("{kind}: {TURNS} turns, [create, multi, delete, list, ..] = {cost:?}");
        assert_eq!(cost, [0, 2 * TURNS, 0, 1, 0, 0, 0], "{kind}");
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
