//! Submitted requests, whose answers are awaited later or never.

use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;
use zoolock_test_support::{Direction, Op, wait_until};
use zoolock_zookeeper::{
    Acl, CreateMode, ErrorKind, Listener, SessionEvent, WatchedEvent, Watcher,
};

use crate::util::{BRIEFLY, SESSION, SHORT, SOON, Stage, client, kind, root};

#[test]
fn batch_is_answered_in_order() {
    let client = client();
    let root = root("batch");
    let acl = Acl::open();
    let (say, said) = unbounded();
    let paths: Vec<String> = (0..500).map(|n| format!("{root}/{n:03}")).collect();
    client.submit(|batch| {
        for (number, path) in paths.iter().enumerate() {
            let (created, listed) = (say.clone(), say.clone());
            let create = batch.create(path, b"", &acl, CreateMode::Persistent);
            create.on_done(move |result| created.send((number, result.unwrap().0.len())).unwrap());
            let list = batch.get_children(&root, None);
            list.on_done(move |result| listed.send((number, result.unwrap().0.len())).unwrap());
        }
        println!("{batch:?}");
        let seen = self::client().get_children(&root).unwrap().0;
        assert_eq!(seen, [""; 0], "nothing is sent before all are there");
    });
    for number in 0..500 {
        let created = said.recv_timeout(SOON).unwrap();
        let listed = said.recv_timeout(SOON).unwrap();
        assert_eq!(created, (number, root.len() + 4));
        assert_eq!(listed, (number, number + 1), "it sees what was done before");
    }
    client.submit(|_| {});
}

#[test]
fn unsendable_request_does_not_stop_its_batch() {
    let client = client();
    let root = root("batch");
    let (before, bad, refused, after) = client.submit(|batch| {
        let before = batch.exists(&root, None);
        let bad = batch.get_data("no/path", None);
        let refused = batch.delete("/", None);
        (before, bad, refused, batch.exists(&root, None))
    });
    assert_eq!(kind(bad.wait()), ErrorKind::BadArguments);
    assert_eq!(before.wait().unwrap(), after.wait().unwrap());
    let refused = kind(refused.wait());
    println!("the root of all: {refused:?}");
}

#[test]
fn submitted_request_is_done_without_a_waiter() {
    let stage = Stage::new("submitted", SESSION);
    let acl = Acl::open();
    let (a, b) = (stage.path("a"), stage.path("b"));
    let held = stage.proxy.hold_answer(Op::Create, 1);
    let pending = stage.client.submit(|batch| batch.create(&a, b"", &acl, CreateMode::Persistent));
    drop(stage.client.submit(|batch| batch.create(&b, b"", &acl, CreateMode::Persistent)));
    assert!(held.wait(SOON));
    println!("{pending:?}");
    assert!(!pending.is_done());
    held.release();
    wait_until("it is answered", SOON, || pending.is_done());
    assert_eq!(pending.wait().unwrap().0, a);
    let names = stage.client.get_children(&stage.root).unwrap().0;
    assert!(names == ["a", "b"] || names == ["b", "a"], "{names:?}");
}

#[test]
fn callback_on_a_finished_request_runs_at_once() {
    let client = client();
    let pending = client.submit(|batch| batch.exists("/", None));
    wait_until("it is answered", SOON, || pending.is_done());
    let (say, said) = unbounded();
    pending.on_done(move |result| say.send((thread::current().id(), result.is_ok())).unwrap());
    assert_eq!(said.try_recv(), Ok((thread::current().id(), true)));
}

#[test]
fn wait_in_any_callback_is_refused() {
    let stage = Stage::new("callbacks", SHORT);
    let (say, said) = unbounded();
    let at = stage.root.clone();
    // Callbacks of a watch, of the end of the connection, of a deadline, and of the end of the lease.
    let (client, tell, path) = (stage.client.clone(), say.clone(), at.clone());
    let watcher = Watcher::new(move |event: &WatchedEvent| {
        tell.send((format!("{:?}", event.event_type), kind(client.get_data(&path)))).unwrap();
    });
    let (client, tell, path) = (stage.client.clone(), say.clone(), at.clone());
    let listener = Listener::new(move |event: &SessionEvent| {
        tell.send((format!("{:?}", event.kind), kind(client.get_data(&path)))).unwrap();
    });
    stage.client.get_data_w(&at, &watcher).unwrap();
    stage.client.set_data(&at, b"", None).unwrap();
    stage.client.subscribe(&listener);
    let keeper = stage.client.keep_lease();
    stage.proxy.black_hole(Direction::Both);
    let (client, hurried) = (stage.client.clone(), stage.client.with_timeout(BRIEFLY));
    hurried.submit(|batch| batch.sync(&at)).on_done(move |result| {
        let result = format!("{:?}", result.unwrap_err().kind());
        say.send((result, kind(client.get_data(&at)))).unwrap();
    });
    let wanted = ["NodeDataChanged", "Timeout", "Suspended", "LeaseEnded"];
    let mut heard = Vec::new();
    while !wanted.iter().all(|wanted| heard.iter().any(|(what, _)| what == wanted)) {
        let Ok(next) = said.recv_timeout(SOON) else {
            panic!("nothing more after {heard:?}");
        };
        println!("{next:?}");
        heard.push(next);
    }
    drop(keeper);
    let waited: Vec<_> = heard.iter().filter(|heard| heard.1 != ErrorKind::WouldBlock).collect();
    assert!(waited.is_empty(), "{waited:?}");
}

#[test]
fn panicking_callback_harms_nobody() {
    let stage = Stage::new("panics", SESSION);
    let held = stage.proxy.hold_answer(Op::Exists, 1);
    let first = stage.client.submit(|batch| batch.exists("/", None));
    let second = stage.client.submit(|batch| batch.exists(&stage.root, None));
    first.on_done(|_| panic!("on purpose, in a callback for an answer"));
    held.release();
    assert!(second.wait().unwrap().is_some());
    assert_eq!(stage.told.all(), []);
}

#[test]
fn wait_that_timed_out_may_be_repeated() {
    let stage = Stage::new("in-time", SESSION);
    let held = stage.proxy.hold_answer(Op::Exists, 1);
    let asked = stage.client.submit(|batch| batch.exists(&stage.root, None));
    assert!(held.wait(SOON));
    let asked = asked.wait_for(BRIEFLY).expect_err("it is held");
    let asked = asked.wait_for(Duration::ZERO).expect_err("it is still held");
    let (tell, told) = unbounded();
    held.release();
    asked.on_done(move |result| tell.send(result).unwrap());
    let seen = told.recv_timeout(SOON).unwrap().unwrap();
    println!("{seen:?}");
    assert!(seen.is_some());
    let again = stage.client.submit(|batch| batch.exists(&stage.root, None));
    assert_eq!(again.wait_for(SOON).expect("it comes").unwrap(), seen);
}
