//! Faults of single frames.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use zoolock_test_support::{Op, Probe, Then, wait_until};

use crate::raw::Raw;
use crate::{SOON, Stage};

const A_WHILE: Duration = Duration::from_millis(150);

#[test]
fn rule_drops_the_nth_request_and_cuts() {
    let stage = Stage::new("drop");
    let rule = stage.proxy.drop_request(Op::Create, 2, Then::Cut);
    stage.make("a").unwrap();
    assert!(!rule.fired());
    stage.client.children(&stage.root).unwrap();
    let error = stage.make("b").unwrap_err();
    println!("{error:?}");
    assert!(rule.fired() && rule.wait(SOON));
    assert!(stage.made("a") && !stage.made("b"));
    let again = Probe::connect(stage.proxy.address()).unwrap();
    again.create(&stage.path("b"), b"", false, false).unwrap();
}

#[test]
fn rule_drops_an_answer_and_cuts() {
    let stage = Stage::new("drop");
    let rule = stage.proxy.drop_answer(Op::Create, 1, Then::Cut);
    stage.client.children(&stage.root).unwrap();
    stage.make("a").unwrap_err();
    assert!(rule.fired());
    assert!(stage.made("a"));
}

#[test]
fn rule_drops_and_continues() {
    let stage = Stage::new("drop");
    let request = stage.proxy.drop_request(Op::Create, 1, Then::Continue);
    let answer = stage.proxy.drop_answer(Op::Create, 2, Then::Continue);
    thread::scope(|scope| {
        // The probe waits for an answer that never comes, until `cut`.
        let first = scope.spawn(|| stage.make("a"));
        assert!(request.wait(SOON));
        assert_eq!(stage.proxy.open_connections(), 1);
        stage.proxy.cut();
        first.join().unwrap().unwrap_err();
    });
    let other = Probe::connect(stage.proxy.address()).unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| other.create(&stage.path("b"), b"", false, false));
        assert!(answer.wait(SOON));
        assert_eq!(stage.proxy.open_connections(), 1);
        stage.proxy.cut();
        second.join().unwrap().unwrap_err();
    });
    assert!(!stage.made("a") && stage.made("b"));
}

#[test]
fn rule_drops_and_goes_silent() {
    let stage = Stage::new("silent");
    let rule = stage.proxy.drop_answer(Op::Create, 1, Then::Hold);
    thread::scope(|scope| {
        let asked = scope.spawn(|| stage.make("a"));
        assert!(rule.wait(SOON));
        thread::sleep(A_WHILE);
        assert!(!asked.is_finished());
        assert_eq!(stage.proxy.open_connections(), 1);
        // Other connections are unaffected.
        Probe::connect(stage.proxy.address()).unwrap().ping().unwrap();
        stage.proxy.restore();
        let error = asked.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "its patience is longer");
    });
    assert!(stage.made("a"));
}

#[test]
fn rule_holds_a_request_until_its_release() {
    let stage = Stage::new("hold");
    let hold = stage.proxy.hold_request(Op::Create, 1);
    assert!(!hold.wait(Duration::ZERO));
    thread::scope(|scope| {
        let asked = scope.spawn(|| stage.make("a"));
        assert!(hold.wait(SOON));
        thread::sleep(A_WHILE);
        assert!(!stage.made("a") && !asked.is_finished());
        hold.release();
        asked.join().unwrap().unwrap();
    });
    stage.make("b").unwrap();
}

#[test]
fn rule_holds_an_answer_until_its_release_or_drop() {
    let stage = Stage::new("hold");
    for name in ["a", "b"] {
        let hold = stage.proxy.hold_answer(Op::Create, 1);
        thread::scope(|scope| {
            let asked = scope.spawn(|| stage.make(name));
            assert!(hold.wait(SOON));
            wait_until("the node is there", SOON, || stage.made(name));
            assert!(!asked.is_finished());
            drop(hold);
            asked.join().unwrap().unwrap();
        });
    }
}

#[test]
fn unused_hold_disappears() {
    let stage = Stage::new("hold");
    let hold = stage.proxy.hold_answer(Op::Create, 1);
    hold.release();
    stage.make("a").unwrap();
    assert!(!hold.fired() && !hold.wait(SOON));
}

#[test]
fn restore_removes_rules() {
    let stage = Stage::new("restore");
    let rule = stage.proxy.drop_request(Op::Create, 1, Then::Cut);
    stage.proxy.restore();
    stage.make("a").unwrap();
    assert!(!rule.fired() && !rule.wait(SOON));
}

#[test]
fn rules_match_the_path() {
    let stage = Stage::new("path");
    let rule = stage.proxy.on(Op::Create).path_contains("special").nth(2).drop_answer(Then::Cut);
    stage.make("special-1").unwrap();
    stage.make("plain-1").unwrap();
    stage.make("plain-2").unwrap();
    stage.make("special-2").unwrap_err();
    assert!(rule.fired() && stage.made("special-2"));
}

#[test]
fn rule_can_drop_the_handshake() {
    let stage = Stage::new("handshake");
    for rule in [
        stage.proxy.drop_request(Op::Connect, 1, Then::Cut),
        stage.proxy.drop_answer(Op::Connect, 2, Then::Cut),
    ] {
        let error = Probe::connect(stage.proxy.address()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(rule.fired());
    }
    Probe::connect(stage.proxy.address()).unwrap();
}

#[test]
fn rules_distinguish_pings_and_auth() {
    let stage = Stage::new("ids");
    stage.client.ping().unwrap();
    stage.client.add_auth("digest", b"a:b").unwrap();
    assert_eq!(stage.proxy.requests(Op::Ping), 1);
    assert_eq!(stage.proxy.requests(Op::Auth), 1);
    let rule = stage.proxy.drop_answer(Op::Ping, 1, Then::Cut);
    stage.client.ping().unwrap_err();
    assert!(rule.fired());
}

#[test]
fn watch_events_are_counted_dropped_and_held() {
    let stage = Stage::new("event");
    let mut raw = Raw::connect(stage.proxy.address());
    raw.watch_children(1, &stage.root);
    stage.make("a").unwrap();
    assert_eq!((raw.read_id(), stage.proxy.events()), (-1, 1));

    let dropped = stage.proxy.drop_answer(Op::Event, 1, Then::Continue);
    raw.watch_children(2, &stage.root);
    stage.make("b").unwrap();
    assert!(dropped.wait(SOON));
    raw.watch_children(3, &stage.root);

    let on_root = stage.proxy.on(Op::Event).path_contains(&stage.root);
    let held = on_root.hold_answer();
    stage.make("c").unwrap();
    assert!(held.wait(SOON));
    raw.ask(4);
    wait_until("the answer is behind it", SOON, || {
        stage.proxy.log().iter().any(|line| line.ends_with("< Exists /"))
    });
    held.release();
    assert_eq!((raw.read_id(), raw.read_id()), (-1, 4));
    assert_eq!(stage.proxy.events(), 3);
}

#[test]
fn answers_before_a_dropped_one_arrive() {
    let stage = Stage::new("order");
    let mut raw = Raw::connect(stage.proxy.address());
    let rule = stage.proxy.drop_answer(Op::Exists, 4, Then::Cut);
    for id in 1..=5 {
        raw.ask(id);
    }
    assert_eq!([raw.read_id(), raw.read_id(), raw.read_id()], [1, 2, 3]);
    assert!(rule.wait(SOON));
}
