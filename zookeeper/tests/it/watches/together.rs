//! Several watches in one request, of which some are over before its answer.

use zoolock_test_support::{Op, shared_probe};
use zoolock_zookeeper::{Acl, ErrorKind, EventType, Permissions, SessionEventKind, Watcher};

use super::{event, heard};
use crate::util::{SESSION, SOON, Stage, client, kind, make, root, said};

#[test]
fn one_request_watches_several_nodes() {
    let stage = Stage::new("several", SESSION);
    let (client, probe) = (&stage.client, stage.probe());
    let paths = ["a", "b", "c"].map(|name| make(client, &stage.path(name), b""));
    let (watcher, events) = Watcher::channel();
    let sent = |op| stage.proxy.requests(op);
    let before = [Op::SetWatches, Op::GetData, Op::Exists].map(sent);
    client.set_watches(i64::MAX, &paths, &watcher).unwrap();
    let after = [Op::SetWatches, Op::GetData, Op::Exists].map(sent);
    assert_eq!(after, [before[0] + 1, before[1], before[2]]);
    assert_eq!(heard(client, &events), [], "nothing has happened");
    probe.set(&paths[0], b"new").unwrap();
    probe.delete(&paths[1]).unwrap();
    probe.create(&format!("{}/child", paths[2]), b"", false, false).unwrap();
    let expected =
        [event(EventType::NodeDataChanged, &paths[0]), event(EventType::NodeDeleted, &paths[1])];
    assert_eq!(heard(client, &events), expected);
    probe.set(&paths[0], b"newer").unwrap();
    assert_eq!(heard(client, &events), [], "each watch reports once");
    client.set_watches(i64::MAX, &[""; 0], &watcher).unwrap();
}

/// The server reports these before it answers, in the order of the paths.
#[test]
fn missed_changes_are_reported_at_once() {
    let (client, root, probe) = (client(), root("missed"), shared_probe().unwrap());
    let path = |name: &str| format!("{root}/{name}");
    let kept = make(&client, &path("kept"), b"");
    let set = make(&client, &path("set"), b"");
    let since = client.exists(&set).unwrap().unwrap().mzxid;
    let stat = client.set_data(&set, b"new", None).unwrap();
    let paths = [path("gone"), set.clone(), kept.clone()];
    let (watcher, events) = Watcher::channel();
    for (zxid, is_set_told) in [(since, true), (stat.mzxid - 1, true), (stat.mzxid, false)] {
        client.set_watches(zxid, &paths, &watcher).unwrap();
        // No later answer is needed.
        let told: Vec<_> = events.try_iter().collect();
        println!("since {zxid:#x}: {told:?}");
        let mut expected = vec![event(EventType::NodeDeleted, &paths[0])];
        expected.extend(is_set_told.then(|| event(EventType::NodeDataChanged, &set)));
        assert_eq!(told, expected);
    }
    // Nothing is watched where nothing is.
    probe.create(&paths[0], b"", false, false).unwrap();
    assert_eq!(heard(&client, &events), []);
    probe.set(&set, b"newer").unwrap();
    probe.delete(&kept).unwrap();
    let expected = [event(EventType::NodeDataChanged, &set), event(EventType::NodeDeleted, &kept)];
    assert_eq!(heard(&client, &events), expected);
}

#[test]
fn event_before_the_answer_is_told_before_it() {
    let stage = Stage::new("early", SESSION);
    let (client, gone) = (&stage.client, stage.path("gone"));
    let kept = make(client, &stage.path("kept"), b"");
    let (watcher, events) = Watcher::channel();
    let answer = stage.proxy.on(Op::SetWatches).hold_answer();
    let paths = [gone.clone(), kept.clone()];
    let asked = client.submit(|batch| batch.set_watches(i64::MAX, &paths, &watcher));
    assert!(answer.wait(SOON), "{:#?}", stage.proxy.log());
    assert_eq!(events.recv_timeout(SOON), Ok(event(EventType::NodeDeleted, &gone)));
    assert!(!asked.is_done());
    // The answer is lost. Nothing is watched, and nothing is set again.
    stage.proxy.cut();
    drop(answer);
    assert_eq!(kind(asked.wait()), ErrorKind::ConnectionLoss);
    stage.told.until(SessionEventKind::Resumed);
    stage.probe().set(&kept, b"new").unwrap();
    assert_eq!(heard(client, &events), []);
}

#[test]
fn unsendable_or_unreadable_paths_are_told_apart() {
    let (client, root) = (client(), root("unreadable"));
    let (watcher, events) = Watcher::channel();
    let (refused, text) = said(client.set_watches(0, &["/a", "b/"], &watcher));
    assert_eq!(refused, ErrorKind::BadArguments);
    assert!(text.contains("failed to watch `b/`"), "{text}");
    let many = vec![format!("/{}", "p".repeat(1000)); 1100];
    assert_eq!(kind(client.set_watches(0, &many, &watcher)), ErrorKind::BadArguments);
    // Servers send no later event of a node that may not be read, and old ones send all.
    let hidden = make(&client, &format!("{root}/hidden"), b"");
    let no_read = [Acl::new(Permissions::WRITE | Permissions::DELETE, "world", "anyone")];
    client.set_acl(&hidden, &no_read, None).unwrap();
    client.set_watches(i64::MAX, &[&hidden], &watcher).unwrap();
    assert_eq!(heard(&client, &events), []);
    client.delete(&hidden, None).unwrap();
    println!("of a hidden node: {:?}", heard(&client, &events));
    client.set_watches(i64::MAX, &[&hidden], &watcher).unwrap();
    assert_eq!(heard(&client, &events), [event(EventType::NodeDeleted, &hidden)]);
}
