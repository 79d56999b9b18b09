//! Watches: their events, their callbacks, and their costs.

mod costs;
mod over_cuts;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::Receiver;
use zoolock_test_support::{Probe, shared_probe};
use zoolock_zookeeper::{Acl, ErrorKind, EventType, Permissions, WatchedEvent, Watcher, ZooKeeper};

use crate::util::{SOON, client, kind, make, root};

/// A read that sets a watch.
type Read = fn(&ZooKeeper, &str, &Watcher) -> zoolock_zookeeper::Result<()>;

const EXISTS: Read = |client, path, watcher| client.exists_w(path, watcher).map(drop);
const GET_DATA: Read = |client, path, watcher| client.get_data_w(path, watcher).map(drop);
const GET_CHILDREN: Read = |client, path, watcher| client.get_children_w(path, watcher).map(drop);

/// The events of all changes before now, since events precede later answers.
fn heard(client: &ZooKeeper, events: &Receiver<WatchedEvent>) -> Vec<WatchedEvent> {
    client.sync("/").unwrap();
    events.try_iter().collect()
}

fn event(event_type: EventType, path: &str) -> WatchedEvent {
    WatchedEvent { event_type, path: path.to_owned() }
}

#[test]
fn watch_reports_changes_of_its_read_alone() {
    type Change = fn(&Probe, &str);
    const CREATE: Change = |probe, path| drop(probe.create(path, b"", false, false).unwrap());
    const SET: Change = |probe, path| assert!(probe.set(path, b"new").is_ok());
    const DELETE: Change = |probe, path| probe.delete(path).unwrap();
    const CREATE_CHILD: Change =
        |probe, path| drop(probe.create(&format!("{path}/a"), b"", false, false).unwrap());
    const SET_CHILD: Change =
        |probe, path| assert!(probe.set(&format!("{path}/old"), b"new").is_ok());
    const DELETE_CHILD: Change = |probe, path| probe.delete(&format!("{path}/old")).unwrap();
    use EventType::*;
    // The read, whether the node exists, whether it has a child, the change, and the event.
    let cases = [
        ("exists", EXISTS, true, false, "set", SET, Some(NodeDataChanged)),
        ("exists", EXISTS, true, false, "delete", DELETE, Some(NodeDeleted)),
        ("exists", EXISTS, true, false, "create a child", CREATE_CHILD, None),
        ("exists", EXISTS, true, true, "delete a child", DELETE_CHILD, None),
        ("exists", EXISTS, false, false, "create", CREATE, Some(NodeCreated)),
        ("get_data", GET_DATA, true, false, "set", SET, Some(NodeDataChanged)),
        ("get_data", GET_DATA, true, false, "delete", DELETE, Some(NodeDeleted)),
        ("get_data", GET_DATA, true, false, "create a child", CREATE_CHILD, None),
        ("get_data", GET_DATA, true, true, "delete a child", DELETE_CHILD, None),
        ("get_children", GET_CHILDREN, true, false, "set", SET, None),
        ("get_children", GET_CHILDREN, true, false, "delete", DELETE, Some(NodeDeleted)),
        ("get_children", GET_CHILDREN, true, true, "set a child", SET_CHILD, None),
        (
            "get_children",
            GET_CHILDREN,
            true,
            false,
            "create a child",
            CREATE_CHILD,
            Some(NodeChildrenChanged),
        ),
        (
            "get_children",
            GET_CHILDREN,
            true,
            true,
            "delete a child",
            DELETE_CHILD,
            Some(NodeChildrenChanged),
        ),
    ];
    let (client, root, probe) = (client(), root("kinds"), shared_probe().unwrap());
    for (number, (name, read, is_there, has_child, what, change, wanted)) in
        cases.into_iter().enumerate()
    {
        let path = format!("{root}/{number}");
        if is_there {
            make(&client, &path, b"");
        }
        if has_child {
            make(&client, &format!("{path}/old"), b"");
        }
        let (watcher, events) = Watcher::channel();
        read(&client, &path, &watcher).unwrap();
        assert_eq!(heard(&client, &events), [], "{name}: nothing has happened");
        change(&probe, &path);
        let told = heard(&client, &events);
        println!("{name}, then {what}: {told:?}");
        let wanted: Vec<_> = wanted.into_iter().map(|kind| event(kind, &path)).collect();
        assert_eq!(told, wanted, "{name}, then {what}");
    }
}

#[test]
fn refused_read_sets_no_watch() {
    let (client, root, probe) = (client(), root("failed"), shared_probe().unwrap());
    let (watcher, events) = Watcher::channel();
    let path = format!("{root}/a");
    assert_eq!(kind(client.get_data_w(&path, &watcher)), ErrorKind::NoNode);
    assert_eq!(kind(client.get_children_w(&path, &watcher)), ErrorKind::NoNode);
    assert_eq!(kind(client.exists_w("/a/", &watcher)), ErrorKind::BadArguments);
    let locked = format!("{root}/locked");
    make(&client, &locked, b"");
    let no_reads = [Acl::new(Permissions::WRITE | Permissions::CREATE, "world", "anyone")];
    client.set_acl(&locked, &no_reads, None).unwrap();
    assert_eq!(kind(client.get_data_w(&locked, &watcher)), ErrorKind::NoAuth);
    assert_eq!(kind(client.get_children_w(&locked, &watcher)), ErrorKind::NoAuth);
    for path in [&path, &locked] {
        let _ = probe.create(path, b"", false, false);
        probe.set(path, b"").unwrap();
        probe.create(&format!("{path}/b"), b"", false, false).unwrap();
    }
    probe.delete(&format!("{path}/b")).unwrap();
    probe.delete(&path).unwrap();
    assert_eq!(heard(&client, &events), []);
    client.close().unwrap();
    assert_eq!(events.try_iter().count(), 0, "no watch has ended");
}

#[test]
fn dropped_watcher_hears_nothing_and_its_clones_do() {
    let (client, path, probe) = (client(), root("dropped"), shared_probe().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let dropped = Watcher::new(move |_: &WatchedEvent| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let (watcher, events) = Watcher::channel();
    let clone = watcher.clone();
    client.get_data_w(&path, &dropped).unwrap();
    client.get_data_w(&path, &watcher).unwrap();
    drop((dropped, watcher));
    assert_eq!(Arc::strong_count(&calls), 1, "the callback is kept");
    probe.set(&path, b"").unwrap();
    assert_eq!(heard(&client, &events), [event(EventType::NodeDataChanged, &path)]);
    drop(clone);
    client.get_data_w(&path, &Watcher::channel().0).unwrap();
    probe.set(&path, b"").unwrap();
    assert_eq!(heard(&client, &events), []);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert!(events.recv_timeout(SOON).is_err(), "the channel has ended");
}

#[test]
fn dropped_receiver_harms_nobody() {
    let (client, path, probe) = (client(), root("receiver"), shared_probe().unwrap());
    let (deaf, events) = Watcher::channel();
    let (other, heard_by_other) = Watcher::channel();
    drop(events);
    client.get_data_w(&path, &deaf).unwrap();
    client.get_data_w(&path, &other).unwrap();
    probe.set(&path, b"").unwrap();
    assert_eq!(heard(&client, &heard_by_other).len(), 1);
}

#[test]
fn panicking_callback_does_not_silence_other_watchers() {
    let (client, path, probe) = (client(), root("panics"), shared_probe().unwrap());
    let watchers: Vec<_> = (0..5).map(|_| Watcher::channel()).collect();
    let loud = Watcher::new(|_: &WatchedEvent| panic!("on purpose, in a callback for events"));
    for round in 0..2 {
        for (number, (watcher, _)) in watchers.iter().enumerate() {
            client.get_data_w(&path, watcher).unwrap();
            if number == 2 {
                client.get_data_w(&path, &loud).unwrap();
            }
        }
        probe.set(&path, b"").unwrap();
        client.sync("/").unwrap();
        let told: Vec<_> = watchers.iter().map(|(_, events)| events.try_iter().count()).collect();
        println!("round {round}: {told:?}");
        assert_eq!(told, [1; 5]);
    }
}

#[test]
fn callback_may_set_its_watch_again_and_misses_nothing() {
    const TIMES: i32 = 300;
    let (client, path, probe) = (client(), root("again"), shared_probe().unwrap());
    let (say, versions) = crossbeam_channel::unbounded();
    let (again, at) = (client.clone(), path.clone());
    let itself: Arc<std::sync::OnceLock<Watcher>> = Arc::default();
    let weak = Arc::downgrade(&itself);
    let watcher = Watcher::new(move |_: &WatchedEvent| {
        let (say, itself) = (say.clone(), weak.upgrade());
        let watcher = itself.as_ref().and_then(|itself| itself.get());
        let read = again.submit(|batch| batch.get_data(&at, watcher));
        read.on_done(move |read| say.send(read.unwrap().1.version).unwrap());
    });
    client.get_data_w(&path, &watcher).unwrap();
    itself.set(watcher).unwrap();
    for _ in 0..TIMES {
        probe.set(&path, b"").unwrap();
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&TIMES) {
        seen.push(versions.recv_timeout(SOON).expect("the last version is seen"));
    }
    println!("{} of {TIMES} versions were seen", seen.len());
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}
