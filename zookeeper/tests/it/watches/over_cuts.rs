//! Watches over cuts: each is there afterwards, or was told of what happened meanwhile.

use std::collections::HashMap;

use crossbeam_channel::Receiver;
use zoolock_test_support::{Op, Then};
use zoolock_zookeeper::{
    Acl, CreateMode, ErrorKind, EventType, Op as Change, SessionEventKind, WatchedEvent, Watcher,
    ZooKeeper,
};

use super::heard;
use crate::util::{SESSION, SOON, Stage, client, kind, make};

/// Makes nodes, or deletes them.
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

/// How often each path was told, by kind.
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
fn a_thousand_watches_outlive_a_cut_and_each_is_told_once() {
    let stage = Stage::new("cut", SESSION);
    let client = &stage.client;
    let other = self::client();
    let at = |n: usize| stage.path(&format!("{n:04}"));
    // Those that divide by four without a rest are not there.
    let there: Vec<_> = (0..1000).filter(|n| n % 4 != 0).map(at).collect();
    change_all(&other, &there, true);
    let (watcher, events) = Watcher::channel();
    for reads in (0..1000).collect::<Vec<_>>().chunks(100) {
        client.submit(|batch| {
            for n in reads {
                match n % 4 {
                    0 | 1 => drop(batch.exists(&at(*n), Some(&watcher))),
                    2 => drop(batch.get_data(&at(*n), Some(&watcher))),
                    _ => drop(batch.get_children(&at(*n), Some(&watcher))),
                }
            }
        });
    }
    client.sync("/").unwrap();

    // What happens to each kind, a third of them meanwhile, by whoever is not cut off.
    let happens = |n: usize| -> EventType {
        match n % 4 {
            0 => other.create(&at(n), b"", &Acl::open(), CreateMode::Persistent).map(drop).unwrap(),
            1 => other.set_data(&at(n), b"", None).map(drop).unwrap(),
            2 => other.delete(&at(n), None).unwrap(),
            _ => drop(make(&other, &format!("{}/child", at(n)), b"")),
        }
        use EventType::*;
        [NodeCreated, NodeDataChanged, NodeDeleted, NodeChildrenChanged][n % 4]
    };
    stage.suspend();
    let meanwhile: Vec<_> = (0..1000).filter(|n| n % 3 == 0).collect();
    let wanted: HashMap<_, usize> = meanwhile.iter().map(|n| ((at(*n), happens(*n)), 1)).collect();
    let read = client.submit(|batch| batch.get_children(&stage.root, None));
    stage.resume();
    read.wait().unwrap();
    // Whoever sees what has happened has been told of it.
    assert_eq!(events.len(), meanwhile.len(), "before a later answer");
    assert_eq!(counted(&events, meanwhile.len()), wanted);

    let afterwards: Vec<_> = (0..1000).filter(|n| n % 3 != 0).collect();
    let wanted: HashMap<_, usize> = afterwards.iter().map(|n| ((at(*n), happens(*n)), 1)).collect();
    assert_eq!(counted(&events, afterwards.len()), wanted);
    assert_eq!(heard(client, &events), []);
    println!("{} meanwhile, {} afterwards", meanwhile.len(), afterwards.len());
    let again = [SessionEventKind::Suspended, SessionEventKind::Resumed];
    assert_eq!(stage.told.kinds(), again);
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

#[test]
fn a_node_that_comes_and_goes_while_nobody_looks_is_told_as_the_server_sees_it() {
    let stage = Stage::new("twice", SESSION);
    let (client, probe) = (&stage.client, stage.probe());
    let (watcher, events) = Watcher::channel();
    let (missing, there) = (stage.path("missing"), stage.path("there"));
    probe.create(&there, b"", false, false).unwrap();
    client.exists_w(&missing, &watcher).unwrap();
    client.get_data_w(&there, &watcher).unwrap();
    client.get_children_w(&there, &watcher).unwrap();
    stage.suspend();
    // Created and deleted: nothing is left to be seen of it. Deleted and created: another node.
    probe.create(&missing, b"", false, false).unwrap();
    probe.delete(&missing).unwrap();
    probe.delete(&there).unwrap();
    probe.create(&there, b"", false, false).unwrap();
    stage.resume();
    let told = heard(client, &events);
    println!("{told:?}");
    assert!(told.iter().all(|event| event.path == there), "{told:?}");
    assert!(!told.is_empty(), "it is not the same node");
    probe.create(&missing, b"", false, false).unwrap();
    let told = heard(client, &events);
    assert_eq!(told, [super::event(EventType::NodeCreated, &missing)], "still watched");
}

#[test]
fn a_watch_whose_answer_was_lost_is_not_set() {
    let stage = Stage::new("lost", SESSION);
    let probe = stage.probe();
    let (watcher, events) = Watcher::channel();
    let lost = stage.proxy.drop_answer(Op::GetData, 1, Then::Cut);
    let failed = kind(stage.client.get_data_w(&stage.root, &watcher));
    assert_eq!(failed, ErrorKind::ConnectionLoss);
    assert!(lost.fired());
    stage.told.until(SessionEventKind::Resumed);
    probe.set(&stage.root, b"").unwrap();
    assert_eq!(heard(&stage.client, &events), []);
    assert_eq!(stage.proxy.requests(Op::SetWatches), 0);
}
