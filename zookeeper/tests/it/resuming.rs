//! Sessions over several connections: abandoned, resumed and closed, on real ensembles and over
//! restarts.

mod ensembles;
mod restarts;

use std::time::Instant;

use zoolock_test_support::{Op, wait_until};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Permissions, SessionEventKind, State};

use crate::util::{SESSION, SHORT, SOON, Stage, Told, client_of, kind, make, make_ephemeral};

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
        let client = client_of(&proxy.connect_string(), SESSION);
        let told = Told::by(&client);
        let ephemeral = make_ephemeral(&client, &stage.path("ephemeral"));
        let held = proxy.hold_answer(Op::Create, 1);
        let (acl, mode) = (Acl::open(), CreateMode::Persistent);
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

#[test]
fn a_deletion_that_the_server_refuses_is_said_and_not_tried_again() {
    let stage = Stage::new("eventually", SESSION);
    let full = make(&stage.client, &stage.path("full"), b"");
    let below = make(&stage.client, &format!("{full}/a"), b"");
    let pending = stage.client.delete_eventually(&full);
    assert_eq!(kind(pending.wait()), ErrorKind::NotEmpty);
    let no_deletes = [Acl::new(Permissions::READ, "world", "anyone")];
    stage.client.set_acl(&full, &no_deletes, None).unwrap();
    assert_eq!(kind(stage.client.delete_eventually(&below).wait()), ErrorKind::NoAuth);
    stage.proxy.cut();
    stage.told.until(SessionEventKind::Resumed);
    stage.client.sync("/").unwrap();
    let asked = stage.proxy.requests(Op::Delete);
    println!("{asked} requests");
    assert_eq!(asked, 2);
    assert!(stage.probe().exists(&below).unwrap());
}
