//! Many watches across cuts. Each survives or reports what happened meanwhile.

use std::collections::HashMap;

use crossbeam_channel::Receiver;
use zoolock_test_support::Op;
use zoolock_zookeeper::{
    Acl, CreateMode, EventType, Op as Change, SessionEventKind, WatchedEvent, Watcher, ZooKeeper,
};

use super::heard;
use crate::util::{SESSION, SOON, Stage, client};

/// Creates or deletes the nodes.
fn change_all(client: &ZooKeeper, paths: &[String], is_create: bool) {
    let acl = Acl::open();
    for paths in paths.chunks(500) {
        let ops: Vec<_> = paths
            .iter()
            .map(|path| match is_create {
                true => Change::Create(path, b"", &acl, CreateMode::Persistent),
                false => Change::Delete(path, None),
            })
            .collect();
        client.multi(&ops).unwrap();
    }
}

/// The number of events of each path, by kind.
fn counted(events: &Receiver<WatchedEvent>, so_many: usize) -> HashMap<(String, EventType), usize> {
    let mut counted = HashMap::new();
    for number in 0..so_many {
        let event = events.recv_timeout(SOON);
        let event = event.unwrap_or_else(|_| panic!("only {number} of {so_many} were told"));
        *counted.entry((event.path, event.event_type)).or_default() += 1;
    }
    counted
}

#[test]
fn ten_thousand_watches_with_long_paths_outlive_cuts() {
    let stage = Stage::new("many", SESSION);
    let client = &stage.client;
    let long = "p".repeat(100);
    let paths: Vec<_> = (0..10_000).map(|n| stage.path(&format!("{long}-{n:05}"))).collect();
    let (watcher, events) = Watcher::channel();
    for paths in paths.chunks(500) {
        client.submit(|batch| {
            paths.iter().for_each(|path| drop(batch.exists(path, Some(&watcher))));
        });
    }
    client.sync("/").unwrap();
    for _ in 0..3 {
        let before = stage.proxy.requests(Op::SetWatches);
        stage.proxy.cut();
        stage.told.until(SessionEventKind::Resumed);
        client.sync("/").unwrap();
        let requests = stage.proxy.requests(Op::SetWatches) - before;
        println!("{requests} requests for {} bytes of paths", 10_000 * paths[0].len());
        assert!(requests > 5, "the server takes no more than a megabyte at once");
    }
    stage.suspend();
    let other = self::client();
    change_all(&other, &paths[..3000], true);
    stage.resume();
    change_all(&other, &paths[3000..], true);
    let told = counted(&events, 10_000);
    let once = |path: &String| told.get(&(path.clone(), EventType::NodeCreated)) == Some(&1);
    assert!(paths.iter().all(once));
    assert_eq!(heard(client, &events), []);
    change_all(&other, &paths, false);
}
