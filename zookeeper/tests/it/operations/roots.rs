//! Clients for which all paths are relative to a root.

use zoolock_test_support::{Op as Kind, connect_string, shared_probe};
use zoolock_zookeeper::{
    Acl, CreateMode, ErrorKind, EventType, Op, SessionEventKind, WatchedEvent, Watcher,
};

use crate::util::{
    Events, SESSION, SOON, Stage, client_of, created, event, kind, make, make_ephemeral, root, said,
};

#[test]
fn paths_are_below_the_root_and_shown_without_it() {
    let root = root("root");
    let client = client_of(&format!("{}{root}", connect_string()), SESSION);
    let (probe, acl) = (shared_probe().unwrap(), Acl::open());
    assert_eq!(make(&client, "/a", b"below"), "/a");
    assert_eq!(probe.get(&format!("{root}/a")).unwrap().unwrap().0, b"below");
    let numbered = client.create("/a/n-", b"", &acl, CreateMode::EphemeralSequential);
    assert_eq!(numbered.unwrap().0, "/a/n-0000000000");
    assert_eq!(client.get_data("/a").unwrap().0, b"below");
    assert_eq!(client.get_children("/a").unwrap().0, ["n-0000000000"]);
    // A node's whole name may be its number.
    let nameless = client.create("/", b"", &acl, CreateMode::PersistentSequential);
    assert_eq!(nameless.unwrap().0, "/0000000001");
    let results = client.multi(&[
        Op::Create("/b", b"", &acl, CreateMode::Persistent),
        Op::Create("/b/n-", b"", &acl, CreateMode::PersistentSequential),
        Op::Create("/", b"", &acl, CreateMode::PersistentSequential),
        Op::SetData("/a", b"set", None),
        Op::Check("/", None),
        Op::Delete("/b/n-0000000000", None),
    ]);
    assert_eq!(created(&results.unwrap()), ["/b", "/b/n-0000000000", "/0000000003"]);
    assert_eq!(probe.children(&root).unwrap().len(), 4);
    client.delete_eventually("/b").wait().unwrap();
    client.sync("/a").unwrap();
    client.set_acl("/a", &Acl::read_only(), None).unwrap();
    let (_, text) = said(client.set_data("/a", b"", None));
    assert!(text.contains("`/a`"), "as the path was given: {text}");

    // For the client, the path of the root itself is a slash.
    client.set_data("/", b"root", None).unwrap();
    assert_eq!(probe.get(&root).unwrap().unwrap().0, b"root");
    assert_eq!(client.get_data("/").unwrap().0, b"root");
    assert_eq!(client.exists("/").unwrap().unwrap().data_length, 4);
    assert_eq!(client.get_acl("/").unwrap().0, acl);
    client.sync("/").unwrap();
    assert_eq!(kind(client.delete("/", None)), ErrorKind::NotEmpty);
}

#[test]
fn missing_root_is_created_like_a_node_or_with_all_parents() {
    let root = format!("{}/a/b", root("made-root"));
    let client = client_of(&format!("{}{root}", connect_string()), SESSION);
    assert_eq!(client.root(), root);
    assert_eq!(client.exists("/").unwrap(), None);
    let created_below = client.create("/a", b"", &Acl::open(), CreateMode::Persistent);
    assert_eq!(kind(created_below), ErrorKind::NoNode);
    let probe = shared_probe().unwrap();
    probe.create_all(root.strip_suffix("/b").unwrap()).unwrap();
    assert_eq!(make(&client, "/", b""), "/");
    client.delete("/", None).unwrap();
    assert!(!probe.exists(&root).unwrap());
    let acl = Acl::open();
    let together = client.multi(&[Op::Create("/", b"", &acl, CreateMode::Persistent)]).unwrap();
    assert_eq!(created(&together), ["/"]);
    client.delete("/", None).unwrap();
    probe.delete(root.strip_suffix("/b").unwrap()).unwrap();
    for path in ["/c/d", "/c/d", "/"] {
        client.create_all(path, &Acl::open(), CreateMode::Container).unwrap();
    }
    assert!(probe.exists(&format!("{root}/c/d")).unwrap());
    make_ephemeral(&client, "/c/d/e");
}

#[test]
fn events_omit_the_root_even_after_a_cut() {
    let stage = Stage::new("root", SESSION);
    let client = client_of(&format!("{}{}", stage.proxy.connect_string(), stage.root), SESSION);
    make(&client, "/a", b"");
    let session_events = Events::of(&client);
    let (watcher, events) = Watcher::channel();
    for is_cut in [false, true] {
        client.get_children_w("/", &watcher).unwrap();
        client.get_data_w("/a", &watcher).unwrap();
        client.exists_w("/b", &watcher).unwrap();
        if is_cut {
            stage.proxy.cut();
            session_events.until(SessionEventKind::Resumed);
            client.sync("/").unwrap();
            assert!(stage.proxy.requests(Kind::SetWatches) > 0);
        }
        let probe = stage.probe();
        probe.set(&stage.path("a"), b"").unwrap();
        probe.create(&stage.path("b"), b"", false, false).unwrap();
        let mut received: Vec<WatchedEvent> =
            (0..3).map(|_| events.recv_timeout(SOON).unwrap()).collect();
        received.sort_by_key(|event| event.path.clone());
        let wanted = [
            event(EventType::NodeChildrenChanged, "/"),
            event(EventType::NodeDataChanged, "/a"),
            event(EventType::NodeCreated, "/b"),
        ];
        assert_eq!(received, wanted);
        probe.delete(&stage.path("b")).unwrap();
    }
}
