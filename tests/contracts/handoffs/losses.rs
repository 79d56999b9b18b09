//! When a lock is not handed on, and how a new owner hears of a loss.

use zoolock::{Guard, LossReason};
use zoolock_test_support::{Direction, Op};

use super::*;
use common::{Subject, assert_lost, await_lost, delete_node, every_subject_that, in_time};

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

/// Each deletion has a delay after the hand-off, and a node that was watched before or not.
#[test]
fn new_owner_hears_of_a_loss_after_a_handoff() {
    let deletions = [(0, true), (0, false), (3, false)].map(Some).into_iter();
    thread::scope(|scope| {
        for deleted in deletions.chain([None]) {
            scope.spawn(move || {
                let timeout = if deleted.is_some() { SHORT } else { SHORT / 2 };
                let stage = Stage::new("taken-over", timeout);
                let lock = lock_with(&stage.client, &stage.path, 1000);
                // These holds receive the heartbeats.
                let others: Vec<_> = (0..6)
                    .map(|n| lock_of(&stage.client, &format!("{}-{n}", stage.path)))
                    .collect();
                others.iter().for_each(|other| other.lock().unwrap());
                let guard = lock.acquire().unwrap();
                let is_watched = matches!(deleted, Some((_, true)));
                let _asked = is_watched.then(|| guard.revocation().unwrap());
                let next = Visitor::start_asleep(lock.clone());
                guard.release().unwrap();
                let (heir, begun) = (next.hold(), Instant::now());
                let why = match deleted {
                    Some((thirds, _)) => {
                        let pause = timeout * thirds / 9;
                        wait_until("it has held for a while", SOON, || begun.elapsed() >= pause);
                        delete_node(&heir);
                        // A watch must report it, the earlier one or the next, and not a heartbeat.
                        let limit = timeout / if is_watched { 5 } else { 2 };
                        in_time(&format!("{deleted:?}"), limit, || await_lost(&heir));
                        let counted = || stage.client.stats().holds_lost == 1;
                        wait_until("it is counted", SOON, counted);
                        LossReason::NodeDeleted
                    }
                    None => {
                        stage.proxy.black_hole(Direction::Both);
                        await_lost(&heir);
                        LossReason::LeaseExpired
                    }
                };
                assert_eq!(
                    (heir.state(), heir.valid_for()),
                    (HoldState::Lost(why), Duration::ZERO)
                );
                assert_lost(&next.leaves_saying(), &stage.path, why);
                stage.proxy.restore();
                assert!(lock.try_lock_for(SOON).unwrap());
                lock.unlock().unwrap();
            });
        }
    });
}

/// Writes to the node make the client check it repeatedly. The node exists each time.
#[test]
fn check_of_the_node_during_handoffs_reports_no_loss() {
    let is_left = |one: Subject| one.is_plain() && one.may_be_left() && one.is_one_lock();
    every_subject_that(is_left, |subject| {
        let (client, path) = (client_of(&connect_string(), SHORT), fresh_path("looks"));
        let object = subject.with(&client, &path, handing_on(u32::MAX));
        let lock: Arc<dyn Lock> = Arc::from(Box::<dyn Lock>::from(object));
        let passers = Passers::start(&lock, 4, |hold| drop(hold.revocation()));
        let (probe, events) = (shared_probe().unwrap(), client.stats().events);
        wait_until("it has looked often", SOON, || {
            for node in subject.nodes(&path) {
                // The node may be gone by now.
                if let Ok(Some((data, _))) = probe.get(&node) {
                    let _ = probe.set(&node, &data);
                }
            }
            client.stats().events > events + 300
        });
        let turns = passers.stop();
        println!("{}: {turns:?}, {:?}", subject.name, client.stats());
        assert_eq!(client.stats().holds_lost, 0, "{}: {turns:?}", subject.name);
        assert!(turns.iter().all(Result::is_ok), "{}: {turns:?}", subject.name);
        subject.await_nodes(&path, 0);
    });
}
