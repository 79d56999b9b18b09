//! When a lock is not handed on, and how a new owner hears of a loss.

use zoolock::Guard;
use zoolock_test_support::{Direction, Op};

use super::*;
use common::{await_lost, delete_node};

/// A held lock behind a proxy, and the next thread that waits for it.
struct Held {
    stage: Stage,
    lock: DistributedLock,
    guard: Guard,
    next: Visitor,
}

impl Held {
    fn new(timeout: Duration) -> Held {
        let stage = Stage::new("handed-on", timeout);
        let lock = lock_with(&stage.client, &stage.path, 100);
        let guard = lock.acquire().unwrap();
        let next = Visitor::start_asleep(lock.clone());
        Held { stage, lock, guard, next }
    }

    fn await_suspended(&self) {
        wait_until("suspended", SOON, || self.guard.state() == HoldState::Suspended);
    }

    /// Expects a release without a hand-off: the next thread gets another node.
    #[track_caller]
    fn not_handed_on(self, why: &str) {
        let earlier = self.guard.hold();
        let released = self.guard.release();
        println!("{why}: {released:?}, it was {earlier:?}");
        let is_lost = matches!(earlier.state(), HoldState::Lost(_));
        assert_eq!(released.is_err_and(|error| error.is_lost()), is_lost, "{why}");
        self.stage.proxy.restore();
        let heir = self.next.hold();
        assert_ne!(heir.node(), earlier.node(), "{why}: handed on");
        assert_eq!(heir.state(), HoldState::Held);
        self.next.leaves();
        await_nothing_left(&self.stage.client);
        assert_eq!(children(&self.stage.path), [""; 0]);
        assert!(self.lock.try_lock_for(SOON).unwrap());
        self.lock.unlock().unwrap();
    }
}

/// Nothing watches a young node: it is watched when it is handed on first.
#[test]
fn next_thread_hears_of_a_deletion_before_the_hand_over() {
    let held = Held::new(SOON);
    delete_node(&held.guard);
    held.guard.release().unwrap();
    let heir = held.next.hold();
    wait_until("it is lost", SOON / 8, || !heir.is_held());
}

#[test]
fn lock_is_not_handed_on_when_revoked_lost_or_disconnected() {
    type Way = (&'static str, Duration, fn(&Held));
    let ways: [Way; 5] = [
        ("asked for", SOON, |held| {
            let asked = held.guard.revocation().unwrap();
            let others = client();
            others.revoke(&others.contenders(&held.stage.path).unwrap()[0]).unwrap();
            asked.recv_timeout(SOON).expect("asked");
        }),
        ("deleted", SOON, |held| {
            let _watched = held.guard.revocation().unwrap();
            delete_node(&held.guard);
            await_lost(&held.guard);
        }),
        ("away", SESSION, |held| {
            held.stage.proxy.cut_off();
            held.await_suspended();
        }),
        ("silent", SESSION, |held| {
            held.stage.proxy.black_hole(Direction::Both);
            held.await_suspended();
        }),
        ("expired", SHORT / 2, |held| {
            held.stage.proxy.black_hole(Direction::Both);
            await_lost(&held.guard);
        }),
    ];
    thread::scope(|scope| {
        for (why, timeout, comes) in ways {
            scope.spawn(move || {
                let held = Held::new(timeout);
                comes(&held);
                held.not_handed_on(why);
            });
        }
    });
}

/// Returns `None` if the machine was too slow and the lease was renewed.
fn on_a_short_lease() -> Option<(Held, zoolock_test_support::Hold)> {
    let stage = Stage::new("short", SHORT);
    let ahead = lock_of(&client(), &stage.path);
    ahead.lock().unwrap();
    let lock = lock_with(&stage.client, &stage.path, 100);
    let waiting = lock.clone();
    let waiting = Task::spawn(move || waiting.acquire());
    // The lease is not renewed during the wait, and is just long enough for a grant.
    let begun = Instant::now();
    wait_until("it has waited for long", SOON, || begun.elapsed() > SHORT * 47 / 100);
    let heartbeat = stage.proxy.on(Op::SetData).path_contains("no-such-node").hold_answer();
    ahead.unlock().unwrap();
    let guard = waiting.result("the waiter").unwrap();
    let next = Visitor::start_asleep(lock.clone());
    assert!(heartbeat.wait(SOON), "{:#?}", stage.proxy.log());
    let is_short = || guard.hold().valid_for() < SHORT / 3;
    let is_late = || stage.client.stats().connections > 1;
    wait_until("less than a third is left", SOON, || is_short() || is_late());
    println!("{:?}, {:?}", guard.hold(), stage.client.stats());
    (is_short() && !is_late()).then(|| (Held { stage, lock, guard, next }, heartbeat))
}

#[test]
fn lock_is_not_handed_on_with_under_a_third_of_its_lease() {
    let held = (0..10).find_map(|_| on_a_short_lease());
    let (held, _heartbeat) = held.expect("a hold on a short lease");
    held.not_handed_on("a short lease");
}
