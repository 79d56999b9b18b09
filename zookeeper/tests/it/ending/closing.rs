//! `close` against all obstacles.

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crossbeam_channel::unbounded;
use zoolock_test_support::{Direction, Op, wait_until};
use zoolock_zookeeper::{ErrorKind, Result, SessionEventKind, State, WatchedEvent, Watcher};

use crate::util::{
    BRIEFLY, SESSION, SHORT, SOON, Stage, Told, client_of, kind, make_ephemeral, said,
};

#[test]
fn callback_may_close_its_client() {
    let stage = Stage::new("closed", SESSION);
    let (say, told) = unbounded();
    let client = stage.client.clone();
    let held = stage.proxy.hold_answer(Op::Exists, 1);
    stage.client.submit(|batch| batch.exists("/", None)).on_done(move |_| {
        say.send(client.close()).unwrap();
    });
    held.release();
    let closed = told.recv_timeout(SOON).unwrap();
    println!("{closed:?}");
    assert_eq!(kind(closed), ErrorKind::WouldBlock);
    stage.told.until(SessionEventKind::Closed);
}

#[test]
fn credentials_and_a_close_into_a_black_hole_return_by_their_deadline() {
    let stage = Stage::new("black_hole", SESSION);
    stage.proxy.black_hole(Direction::Both);
    let hurried = stage.client.with_timeout(BRIEFLY);
    let calls: [&dyn Fn() -> Result<()>; 2] =
        [&|| hurried.add_auth("digest", b"a:b"), &|| hurried.close()];
    for call in calls {
        let begun = Instant::now();
        let (kind, text) = said(call());
        println!("after {:?}", begun.elapsed());
        assert_eq!(kind, ErrorKind::Timeout, "{text}");
        assert!(begun.elapsed() >= BRIEFLY && begun.elapsed() < SESSION);
    }
    assert_eq!(stage.client.state(), State::Closed);
    stage.client.close().unwrap();
}

#[test]
fn sent_close_is_maybe_done() {
    let stage = Stage::new("sent", SHORT);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let held = stage.proxy.hold_answer(Op::CloseSession, 1);
    thread::scope(|scope| {
        let closing = scope.spawn(|| stage.client.close());
        assert!(held.wait(SOON));
        stage.proxy.cut_off();
        let error = closing.join().unwrap().unwrap_err();
        println!("{error}");
        assert!(!stage.probe().exists(&path).unwrap());
        assert!(error.is_maybe_done(), "the session was closed: {error}");
    });
}

#[test]
fn callback_may_drop_its_client() {
    let stage = Stage::new("dropped", SESSION);
    let probe = stage.probe();
    for is_event in [false, true] {
        let client = client_of(&stage.proxy.connect_string(), SESSION);
        let told = Told::by(&client);
        let path = make_ephemeral(&client, &stage.path("a"));
        let (say, dropped) = unbounded();
        let last = Mutex::new(Some(client.clone()));
        let drop_it = move || {
            let last = last.lock().unwrap().take();
            drop(last);
            say.send(thread::current().name().map(str::to_owned)).unwrap();
        };
        let held = stage.proxy.hold_answer(Op::Exists, 1);
        let answer = client.submit(|batch| batch.exists(&stage.root, None));
        let watcher = match is_event {
            true => {
                held.release();
                let watcher = Watcher::new(move |_: &WatchedEvent| drop_it());
                client.get_data_w(&stage.root, &watcher).unwrap();
                Some(watcher)
            }
            false => {
                answer.on_done(move |_| drop_it());
                None
            }
        };
        drop(client);
        match is_event {
            true => assert!(probe.set(&stage.root, b"").is_ok()),
            false => held.release(),
        }
        println!("by {:?}", dropped.recv_timeout(SOON).unwrap());
        told.until(SessionEventKind::Closed);
        wait_until("its session has ended", SOON, || !probe.exists(&path).unwrap());
        drop(watcher);
    }
}
