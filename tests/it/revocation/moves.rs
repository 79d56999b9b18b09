//! Listening over moves, and requests that come meanwhile.

use zoolock::{Client, DistributedLock, Error, Hold};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use super::{REVOKE, contender_of, ends, is_asked, is_not_asked};
use crate::lock::core::hold_of;
use crate::util::{SESSION, SOON, await_moved, children, client, client_of, lock_of, shared_proxy};

/// A hold behind a proxy, and somebody who asks.
struct Stage {
    proxy: FaultProxy,
    own: Client,
    other: Client,
    lock: DistributedLock,
    hold: Hold,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let lock = lock_of(&own, &fresh_path(name));
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        Stage { proxy, own, other: client(), lock, hold }
    }

    fn node(&self) -> String {
        format!("{}/{}", self.hold.path(), self.hold.node())
    }

    fn await_moved(&self, times: u64) {
        await_moved(&self.own, times);
        wait_until("the old node is gone", SOON, || {
            children(self.hold.path()) == [self.hold.node()]
        });
    }
}

#[test]
fn a_listener_is_kept_over_move_after_move() {
    let stage = Stage::new("kept");
    let asked = stage.hold.revocation().unwrap();
    for round in 1..=3 {
        let old = contender_of(&stage.other, &stage.hold);
        stage.proxy.cut();
        stage.await_moved(round);
        is_not_asked(&asked, "before");
        let late = stage.other.revoke(&old);
        assert!(matches!(late, Err(Error::NotHeld { .. })), "{late:?}");
        is_not_asked(&asked, "the old node");
    }
    let now = contender_of(&stage.other, &stage.hold);
    stage.other.revoke(&now).unwrap();
    is_asked(&asked, "who has moved");
    stage.lock.unlock().unwrap();
    ends(&asked, "who has moved");
}

#[test]
fn a_hold_that_listens_without_a_connection_is_watched_from_the_next_on() {
    let stage = Stage::new("without");
    stage.proxy.refuse(true);
    stage.proxy.cut();
    wait_until("suspended", SOON, || stage.hold.state() == zoolock::HoldState::Suspended);
    let asked = stage.hold.revocation().unwrap();
    stage.proxy.refuse(false);
    stage.await_moved(1);
    // A quarter of the session timeout passes before an ordinary hold is watched.
    stage.other.revoke(&contender_of(&stage.other, &stage.hold)).unwrap();
    let begun = std::time::Instant::now();
    is_asked(&asked, "who listens since the break");
    println!("asked {:?} after the request", begun.elapsed());
    stage.lock.unlock().unwrap();
}

#[test]
fn a_request_written_while_the_connection_was_cut_is_heard() {
    for listens_before in [true, false] {
        let stage = Stage::new("while-cut");
        let before = listens_before.then(|| stage.hold.revocation().unwrap());
        stage.proxy.refuse(true);
        stage.proxy.cut();
        shared_probe().unwrap().set(&stage.node(), REVOKE).unwrap();
        stage.proxy.refuse(false);
        stage.await_moved(1);
        let asked = before.unwrap_or_else(|| stage.hold.revocation().unwrap());
        is_asked(&asked, "who was cut off");
        println!("listens before {listens_before}: {:?}", stage.hold);
        stage.lock.unlock().unwrap();
    }
}

#[test]
fn a_request_whose_event_was_lost_in_the_cut_is_heard() {
    let stage = Stage::new("event-lost");
    let asked = stage.hold.revocation().unwrap();
    let probe = shared_probe().unwrap();
    let event = stage.proxy.on(Op::Event).path_contains(&stage.hold.node());
    let event = event.drop_answer(zoolock_test_support::Then::Cut);
    // The watch is set when the read behind it was answered.
    wait_until("the watch is set", SOON, || stage.proxy.requests(Op::GetData) > 0);
    stage.hold.fencing_token().unwrap();
    probe.set(&stage.node(), REVOKE).unwrap();
    assert!(event.wait(SOON), "{:#?}", stage.proxy.log());
    stage.await_moved(1);
    is_asked(&asked, "whose event was lost");
    stage.lock.unlock().unwrap();
}

#[test]
fn a_request_written_between_the_looks_of_a_move_is_heard() {
    for (what, op) in [("create", Op::Create), ("look", Op::GetData)] {
        let stage = Stage::new("between");
        let asked = stage.hold.revocation().unwrap();
        stage.hold.fencing_token().unwrap();
        let node = stage.node();
        let step = stage.proxy.on(op).path_contains("lock-").hold_request();
        stage.proxy.cut();
        assert!(step.wait(SOON), "{:#?}", stage.proxy.log());
        shared_probe().unwrap().set(&node, REVOKE).unwrap();
        step.release();
        stage.await_moved(1);
        is_asked(&asked, what);
        stage.lock.unlock().unwrap();
    }
}

#[test]
fn a_request_that_was_heard_before_a_move_is_heard_by_later_listeners_too() {
    let stage = Stage::new("later");
    let asked = stage.hold.revocation().unwrap();
    let now = contender_of(&stage.other, &stage.hold);
    stage.other.revoke(&now).unwrap();
    is_asked(&asked, "the holder");
    stage.proxy.cut();
    stage.await_moved(1);
    // The mover has seen it in the old node's data once more.
    println!("once more after the move: {:?}", asked.try_recv());
    let late = stage.hold.revocation().unwrap();
    is_asked(&late, "a listener that came after the move");
    stage.lock.unlock().unwrap();
}
