//! Watches of everything at and below a path.

use crossbeam_channel::Receiver;
use zoolock_test_support::connect_string;
use zoolock_zookeeper::{
    Acl, CreateMode, EventType, Op, SessionEventKind, WatchedEvent, Watcher, ZooKeeper,
};

use super::{event, heard};
use crate::util::{SESSION, SOON, Stage, client, client_of, make, root};

/// Changes of a node at `path` and below it, and the events of each.
fn change_all(client: &ZooKeeper, path: &str) -> Vec<WatchedEvent> {
    use EventType::{NodeCreated, NodeDataChanged, NodeDeleted};
    let (child, far) = (format!("{path}/a"), format!("{path}/a/b"));
    make(client, path, b"");
    make(client, &child, b"");
    client.set_data(path, b"new", None).unwrap();
    let acl = Acl::open();
    let create = Op::Create(&far, b"", &acl, CreateMode::Ephemeral);
    client.multi(&[create, Op::SetData(&far, b"new", None)]).unwrap();
    client.delete(&far, None).unwrap();
    client.delete(&child, None).unwrap();
    client.delete(path, None).unwrap();
    let all = [
        (NodeCreated, path),
        (NodeCreated, &child),
        (NodeDataChanged, path),
        (NodeCreated, &far),
        (NodeDataChanged, &far),
        (NodeDeleted, &far),
        (NodeDeleted, &child),
        (NodeDeleted, path),
    ];
    all.map(|(kind, path)| event(kind, path)).into()
}

#[test]
fn recursive_watch_reports_every_change_at_and_below_its_path() {
    let (client, root) = (client(), root("below"));
    let (watcher, events) = Watcher::channel();
    let path = format!("{root}/missing");
    client.watch_below(&path, &watcher).unwrap();
    // The same watch once more, and a second one of the same listener above.
    client.watch_below(&path, &watcher).unwrap();
    client.watch_below(&root, &watcher).unwrap();
    for _ in 0..2 {
        assert_eq!(heard(&client, &events), []);
        let wanted = change_all(&client, &path);
        assert_eq!(heard(&client, &events), wanted);
    }
    make(&client, &format!("{root}/missing-too"), b"");
    assert_eq!(heard(&client, &events).len(), 1, "it is below the second watch alone");
}

#[test]
fn recursive_watch_reports_paths_below_the_root_of_the_client() {
    let root = root("chroot");
    let client = client_of(&format!("{}{root}", connect_string()), SESSION);
    let (watcher, events) = Watcher::channel();
    client.watch_below("/", &watcher).unwrap();
    let wanted = change_all(&client, "/a");
    assert_eq!(heard(&client, &events), wanted);
}

#[test]
fn recursive_watch_and_a_read_with_a_watch_are_told_separately() {
    let (client, root) = (client(), root("both"));
    let ((below, all), (once, one)) = (Watcher::channel(), Watcher::channel());
    let path = make(&client, &format!("{root}/a"), b"");
    client.watch_below(&root, &below).unwrap();
    client.get_data_w(&path, &once).unwrap();
    let set = event(EventType::NodeDataChanged, &path);
    for _ in 0..2 {
        client.set_data(&path, b"", None).unwrap();
    }
    assert_eq!(heard(&client, &all), [set.clone(), set.clone()]);
    assert_eq!(one.try_iter().collect::<Vec<_>>(), [set]);
}

/// The first event after the drop has the watch removed; the server sends no other.
#[test]
fn watch_is_removed_when_nobody_listens() {
    let (client, root) = (client(), root("dropped"));
    let (watcher, events) = Watcher::channel();
    client.watch_below(&root, &watcher).unwrap();
    drop(watcher);
    let before = client.counts().events;
    for number in 0..10 {
        make(&client, &format!("{root}/{number}"), b"");
        client.sync("/").unwrap();
    }
    assert_eq!(client.counts().events - before, 1);
    assert_eq!(events.try_iter().count(), 0);
}

/// Returns the next event within a generous time.
fn next(events: &Receiver<WatchedEvent>) -> WatchedEvent {
    events.recv_timeout(SOON).expect("an event")
}

#[test]
fn recursive_watch_ends_with_its_connection() {
    let stage = Stage::new("cut", SESSION);
    let (client, other) = (&stage.client, client());
    let (watcher, events) = Watcher::channel();
    client.watch_below(&stage.root, &watcher).unwrap();
    for number in 0..2 {
        stage.proxy.cut();
        stage.told.until(SessionEventKind::Resumed);
        assert_eq!(next(&events), event(EventType::WatchEnded, &stage.root));
        let path = make(&other, &stage.path(&number.to_string()), b"");
        assert_eq!(heard(client, &events), [], "nobody has set it again");
        client.watch_below(&stage.root, &watcher).unwrap();
        other.delete(&path, None).unwrap();
        assert_eq!(next(&events), event(EventType::NodeDeleted, &path));
    }
    client.close().unwrap();
    assert_eq!(next(&events), event(EventType::WatchEnded, &stage.root));
}
