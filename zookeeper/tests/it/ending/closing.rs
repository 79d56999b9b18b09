//! `close` against all obstacles.

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crossbeam_channel::unbounded;
use zoolock_test_support::{Direction, Op, Server, Then, wait_until};
use zoolock_zookeeper::{ErrorKind, Result, SessionEventKind, State, WatchedEvent, Watcher};

use crate::util::{
    BRIEFLY, SESSION, SHORT, SOON, Stage, Told, client_of, kind, make_ephemeral, said,
};

#[test]
fn close_returns_after_the_end_of_the_session() {
    let stage = Stage::new("closed", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let probe = stage.probe();
    let clone = stage.client.clone();
    clone.close().unwrap();
    assert!(!probe.exists(&path).unwrap());
    assert_eq!(stage.told.kinds(), [SessionEventKind::Closed]);
    assert_eq!(stage.client.state(), State::Closed);
    for _ in 0..3 {
        stage.client.close().unwrap();
        clone.close().unwrap();
    }
    assert_eq!(stage.proxy.requests(Op::CloseSession), 1);
    assert_eq!(stage.told.kinds(), [SessionEventKind::Closed], "it is over once");
}

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
fn close_returns_when_the_servers_have_expired_the_session() {
    let stage = Stage::new("black_hole", SHORT);
    stage.proxy.black_hole(Direction::Both);
    let begun = Instant::now();
    let error = stage.client.close().unwrap_err();
    println!("{error}, after {:?}", begun.elapsed());
    assert!(begun.elapsed() < SOON / 2, "its own time is {SOON:?}, T is {SHORT:?}");
    assert!(error.is_maybe_done(), "it was sent, and nobody knows how far it came: {error}");
}

#[test]
fn close_without_a_server_returns_after_the_session_timeout() {
    let server = Server::start().unwrap();
    let stage = Stage::before(&server, "stopped", SHORT);
    server.stop().unwrap();
    stage.told.until(SessionEventKind::Suspended);
    let begun = Instant::now();
    let (kind, text) = said(stage.client.close());
    println!("after {:?}", begun.elapsed());
    assert_eq!(kind, ErrorKind::NoConnection, "{text}");
    assert!(begun.elapsed() < SOON / 2);
}

#[test]
fn close_with_a_lost_answer_asks_again() {
    let stage = Stage::new("lost", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let lost = stage.proxy.drop_answer(Op::CloseSession, 1, Then::Cut);
    stage.client.close().unwrap();
    assert!(lost.fired());
    assert!(!stage.probe().exists(&path).unwrap());
    let kinds = stage.told.kinds();
    println!("{kinds:?}");
    assert_eq!(kinds.last(), Some(&SessionEventKind::Closed));

    let stage = Stage::new("lost", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let lost = stage.proxy.drop_request(Op::CloseSession, 1, Then::Cut);
    stage.client.close().unwrap();
    assert!(lost.fired());
    assert!(!stage.probe().exists(&path).unwrap());
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
fn client_between_two_sessions_closes_at_once() {
    let stage = Stage::new("between", SESSION);
    stage.suspend();
    stage.proxy.expire_sessions().unwrap();
    let silent = stage.proxy.drop_answer(Op::Connect, 2, Then::Hold);
    stage.proxy.refuse(false);
    stage.told.until(SessionEventKind::Expired);
    assert!(silent.wait(SOON));
    let begun = Instant::now();
    stage.client.close().unwrap();
    println!("{:?} after {:?}", stage.told.all(), begun.elapsed());
    assert!(begun.elapsed() < SOON / 2);
    wait_until("the proxy's connection ends", SOON, || {
        stage.proxy.cut();
        stage.proxy.open_connections() == 0
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
