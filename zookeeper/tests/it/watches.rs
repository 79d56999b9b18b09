//! Watches: their events, their callbacks, and how much they cost.

use zoolock_test_support::shared_probe;
use zoolock_zookeeper::{Listener, WatchedEvent, Watcher};

use crate::util::{client, in_own_process, resident, root};

#[test]
fn panicking_callback_or_dropped_receiver_silences_no_other_watcher() {
    let (client, path, probe) = (client(), root("panics"), shared_probe().unwrap());
    let watchers: Vec<_> = (0..5).map(|_| Watcher::channel()).collect();
    let loud = Watcher::new(|_: &WatchedEvent| panic!("on purpose, in a callback for events"));
    let (deaf, _) = Watcher::channel();
    for _ in 0..2 {
        let (first, last) = watchers.split_at(2);
        let all = first.iter().map(|(watcher, _)| watcher);
        let all = all.chain([&loud, &deaf]).chain(last.iter().map(|(watcher, _)| watcher));
        all.for_each(|watcher| assert!(client.get_data_w(&path, watcher).is_ok()));
        probe.set(&path, b"").unwrap();
        client.sync("/").unwrap();
        let told: Vec<_> = watchers.iter().map(|(_, events)| events.try_iter().count()).collect();
        assert_eq!(told, [1; 5]);
    }
}

/// Expects that the process does not grow during 100,000 calls, after enough calls for it to reach its final size.
fn costs_nothing(what: &str, mut do_it: impl FnMut(usize)) {
    const TIMES: usize = 100_000;
    /// In KiB: a tenth of the memory that 100,000 of the smallest allocations take.
    const LITTLE: usize = 4096;
    (0..TIMES / 4).for_each(&mut do_it);
    let before = resident();
    (0..TIMES).for_each(&mut do_it);
    let after = resident();
    assert!(after < before + LITTLE, "{what}: from {before} to {after} KiB");
}

#[test]
fn dropped_watchers_and_listeners_leave_nothing_behind() {
    in_own_process(|| {
        let (client, root) = (client(), root("costs"));
        for many in [false, true] {
            let mut waiting = Vec::new();
            costs_nothing(&format!("watches, of many nodes: {many}"), |number| {
                let path = if many { format!("{root}/{number}") } else { root.clone() };
                let (watcher, events) = Watcher::channel();
                let read = client.submit(|batch| batch.exists(&path, Some(&watcher)));
                waiting.push((watcher, events, read));
                // Reads are sent in batches of a hundred. Their watchers are dropped after the answers have arrived.
                if waiting.len() == 100 {
                    for (watcher, events, read) in waiting.drain(..) {
                        read.wait().unwrap();
                        drop((watcher, events));
                    }
                }
            });
        }
        costs_nothing("subscribers", |_| {
            let (listener, _events) = Listener::channel();
            client.subscribe(&listener);
        });
    });
}
