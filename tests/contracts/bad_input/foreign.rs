//! Nodes in a lock's directory that are not ours.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::DistributedLock;
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use common::{SOON, Task, children, client};

#[test]
fn foreign_nodes_that_are_no_contenders_are_ignored() {
    let path = fresh_path("junk");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    for junk in [
        "hello",
        "0000000000",
        "lock",
        "lock-",
        "-",
        "--------------",
        "lock-12",
        "lock-000000000x",
        "_c_",
        "_c_-lock-",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-lock-",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-lease-0000000000",
        "leases",
        "locks",
        "ünïcödé-中文",
        "n_0000000000",
        "write-0000000000",
        " lock-0000000000 ",
    ] {
        let junk = format!("{path}/{junk}");
        probe.create(&junk, &[0xff, 0xfe, 0x00, 0xc3], false, false).unwrap();
    }
    probe.create(&format!("{path}/locks/below"), b"", false, false).unwrap();
    let lock = DistributedLock::new(&client(), &path).unwrap();
    assert!(lock.try_lock().unwrap(), "{:?}", children(&path));
    lock.unlock().unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[test]
fn foreign_contenders_are_waited_for_whatever_their_data() {
    let path = fresh_path("foreign");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let client = client();
    for foreign in [
        "lock-",
        "guid-lock-",
        "_c_d3b07384d113edec49eaa6238ad5ff00-lock-",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-lock-",
        "0e17197e0afb43a4b0d7b5c1e7b17bb3__lock__",
        "0e17197e0afb43a4b0d7b5c1e7b17bb3__rlock__",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-__READ__",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-__WRIT__",
        "x__READ__",
    ] {
        let ahead = format!("{path}/{foreign}");
        let ahead = probe.create(&ahead, &[0xff, 0xfe, 0x00, 0xc3], true, true).unwrap();
        let lock = DistributedLock::new(&client, &path).unwrap();
        assert!(!lock.try_lock().unwrap(), "{ahead} does not count");
        let waiting = {
            let lock = lock.clone();
            Task::spawn(move || lock.lock())
        };
        wait_until("ours is queued", SOON, || children(&path).len() == 2);
        assert!(!waiting.is_done(), "{ahead} does not count");
        probe.delete(&ahead).unwrap();
        waiting.result(&ahead).unwrap();
        lock.unlock().unwrap();
    }
}

#[test]
fn ten_thousand_children_are_no_obstacle() {
    const CHILDREN: usize = 10_000;
    let path = fresh_path("crowd");
    shared_probe().unwrap().create_all(&path).unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for part in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let probe = shared_probe().unwrap();
                for number in (part..CHILDREN).step_by(4) {
                    let junk = format!("{path}/junk-{number}");
                    probe.create(&junk, b"", false, false).unwrap();
                }
            });
        }
    });
    println!("made in {:?}", begun.elapsed());
    let (first, second) = (client(), client());
    let begun = Instant::now();
    let ahead = DistributedLock::new(&first, &path).unwrap();
    let behind = DistributedLock::new(&second, &path).unwrap();
    ahead.lock().unwrap();
    assert!(!behind.try_lock().unwrap());
    assert!(!behind.try_lock_for(Duration::from_millis(100)).unwrap());
    ahead.unlock().unwrap();
    assert!(behind.try_lock_for(SOON).unwrap());
    behind.unlock().unwrap();
    println!("used in {:?}", begun.elapsed());
}
