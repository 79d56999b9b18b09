//! When the servers have to be told: nothing is handed on.

use std::time::Instant;

use zoolock::HoldState;
use zoolock_test_support::{Direction, Op, wait_until};

use super::*;
use common::{SESSION, Stage, await_lost, await_nothing_left, children, client, exists};

/// Long enough that nothing ends on a busy machine, short enough to wait for a quarter of it.
const SHORT: Duration = Duration::from_secs(6);

/// A lock behind a proxy, held, and the next thread that waits for it.
struct Held {
    stage: Stage,
    lock: DistributedLock,
    guard: Guard,
    next: Next,
}

impl Held {
    fn new(name: &str, timeout: Duration) -> Held {
        let stage = Stage::new(name, timeout);
        let lock = lock_with(&stage.client, &stage.path, 100);
        let guard = lock.acquire().unwrap();
        let next = Next::waits(&lock);
        Held { stage, lock, guard, next }
    }

    /// The release is not a hand-off: the next thread has a node of its own.
    #[track_caller]
    fn not_handed_on(self) {
        let earlier = self.guard.hold();
        let released = self.guard.release();
        println!("released: {released:?}, it was {earlier:?}");
        self.stage.proxy.restore();
        let heir = self.next.holds();
        assert_ne!(heir.node(), earlier.node(), "handed on");
        assert_eq!(heir.state(), HoldState::Held);
        self.next.lets_go().unwrap();
        await_nothing_left(&self.stage.client);
        assert_eq!(children(&self.stage.path), [""; 0]);
        assert!(self.lock.try_lock_for(SOON).unwrap());
        self.lock.unlock().unwrap();
    }
}

#[test]
fn nothing_is_handed_on_when_somebody_has_asked() {
    let held = Held::new("asked", SESSION);
    let asked = held.guard.revocation().unwrap();
    let others = client();
    let contender = others.contenders(&held.stage.path).unwrap().remove(0);
    others.revoke(&contender).unwrap();
    asked.recv_timeout(SOON).expect("asked");
    held.not_handed_on();
}

#[test]
fn who_asks_while_it_is_handed_on_and_on_is_heard() {
    let stage = Stage::new("asked_between", SHORT);
    let lock = lock_with(&stage.client, &stage.path, u32::MAX);
    let passers = Passers::start(&lock, 3, |_| a_moment());
    wait_until("there is a node", SOON, || children(&stage.path).len() == 1);
    let others = client();
    for round in 0..3 {
        let mut node = String::new();
        // On a slow machine nobody may wait for once, and the node changes.
        wait_until("its holder is asked", SOON, || {
            let contenders = others.contenders(&stage.path).unwrap();
            contenders.first().is_some_and(|contender| {
                node = format!("{}/{}", stage.path, contender.node);
                others.revoke(contender).is_ok()
            })
        });
        // The watch comes with a quarter of the session timeout.
        let took = wait_until("it was released", SOON, || !exists(&node));
        println!("round {round}: let go after {took:?}");
        wait_until("there is the next", SOON, || children(&stage.path).len() == 1);
    }
    let turns: Vec<_> = passers.stop().into_iter().map(Result::unwrap).collect();
    println!("{turns:?} turns");
    await_nothing_left(&stage.client);
    assert_eq!(stage.client.stats().holds_lost, 0);
}

#[test]
fn nothing_is_handed_on_while_the_connection_is_away() {
    let held = Held::new("away", SESSION);
    held.stage.proxy.refuse(true);
    held.stage.proxy.cut();
    wait_until("it is suspended", SOON, || held.guard.state() == HoldState::Suspended);
    held.not_handed_on();
}

#[test]
fn nothing_is_handed_on_over_a_silent_connection() {
    let held = Held::new("silent", SESSION);
    held.stage.proxy.black_hole(Direction::Both);
    wait_until("the silence is noticed", SOON, || held.guard.state() == HoldState::Suspended);
    held.not_handed_on();
}

#[test]
fn nothing_is_handed_on_with_less_than_a_third_of_a_lease() {
    let session = Duration::from_secs(8);
    let stage = Stage::new("short", session);
    let others = client();
    let ahead = lock_with(&others, &stage.path, 0);
    ahead.lock().unwrap();
    let lock = lock_with(&stage.client, &stage.path, 100);
    let waiting = {
        let lock = lock.clone();
        Task::spawn(move || lock.acquire())
    };
    // Its lease is not renewed while it waits, and is long enough to be granted with it.
    let begun = Instant::now();
    wait_until("it has waited for long", SOON, || begun.elapsed() > session * 47 / 100);
    let heartbeat = stage.proxy.on(Op::SetData).path_contains("no-such-node").hold_answer();
    ahead.unlock().unwrap();
    let guard = waiting.result("the waiter").unwrap();
    let next = Next::waits(&lock);
    assert!(heartbeat.wait(SOON), "{:#?}", stage.proxy.log());
    wait_until("less than a third is left", SOON, || guard.hold().valid_for() < session / 3);
    println!("{:?}", guard.hold());
    Held { stage, lock, guard, next }.not_handed_on();
}

#[test]
fn a_hold_whose_lease_ran_out_is_not_handed_on() {
    let held = Held::new("expired", Duration::from_secs(2));
    held.stage.proxy.black_hole(Direction::Both);
    await_lost(&held.guard);
    assert!(matches!(held.guard.state(), HoldState::Lost(_)));
    held.not_handed_on();
}
