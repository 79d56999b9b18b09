//! Sessions over connections: cut at every place of a call, resumed wherever there is a server, and expired.

mod cuts;
mod deleting;
mod ensembles;
mod expired;
mod restarts;

use std::time::Instant;

use zoolock_test_support::{Op, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, State};

use crate::util::{SESSION, SHORT, SOON, Stage, Told, kind, make_ephemeral};

#[test]
fn a_server_that_hangs_up_at_once_is_asked_again_and_not_all_the_time() {
    let stage = Stage::new("hangs_up", SESSION);
    let id = stage.client.session_id();
    stage.proxy.accept_and_close(true);
    stage.proxy.cut();
    stage.told.until(SessionEventKind::Suspended);
    let before = stage.proxy.connections();
    let begun = Instant::now();
    wait_until("some time has passed", SOON, || begun.elapsed() > SHORT);
    let tries = stage.proxy.connections() - before;
    println!("{tries} tries in {:?}", begun.elapsed());
    assert!((2..=100).contains(&tries), "{tries}");
    stage.resume();
    assert_eq!(stage.client.session_id(), id);
}

#[test]
fn all_that_happens_is_told_in_its_order() {
    use SessionEventKind::*;
    let stage = Stage::new("order", SESSION);
    let first = stage.client.session_id();
    stage.proxy.cut();
    stage.told.until(Resumed);
    stage.suspend();
    stage.proxy.expire_sessions().unwrap();
    stage.proxy.restore();
    stage.told.until(Connected);
    let second = stage.client.session_id();
    stage.proxy.cut();
    stage.told.until(Resumed);
    stage.client.close().unwrap();
    let all: Vec<_> = stage.told.all().iter().map(|event| (event.kind, event.session_id)).collect();
    println!("{all:x?}");
    assert_ne!(first, second);
    let wanted = [
        (Suspended, first),
        (Resumed, first),
        (Suspended, first),
        (Expired, first),
        (Connected, second),
        (Suspended, second),
        (Resumed, second),
        (Closed, second),
    ];
    assert_eq!(all, wanted);
}

#[test]
fn a_suspended_session_that_is_closed_ends_at_the_server_when_that_is_back() {
    let stage = Stage::new("closing", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    stage.suspend();
    let client = stage.client.clone();
    let closing = std::thread::spawn(move || client.close());
    wait_until("it is being closed", SOON, || stage.client.state() == State::Closed);
    assert_eq!(kind(stage.client.exists("/")), ErrorKind::Closed);
    assert!(stage.probe().exists(&path).unwrap());
    stage.proxy.restore();
    closing.join().unwrap().unwrap();
    assert!(!stage.probe().exists(&path).unwrap());
    assert_eq!(
        stage.told.until(SessionEventKind::Closed),
        stage.told.all()[stage.told.all().len() - 1]
    );
}

#[test]
fn a_request_in_flight_is_answered_when_the_last_clone_is_dropped() {
    for is_answered in [true, false] {
        let stage = Stage::new("dropped", SESSION);
        let (proxy, path) = (&stage.proxy, stage.path("a"));
        let client = crate::util::client_of(&proxy.connect_string(), SESSION);
        let told = Told::by(&client);
        let ephemeral = make_ephemeral(&client, &stage.path("ephemeral"));
        let held = proxy.hold_answer(Op::Create, 1);
        let acl = zoolock_zookeeper::Acl::open();
        let mode = zoolock_zookeeper::CreateMode::Persistent;
        let pending = client.submit(|batch| batch.create(&path, b"", &acl, mode));
        assert!(held.wait(SOON));
        drop(client);
        if is_answered {
            held.release();
        }
        let answer = pending.wait();
        println!("released: {is_answered}: {answer:?}");
        if is_answered {
            assert_eq!(answer.unwrap().0, path);
        } else {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        }
        told.until(SessionEventKind::Closed);
        let probe = stage.probe();
        wait_until("the session has ended", SOON, || !probe.exists(&ephemeral).unwrap());
        assert!(probe.exists(&path).unwrap());
    }
}
