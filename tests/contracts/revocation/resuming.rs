//! Listening over cuts, and requests that come meanwhile.

use zoolock::{Client, DistributedLock, Hold};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use super::{REVOKE, contender_of, is_asked, is_not_asked};
use common::basics::hold_of;
use common::{SESSION, SOON, await_resumed, client, client_of, lock_of, shared_proxy};

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

    fn await_watched(&self) {
        wait_until("the read is sent", SOON, || self.proxy.requests(Op::GetData) > 0);
        // It was answered when this one behind it is.
        self.own.contenders(self.hold.path()).unwrap();
    }

    fn await_resumed(&self, times: u64) {
        await_resumed(&self.own, times);
    }
}

#[test]
fn a_hold_that_listens_without_a_connection_is_watched_from_the_next_on() {
    let stage = Stage::new("without");
    stage.proxy.refuse(true);
    stage.proxy.cut();
    wait_until("suspended", SOON, || stage.hold.state() == zoolock::HoldState::Suspended);
    let asked = stage.hold.revocation().unwrap();
    stage.proxy.refuse(false);
    stage.await_resumed(1);
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
        stage.await_resumed(1);
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
    stage.await_watched();
    probe.set(&stage.node(), REVOKE).unwrap();
    assert!(event.wait(SOON), "{:#?}", stage.proxy.log());
    stage.await_resumed(1);
    is_asked(&asked, "whose event was lost");
    stage.lock.unlock().unwrap();
}

/// Behind the handshake the watch is set again, and the node read.
#[test]
fn a_request_written_while_the_session_is_resumed_is_heard() {
    for op in [Op::Connect, Op::SetWatches, Op::SetData] {
        for answer in [false, true] {
            let stage = Stage::new("between");
            let asked = stage.hold.revocation().unwrap();
            stage.await_watched();
            let rule = stage.proxy.on(op);
            let step = match answer {
                true => rule.hold_answer(),
                false => rule.hold_request(),
            };
            stage.proxy.cut();
            assert!(step.wait(SOON), "{:#?}", stage.proxy.log());
            shared_probe().unwrap().set(&stage.node(), REVOKE).unwrap();
            step.release();
            stage.await_resumed(1);
            is_asked(&asked, &format!("{op:?}, answer: {answer}"));
            stage.lock.unlock().unwrap();
        }
    }
}

#[test]
fn a_request_that_was_heard_before_a_cut_is_heard_by_later_listeners_too_and_only_once() {
    let stage = Stage::new("later");
    let asked = stage.hold.revocation().unwrap();
    let now = contender_of(&stage.other, &stage.hold);
    stage.other.revoke(&now).unwrap();
    is_asked(&asked, "the holder");
    stage.proxy.cut();
    stage.await_resumed(1);
    is_not_asked(&asked, "the same request");
    let late = stage.hold.revocation().unwrap();
    is_asked(&late, "a listener that came after the cut");
    stage.lock.unlock().unwrap();
}
