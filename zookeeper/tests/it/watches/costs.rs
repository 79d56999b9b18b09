//! Dropped watches and listeners leave nothing behind.

use zoolock_zookeeper::{Listener, Watcher, ZooKeeper};

use crate::util::{client, in_own_process, resident, root};

const TIMES: usize = 100_000;
/// In KiB. A tenth of what 100,000 of the smallest allocations take.
const LITTLE: usize = 4096;

/// The growth of the process during 100,000 runs, after enough runs to reach its size.
fn growth(what: &str, mut do_it: impl FnMut(usize)) {
    (0..TIMES / 4).for_each(&mut do_it);
    let before = resident();
    (0..TIMES).for_each(&mut do_it);
    let after = resident();
    println!("{what}: {before} KiB, after {TIMES} more {after} KiB");
    assert!(after < before + LITTLE, "{what}: from {before} to {after} KiB");
}

/// The reads are sent in hundreds, and their watchers are dropped after the answers.
fn watch(client: &ZooKeeper, path: impl Fn(usize) -> String) -> impl FnMut(usize) {
    let mut waiting = Vec::new();
    move |number| {
        let (watcher, events) = Watcher::channel();
        let path = path(number);
        let read = client.submit(|batch| batch.exists(&path, Some(&watcher)));
        waiting.push((watcher, events, read));
        if waiting.len() == 100 {
            for (watcher, events, read) in waiting.drain(..) {
                read.wait().unwrap();
                drop((watcher, events));
            }
        }
    }
}

#[test]
fn dropped_watchers_leave_nothing_behind() {
    in_own_process(|| {
        let (client, root) = (client(), root("costs"));
        growth("watches of one node", watch(&client, |_| root.clone()));
        growth("watches of many nodes", watch(&client, |n| format!("{root}/{n}")));
        // Watchers that live are different.
        let kept: Vec<_> = (0..1000).map(|_| Watcher::channel()).collect();
        kept.iter().for_each(|(watcher, _)| assert!(client.exists_w(&root, watcher).is_ok()));
        client.set_data(&root, b"", None).unwrap();
        assert!(kept.iter().all(|(_, events)| events.try_iter().count() == 1));
    });
}

#[test]
fn dropped_listeners_leave_nothing_behind() {
    in_own_process(|| {
        let client = client();
        growth("subscribers", |_| {
            let (listener, _events) = Listener::channel();
            client.subscribe(&listener);
        });
        let (listener, events) = Listener::channel();
        client.subscribe(&listener);
        client.close().unwrap();
        assert_eq!(events.try_iter().count(), 1);
    });
}
