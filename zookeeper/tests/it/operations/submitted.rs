//! Submitted requests, whose answers are awaited later or never.

use std::thread;

use crossbeam_channel::unbounded;
use zoolock_test_support::{Direction, Op, wait_until};
use zoolock_zookeeper::{ErrorKind, Listener, SessionEvent, WatchedEvent, Watcher};

use crate::util::{BRIEFLY, SESSION, SHORT, SOON, Stage, client, kind, root};

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
