//! `MultiLock`: all of its members or none, in one order, within one deadline.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, EphemeralLock, Error,
    Hold, HoldState, Lock, LockId, Locker, LossReason, MultiLock, Result,
};
use zoolock_test_support::{Direction, fresh_path, shared_probe, wait_until};

use crate::lock::core::{await_nodes, hold_of, places};
use crate::util::{
    SOON, Task, Witness, children, client, client_of, in_time, shared_address, shared_proxy,
    warnings,
};

fn lock_at(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::new(client, path).expect("a good path")
}

/// Objects of their own at `root/<name>`.
fn members<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> [DistributedLock; N] {
    names.map(|name| lock_at(client, &format!("{root}/{name}")))
}

fn multi_of<const N: usize>(members: &[DistributedLock; N]) -> MultiLock {
    MultiLock::new(members.clone().map(Into::into)).expect("a good list")
}

fn multi<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> MultiLock {
    multi_of(&members(client, root, names))
}

fn paths(multi: &MultiLock) -> Vec<&str> {
    multi.locks().iter().map(|lock| lock.path()).collect()
}

/// How many nodes there are at each member's path.
fn nodes(multi: &MultiLock) -> Vec<usize> {
    let nodes = multi.locks().iter().map(|lock| children(lock.path()).len());
    nodes.collect()
}

fn await_no_nodes(multi: &MultiLock) {
    for lock in multi.locks() {
        await_nodes(lock.path(), 0);
    }
}

fn delete_node(hold: &Hold) {
    let node = format!("{}/{}", hold.path(), hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
}

fn is_lost(error: &Error, path: &str, why: LossReason) -> bool {
    matches!(error, Error::Lost { path: at, reason } if at == path && *reason == why)
}

/// The failures of an [`Error::Release`].
#[track_caller]
fn failures<T: std::fmt::Debug>(result: Result<T>) -> Vec<Error> {
    match result {
        Err(Error::Release { failures }) => failures,
        other => panic!("no failed release: {other:?}"),
    }
}

#[track_caller]
fn refused(locks: impl IntoIterator<Item = Box<dyn Lock>>) -> String {
    let error = MultiLock::new(locks).expect_err("refused");
    println!("{error}");
    match error {
        Error::InvalidArgument {
            what: "list of locks",
            reason,
        } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn smoke() {
    let client = client();
    let root = fresh_path("multi-smoke");
    let [a, c] = members(&client, &root, ["a", "c"]);
    let b = DistributedReentrantLock::new(&client, format!("{root}/b")).unwrap();
    let multi = MultiLock::new([c.clone().into(), b.clone().into(), a.clone().into()]).unwrap();
    println!("{multi:?}");
    assert_eq!(multi.path(), format!("{root}/a, {root}/b, {root}/c"));
    assert_eq!(paths(&multi), [a.path(), b.path(), c.path()]);
    assert!(!multi.is_held() && multi.holds().is_empty());

    multi.lock().unwrap();
    let holds = multi.holds();
    println!("{holds:?}");
    assert!(multi.is_held() && a.is_held() && b.is_held() && c.is_held());
    let held: Vec<_> = holds.iter().map(Hold::path).collect();
    assert_eq!(held, paths(&multi));
    for hold in &holds {
        assert_eq!(children(hold.path()), [hold.node()]);
    }
    let clone: Box<dyn Lock> = multi.clone().into();
    clone.unlock().unwrap();
    assert!(!multi.is_held() && !a.is_held() && !b.is_held() && !c.is_held());
    assert_eq!(nodes(&multi), [0, 0, 0]);

    assert!(multi.try_lock().unwrap());
    multi.unlock().unwrap();
    assert!(multi.try_lock_for(SOON).unwrap());
    multi.unlock().unwrap();
    assert!(multi.try_lock_for(Duration::MAX).unwrap());
    multi.unlock().unwrap();
    assert!(multi.try_lock_until(Instant::now() + SOON).unwrap());
    multi.unlock().unwrap();
    multi.acquire().unwrap().release().unwrap();
    multi.try_acquire().unwrap().unwrap().release().unwrap();
    let locked = multi.try_acquire_for(SOON).unwrap().unwrap();
    assert!(multi.is_held(), "{locked:?}");
    drop(locked);
    assert_eq!(nodes(&multi), [0, 0, 0]);
}

#[test]
fn excludes() {
    const ENTRIES: u32 = 10;
    let clients = [client(), client()];
    let root = fresh_path("multi-excludes");
    let names = ["a", "b", "c"];
    let locks = clients.each_ref().map(|client| multi(client, &root, names));
    locks[0].lock().unwrap();
    assert!(!locks[1].try_lock().unwrap());
    assert!(
        !locks[0].clone().try_lock().unwrap(),
        "one object, one hold"
    );
    locks[0].unlock().unwrap();
    for one in members(&clients[0], &root, names) {
        one.lock().unwrap();
        assert!(!locks[1].try_lock().unwrap(), "{one:?} is held");
        assert!(locks[1].holds().is_empty(), "{:?}", locks[1].holds());
        one.unlock().unwrap();
    }

    let witness = Arc::new(Witness::default());
    let visitors = locks.iter().flat_map(|lock| [lock, lock]);
    let visitors: Vec<_> = visitors
        .map(|lock| {
            let (lock, witness) = (lock.clone(), Arc::clone(&witness));
            Task::spawn(move || {
                for _ in 0..ENTRIES {
                    lock.lock().unwrap();
                    witness.visit(thread::yield_now);
                    lock.unlock().unwrap();
                }
            })
        })
        .collect();
    for visitor in visitors {
        visitor.result("two clients of two threads each");
    }
    println!("{witness:?}");
    witness.saw(4 * ENTRIES);
    assert_eq!(nodes(&locks[0]), [0, 0, 0]);
}

#[test]
fn times_out() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let clients = [client(), client()];
    let root = fresh_path("multi-times_out");
    let [holder] = members(&clients[0], &root, ["c"]);
    let other = multi(&clients[1], &root, ["a", "b", "c"]);
    holder.lock().unwrap();
    let node = hold_of(&holder).node();
    for timeout in [TIMEOUT, Duration::ZERO] {
        let begun = Instant::now();
        let locked = other.try_lock_for(timeout).unwrap();
        let took = begun.elapsed();
        println!("try_lock_for({timeout:?}): {locked} after {took:?}");
        assert!(!locked && took >= timeout && took < SOON);
        assert!(other.try_acquire_for(timeout).unwrap().is_none());
    }
    let begun = Instant::now();
    assert!(!other.try_lock_until(begun + TIMEOUT).unwrap());
    assert!(begun.elapsed() >= TIMEOUT, "{:?}", begun.elapsed());
    assert!(other.try_acquire().unwrap().is_none());
    assert_eq!(await_nodes(holder.path(), 1), [node]);
    assert_eq!(
        nodes(&other),
        [0, 0, 1],
        "those taken before are free again"
    );
    assert!(other.holds().is_empty(), "{:?}", other.holds());
    holder.unlock().unwrap();
    assert!(other.try_lock_for(SOON).unwrap());
    other.unlock().unwrap();
}

#[test]
fn cleans_up() {
    let client = client();
    let root = fresh_path("multi-cleans_up");
    let [a, b] = members(&client, &root, ["a", "b"]);
    let multi = multi_of(&[a.clone(), b.clone()]);
    drop(multi.acquire().unwrap());
    assert_eq!(nodes(&multi), [0, 0], "after the drop of a locker");
    multi.acquire().unwrap().release().unwrap();
    assert_eq!(nodes(&multi), [0, 0], "after the release of a locker");

    let [rival] = members(&client, &root, ["b"]);
    rival.lock().unwrap();
    assert!(!multi.try_lock_for(Duration::from_millis(200)).unwrap());
    await_nodes(b.path(), 1);
    assert_eq!(children(a.path()), [""; 0], "after a timeout");
    let waiting = multi.clone();
    let waiter = Task::spawn(move || waiting.lock());
    await_nodes(b.path(), 2);
    assert!(a.is_held(), "taken first");
    b.cancel_waiters();
    let cancelled = waiter.result("a cancelled waiter");
    println!("cancelled: {cancelled:?}");
    let at_b = |error: &Error| matches!(error, Error::Cancelled { path } if path == b.path());
    assert!(cancelled.as_ref().is_err_and(at_b), "{cancelled:?}");
    await_nodes(b.path(), 1);
    assert_eq!(children(a.path()), [""; 0], "after a cancelled wait");
    rival.unlock().unwrap();
    assert!(multi.try_lock_for(SOON).unwrap());
    multi.unlock().unwrap();
    wait_until("nothing is left", SOON, || {
        let stats = client.stats();
        stats.seats == 0 && stats.garbage == 0
    });
}

#[test]
fn survives_cut() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
    let root = fresh_path("multi-survives_cut");
    let lock = multi(&client, &root, ["a", "b"]);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    proxy.cut();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    println!("cut while idle: {:?}", client.stats());

    let rivals = crate::util::client();
    let [rival] = members(&rivals, &root, ["b"]);
    rival.lock().unwrap();
    let waiting = lock.clone();
    let waiter = Task::spawn(move || waiting.lock());
    let before = await_nodes(rival.path(), 2);
    proxy.cut();
    wait_until("both moved", SOON, || client.stats().seats_moved >= 2);
    assert_eq!(places(&await_nodes(rival.path(), 2)), places(&before));
    assert!(!waiter.is_done(), "the rival still holds the lock");
    rival.unlock().unwrap();
    waiter.result("a waiter after a cut").unwrap();
    assert!(lock.is_held());

    let holds = lock.holds();
    let tokens = || -> Vec<_> {
        holds
            .iter()
            .map(|hold| hold.fencing_token().unwrap())
            .collect()
    };
    let before = tokens();
    let moved = client.stats().seats_moved;
    proxy.cut();
    wait_until("both moved again", SOON, || {
        client.stats().seats_moved >= moved + 2
    });
    assert!(
        holds.iter().all(|hold| hold.state() == HoldState::Held),
        "{holds:?}"
    );
    println!("cut while held: tokens {before:?}");
    assert_eq!(tokens(), before);
    lock.unlock().unwrap();
    assert_eq!(client.stats().seats_lost, 0);
    await_no_nodes(&lock);
}

/// Every thread wants two of three locks, given in an order of its own: A,B against B,A, and all
/// around the circle.
#[test]
fn opposite_orders_do_not_deadlock() {
    const ROUNDS: u32 = 40;
    let root = fresh_path("multi-orders");
    let witnesses = Arc::new(["a", "b", "c"].map(|name| (name, Witness::default())));
    let clients = [client(), client()];
    let wants = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]];
    let visitors = wants.into_iter().enumerate().map(|(number, names)| {
        let lock = multi(&clients[number % 2], &root, names);
        let witnesses = Arc::clone(&witnesses);
        Task::spawn(move || {
            let [first, second] = names.map(|wanted| {
                let witness = witnesses.iter().find(|(name, _)| *name == wanted);
                &witness.expect("a witness").1
            });
            for _ in 0..ROUNDS {
                lock.lock().unwrap();
                first.visit(|| second.visit(thread::yield_now));
                lock.unlock().unwrap();
            }
        })
    });
    for visitor in visitors.collect::<Vec<_>>() {
        visitor.result("one of four who want two of three locks");
    }
    println!("{witnesses:?}");
    for ((_, witness), visits) in witnesses.iter().zip([3, 3, 2]) {
        witness.saw(visits * ROUNDS);
    }
}

/// What a lock does when it is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Well,
    /// Says that it is locked, and is not.
    Forget,
    Busy,
    Fail,
    Panic,
}

/// A user's own lock that writes down what is asked of it.
#[derive(Debug)]
struct Scripted {
    path: String,
    locking: Does,
    unlocking: Does,
    held: AtomicBool,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn new(path: &str, locking: Does, unlocking: Does, calls: Arc<Mutex<Vec<String>>>) -> Scripted {
        Scripted {
            path: path.to_owned(),
            locking,
            unlocking,
            held: AtomicBool::new(false),
            calls,
        }
    }

    fn act(&self, verb: &str, does: Does) -> Result<bool> {
        let name = self.path.trim_start_matches('/');
        self.calls.lock().unwrap().push(format!("{verb} {name}"));
        match does {
            Does::Well | Does::Forget => Ok(true),
            Does::Busy => Ok(false),
            Does::Panic => panic!("told to panic when asked to {verb} {name}"),
            Does::Fail => {
                let path = self.path.clone();
                Err(match verb {
                    "unlock" => Error::Denied { path },
                    _ => Error::Disconnected { path },
                })
            }
        }
    }

    fn enter(&self, verb: &str) -> Result<bool> {
        let locked = self.act(verb, self.locking)?;
        let held = locked && self.locking != Does::Forget;
        self.held.store(held, Ordering::SeqCst);
        Ok(locked)
    }
}

impl Lock for Scripted {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock(&self) -> Result<()> {
        self.enter("lock").map(drop)
    }

    fn try_lock(&self) -> Result<bool> {
        self.enter("try")
    }

    fn try_lock_until(&self, deadline: Instant) -> Result<bool> {
        self.enter(&format!("until {deadline:?}"))
    }

    fn unlock(&self) -> Result<()> {
        self.held.store(false, Ordering::SeqCst);
        self.act("unlock", self.unlocking).map(drop)
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    fn holds(&self) -> Vec<Hold> {
        Vec::new()
    }
}

/// Scripted locks as one, and what they have been asked.
struct Script {
    multi: MultiLock,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// One member for each of these: its path, what it does when locked, and when unlocked.
    fn new<const N: usize>(members: [(&str, Does, Does); N]) -> Script {
        let calls = Arc::default();
        let member = |(path, locking, unlocking): (&str, Does, Does)| -> Box<dyn Lock> {
            let calls = Arc::clone(&calls);
            Box::new(Scripted::new(path, locking, unlocking, calls))
        };
        let multi = MultiLock::new(members.map(member)).expect("a good list");
        Script { multi, calls }
    }

    /// The calls since the last time.
    fn calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        println!("{calls:?}");
        calls
    }
}

#[test]
fn failure_on_the_kth_releases_the_others_in_reverse() {
    use Does::{Busy, Fail, Well};
    let members = |third| {
        [
            ("/d", Well, Well),
            ("/c", third, Well),
            ("/b", Well, Well),
            ("/a", Well, Well),
        ]
    };

    let script = Script::new(members(Fail));
    let failed = script.multi.lock();
    println!("{failed:?}");
    let at_c = matches!(&failed, Err(Error::Disconnected { path }) if path == "/c");
    assert!(at_c, "{failed:?}");
    assert!(failed.unwrap_err().is_retryable());
    let expected = ["lock a", "lock b", "lock c", "unlock b", "unlock a"];
    assert_eq!(script.calls(), expected);
    assert!(script.multi.locks().iter().all(|lock| !lock.is_held()));

    let script = Script::new(members(Busy));
    assert!(!script.multi.try_lock().unwrap());
    let expected = ["try a", "try b", "try c", "unlock b", "unlock a"];
    assert_eq!(script.calls(), expected);

    let script = Script::new(members(Well));
    script.multi.lock().unwrap();
    assert_eq!(script.calls(), ["lock a", "lock b", "lock c", "lock d"]);
    script.multi.unlock().unwrap();
    assert_eq!(
        script.calls(),
        ["unlock d", "unlock c", "unlock b", "unlock a"]
    );
}

#[test]
fn a_failed_roll_back_is_reported_with_its_reason() {
    use Does::{Busy, Fail, Well};
    let members = |third| [("/a", Well, Fail), ("/b", Well, Fail), ("/c", third, Well)];
    let denied = |error: &Error, at: &str| matches!(error, Error::Denied { path } if path == at);

    let script = Script::new(members(Fail));
    let error = script.multi.lock().unwrap_err();
    println!("{error}");
    assert!(error.is_retryable() && !error.is_lost(), "{error:?}");
    let seen = failures::<()>(Err(error));
    let [Error::Disconnected { path }, second, third] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert!(
        path == "/c" && denied(second, "/b") && denied(third, "/a"),
        "{seen:?}"
    );

    let script = Script::new(members(Busy));
    let seen = failures(script.multi.try_lock());
    let [first, second] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert!(denied(first, "/b") && denied(second, "/a"), "{seen:?}");
}

#[test]
fn a_panic_of_one_member_leaves_none_locked() {
    use Does::{Fail, Panic, Well};
    let panics = |call: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
        let said = panic.downcast_ref::<String>().cloned();
        println!("panicked: {said:?}");
        said.expect("a text")
    };

    let script = Script::new([("/a", Well, Well), ("/b", Well, Panic), ("/c", Panic, Well)]);
    let said = panics(&|| drop(script.multi.lock()));
    assert!(said.contains("lock c"), "{said}");
    let expected = ["lock a", "lock b", "lock c", "unlock b", "unlock a"];
    assert_eq!(script.calls(), expected);

    let first = format!("/multi-panic-{}", std::process::id());
    warnings(&first);
    let script = Script::new([
        (&first, Well, Fail),
        ("/u", Well, Panic),
        ("/v", Well, Panic),
    ]);
    script.multi.lock().unwrap();
    script.calls();
    let said = panics(&|| drop(script.multi.unlock()));
    assert!(said.contains("unlock v"), "the first one: {said}");
    let calls = script.calls();
    assert_eq!(calls[..2], ["unlock v", "unlock u"]);
    assert_eq!(calls.len(), 3);
    let logged = warnings(&first);
    println!("{logged:?}");
    assert_eq!(logged.len(), 1, "{logged:?}");
}

#[test]
fn a_member_that_is_not_held_after_all_fails_the_call() {
    use Does::{Forget, Well};
    let script = Script::new([("/a", Forget, Well), ("/b", Well, Well)]);
    let seen = script.multi.try_lock();
    println!("{seen:?}");
    assert!(
        matches!(&seen, Err(Error::NotHeld { path }) if path == "/a"),
        "{seen:?}"
    );
    assert_eq!(script.calls(), ["try a", "try b", "unlock b", "unlock a"]);
}

#[test]
fn one_deadline_covers_all_members() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    const SLACK: Duration = Duration::from_millis(500);
    use Does::Well;
    let script = Script::new([("/a", Well, Well), ("/b", Well, Well), ("/c", Well, Well)]);
    let deadline = Instant::now() + SOON;
    assert!(script.multi.try_lock_until(deadline).unwrap());
    let expected = ["a", "b", "c"].map(|name| format!("until {deadline:?} {name}"));
    assert_eq!(script.calls(), expected);

    let clients = [client(), client()];
    let root = fresh_path("multi-deadline");
    let [a, b, c] = members(&clients[0], &root, ["a", "b", "c"]);
    let rival = multi_of(&[a.clone(), b.clone(), c]);
    let lock = multi(&clients[1], &root, ["a", "b", "c"]);
    rival.lock().unwrap();
    let what = "three busy members";
    let locked = in_time(what, TIMEOUT + SLACK, || lock.try_lock_for(TIMEOUT));
    assert!(!locked.unwrap());
    assert_eq!(nodes(&rival), [1, 1, 1]);

    // Two of them become free shortly before the end.
    let begun = Instant::now();
    let frees = Task::spawn(move || {
        let late = || begun.elapsed() > TIMEOUT * 4 / 5;
        wait_until("most of the time is over", SOON, late);
        a.unlock().and_then(|()| b.unlock())
    });
    let what = "one member busy, the others for most of the time";
    let locked = in_time(what, TIMEOUT + SLACK, || lock.try_lock_for(TIMEOUT));
    assert!(!locked.unwrap());
    frees.result("two are freed").unwrap();
    await_nodes(lock.locks()[0].path(), 0);
    assert_eq!(nodes(&lock), [0, 0, 1]);
}

/// What had been taken is given back after the deadline, and an unlock waits for its answer for a
/// third of the session timeout.
#[test]
fn times_out_in_a_black_hole() {
    const SESSION: Duration = Duration::from_secs(6);
    const TIMEOUT: Duration = Duration::from_secs(1);
    let proxy = shared_proxy();
    let ours = client_of(&proxy.connect_string(), SESSION);
    let rivals = client();
    let root = fresh_path("multi-black-hole");
    let lock = multi(&ours, &root, ["a", "b", "c"]);
    let [rival] = members(&rivals, &root, ["c"]);
    rival.lock().unwrap();
    let waiting = lock.clone();
    let waiter = Task::spawn(move || {
        let limit = TIMEOUT + SESSION / 3 + Duration::from_secs(1);
        in_time("black hole", limit, || waiting.try_lock_for(TIMEOUT))
    });
    await_nodes(rival.path(), 2);
    proxy.black_hole(Direction::Both);
    let seen = waiter.result("a waiter in a black hole");
    println!("{seen:?}");
    assert!(!matches!(seen, Ok(true)), "{seen:?}");
    assert!(lock.holds().is_empty(), "{:?}", lock.holds());
    proxy.restore();
    rival.unlock().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap(), "it comes back");
    lock.unlock().unwrap();
    await_no_nodes(&lock);
}

#[test]
fn every_member_is_visited_and_all_failures_reported() {
    let client = client();
    let root = fresh_path("multi-failures");
    let [a, b, c] = members(&client, &root, ["a", "b", "c"]);
    let multi = multi_of(&[a.clone(), b.clone(), c.clone()]);

    multi.lock().unwrap();
    delete_node(&hold_of(&b));
    let error = multi.unlock().unwrap_err();
    println!("one lost: {error}");
    assert!(error.is_lost() && !error.is_retryable(), "{error:?}");
    let seen = failures::<()>(Err(error));
    assert!(
        seen.len() == 1 && is_lost(&seen[0], b.path(), LossReason::NodeDeleted),
        "{seen:?}"
    );
    assert_eq!(nodes(&multi), [0, 0, 0]);

    let locked = multi.acquire().expect("it can be used again");
    delete_node(&hold_of(&a));
    delete_node(&hold_of(&c));
    let seen = failures(locked.release());
    println!("two lost: {seen:?}");
    let [first, second] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert!(
        is_lost(first, c.path(), LossReason::NodeDeleted),
        "{seen:?}"
    );
    assert!(
        is_lost(second, a.path(), LossReason::NodeDeleted),
        "{seen:?}"
    );
    assert_eq!(nodes(&multi), [0, 0, 0]);

    let seen = failures(multi.unlock());
    println!("not held: {seen:?}");
    let not_held = |error: &Error| matches!(error, Error::NotHeld { .. });
    assert!(seen.len() == 3 && seen.iter().all(not_held), "{seen:?}");
    assert!(multi.try_lock().unwrap());
    b.unlock().unwrap();
    assert!(!multi.is_held() && multi.holds().len() == 2);
    assert_eq!(failures(multi.unlock()).len(), 1);
    assert_eq!(nodes(&multi), [0, 0, 0]);
}

#[test]
fn a_member_lost_while_waiting_for_the_others_fails_the_call() {
    let ours = client_of(
        &zoolock_test_support::connect_string(),
        Duration::from_secs(6),
    );
    let rivals = client();
    let root = fresh_path("multi-lost");
    let [a, b, c, d] = members(&ours, &root, ["a", "b", "c", "d"]);
    let multi = multi_of(&[a.clone(), b.clone(), c.clone(), d]);
    let [rival] = members(&rivals, &root, ["d"]);
    let wait_and_lose = |victims: &[&DistributedLock]| {
        rival.lock().unwrap();
        let waiting = multi.clone();
        let waiter = Task::spawn(move || waiting.lock());
        await_nodes(rival.path(), 2);
        for victim in victims {
            delete_node(&hold_of(*victim));
            wait_until("the loss is noticed", SOON, || !victim.is_held());
        }
        assert!(!waiter.is_done(), "the rival still holds the last one");
        rival.unlock().unwrap();
        let error = waiter.result("a waiter that lost a member").unwrap_err();
        println!("{error}");
        assert_eq!(nodes(&multi), [0, 0, 0, 0]);
        assert!(multi.holds().is_empty(), "{:?}", multi.holds());
        error
    };
    let error = wait_and_lose(&[&b]);
    assert!(
        is_lost(&error, b.path(), LossReason::NodeDeleted),
        "{error:?}"
    );
    let error = wait_and_lose(&[&a, &c]);
    assert!(error.is_lost() && failures::<()>(Err(error)).len() == 2);
    multi.lock().expect("it can be used again");
    multi.unlock().unwrap();
}

#[test]
fn a_client_that_is_closed_ends_the_call() {
    let (ours, rivals) = (client(), client());
    let root = fresh_path("multi-closed");
    let lock = multi(&ours, &root, ["a", "b"]);
    let [rival] = members(&rivals, &root, ["b"]);
    rival.lock().unwrap();
    let waiting = lock.clone();
    let waiter = Task::spawn(move || waiting.lock());
    await_nodes(rival.path(), 2);
    ours.close().unwrap();
    let error = waiter.result("a waiter of a closed client").unwrap_err();
    println!("{error}");
    assert!(error.is_closed(), "{error:?}");
    await_nodes(lock.locks()[0].path(), 0);
    let error = lock.try_lock().unwrap_err();
    assert!(matches!(error, Error::Closed), "{error:?}");
}

#[test]
fn clones_are_taken_once() {
    let client = client();
    let root = fresh_path("multi-clones");
    let [a, b] = members(&client, &root, ["a", "b"]);
    let r = DistributedReentrantLock::new(&client, format!("{root}/r")).unwrap();
    let given: [Box<dyn Lock>; 6] = [
        a.clone().into(),
        r.clone().into(),
        b.clone().into(),
        Box::new(Arc::new(a.clone())),
        Box::new(Box::new(r.clone())),
        b.clone().into(),
    ];
    let multi = MultiLock::new(given).unwrap();
    println!("{}", multi.path());
    assert_eq!(paths(&multi), [a.path(), b.path(), r.path()]);
    multi.lock().unwrap();
    assert_eq!((nodes(&multi), r.hold_count()), (vec![1, 1, 1], 1));
    multi.unlock().unwrap();
    assert!(!a.is_held() && !b.is_held() && r.hold_count() == 0);
}

#[test]
fn members_may_be_of_any_type() {
    let clients = [client(), client()];
    let root = fresh_path("multi-types");
    let at = |name: &str| format!("{root}/{name}");
    let locks = clients.each_ref().map(|client| {
        let given: [Box<dyn Lock>; 5] = [
            DistributedRwLock::new(client, at("e"))
                .unwrap()
                .read_lock()
                .into(),
            DistributedRwLock::new(client, at("d"))
                .unwrap()
                .write_lock()
                .into(),
            EphemeralLock::new(client, at("c")).unwrap().into(),
            DistributedReentrantLock::new(client, at("b"))
                .unwrap()
                .into(),
            lock_at(client, &at("a")).into(),
        ];
        MultiLock::new(given).unwrap()
    });
    assert_eq!(paths(&locks[0]), ["a", "b", "c", "d", "e"].map(at));
    locks[0].lock().unwrap();
    println!("{:?}", locks[0].holds());
    assert_eq!(locks[0].holds().len(), 5);
    assert!(!locks[1].try_lock().unwrap());
    assert!(locks[1].locks()[4].try_lock().unwrap(), "a second reader");
    assert!(!locks[1].is_held());
    locks[1].locks()[4].unlock().unwrap();
    locks[0].unlock().unwrap();
    assert!(locks[1].try_lock_for(SOON).unwrap());
    locks[1].unlock().unwrap();
}

#[test]
fn ids_tell_objects_and_places() {
    let client = client();
    let root = fresh_path("multi-ids");
    let [a, b] = members(&client, &root, ["a", "b"]);
    let other = lock_at(&client, a.path());
    let id = a.id();
    println!("{id:?}");
    assert_eq!(
        [&a.clone().id(), &(&&a).id(), &Arc::new(a.clone()).id()],
        [&id; 3]
    );
    assert_eq!(Box::<dyn Lock>::from(a.clone()).id(), id);
    assert_ne!(other.id(), id);
    assert!(b.id() > id && b.id() > other.id());
    assert_ne!(LockId::new(a.path()), id);
    let script = Script::new([("/x", Does::Well, Does::Well)]);
    assert_eq!(script.multi.locks()[0].id(), LockId::new("/x"));
    assert_ne!(script.multi.id(), LockId::new("/x"));
}

#[test]
fn two_objects_on_one_path_are_refused() {
    let clients = [client(), client()];
    let root = fresh_path("multi-twice");
    let [a, b] = members(&clients[0], &root, ["a", "b"]);
    let own = DistributedReentrantLock::new(&clients[0], a.path()).unwrap();
    let rw = DistributedRwLock::new(&clients[1], a.path()).unwrap();
    let single = EphemeralLock::new(&clients[0], a.path()).unwrap();
    let twins: [Box<dyn Lock>; 6] = [
        lock_at(&clients[0], a.path()).into(),
        lock_at(&clients[1], a.path()).into(),
        own.into(),
        rw.read_lock().into(),
        rw.write_lock().into(),
        single.into(),
    ];
    for twin in twins {
        let reason = refused([a.clone().into(), b.clone().into(), twin, a.clone().into()]);
        assert!(reason.contains(&format!("{:?}", a.path())), "{reason}");
    }

    // The two sides of a read-write lock exclude each other, a side is the same however got.
    let reason = refused([rw.read_lock().into(), rw.write_lock().into()]);
    assert!(reason.contains(&format!("{:?}", rw.path())), "{reason}");
    let readers = [rw.read_lock().into(), rw.read_lock().into()];
    assert_eq!(MultiLock::new(readers).unwrap().locks().len(), 1);

    // Of a user's own locks nothing is known but their paths, not even that one is the other.
    let own: Arc<dyn Lock> = Arc::new(Scripted::new("/x", Does::Well, Does::Well, Arc::default()));
    let reason = refused([Box::new(Arc::clone(&own)) as Box<dyn Lock>, Box::new(own)]);
    assert!(reason.contains("\"/x\""), "{reason}");
}

#[test]
fn one_path_below_different_chroots_is_one_path() {
    let (server, root) = (shared_address(), fresh_path("multi-chroot"));
    let top = client_of(&server.to_string(), Duration::from_secs(10));
    let below = client_of(&format!("{server}{root}"), Duration::from_secs(10));
    let probe = shared_probe().unwrap();
    probe.create_all(&root).unwrap();
    let (outer, inner) = (lock_at(&top, &format!("{root}/a")), lock_at(&below, "/a"));
    let reason = refused([outer.clone().into(), inner.clone().into()]);
    assert!(reason.contains(outer.path()), "{reason}");
    // They do exclude each other.
    outer.lock().unwrap();
    assert!(!inner.try_lock().unwrap());
    outer.unlock().unwrap();

    // Sorted by the whole path, not by what is below the chroot.
    let (high, low) = (lock_at(&top, &format!("{root}/b")), lock_at(&below, "/c"));
    let both = MultiLock::new([low.clone().into(), high.clone().into()]).unwrap();
    println!("{}", both.path());
    assert_eq!(paths(&both), [high.path(), low.path()]);
    both.lock().unwrap();
    both.unlock().unwrap();
    // The same path below different chroots is two.
    let [one, two] = [
        lock_at(&top, "/zoolock-test-a"),
        lock_at(&below, "/zoolock-test-a"),
    ];
    assert_eq!(
        MultiLock::new([one.into(), two.into()])
            .unwrap()
            .locks()
            .len(),
        2
    );
}

#[test]
fn the_same_servers_in_another_order_are_the_same_ensemble() {
    let proxies = [shared_proxy(), shared_proxy()];
    let [first, second] = proxies.each_ref().map(|proxy| proxy.connect_string());
    let path = fresh_path("multi-servers");
    let connect = |hosts: &str| client_of(hosts, Duration::from_secs(10));
    let one = lock_at(&connect(&format!("{first},{second}")), &path);
    let other = lock_at(&connect(&format!("{second}, {first} ,{second}/")), &path);
    let fewer = lock_at(&connect(&first), &path);
    println!("{:?}\n{:?}\n{:?}", one.id(), other.id(), fewer.id());
    refused([one.clone().into(), other.into()]);
    assert!(
        MultiLock::new([one.into(), fewer.into()]).is_ok(),
        "another list"
    );
}

#[test]
fn an_empty_one_and_a_nested_one_are_refused() {
    assert_eq!(refused([]), "it is empty");
    let client = client();
    let root = fresh_path("multi-nested");
    let inner = multi(&client, &root, ["b", "c"]);
    let [a] = members(&client, &root, ["a"]);
    for nested in [
        inner.clone().into(),
        Box::new(Arc::new(inner.clone())) as Box<dyn Lock>,
    ] {
        let reason = refused([a.clone().into(), nested]);
        assert!(
            reason.contains(inner.path()) && reason.contains("its members"),
            "{reason}"
        );
    }
    refused([inner.clone().into(), inner.into()]);
}

#[test]
fn one_of_reentrant_locks_can_be_nested() {
    let client = client();
    let root = fresh_path("multi-reentrant");
    let [a, b] = ["a", "b"].map(|name| {
        let path = format!("{root}/{name}");
        DistributedReentrantLock::new(&client, path).unwrap()
    });
    let multi = MultiLock::new([b.clone().into(), a.clone().into()]).unwrap();
    let outer = multi.acquire().unwrap();
    let inner = multi.try_acquire().unwrap().expect("the same thread");
    assert_eq!([a.hold_count(), b.hold_count()], [2, 2]);
    let (elsewhere, other) = (multi.clone(), multi.clone());
    let refused = Task::spawn(move || elsewhere.try_lock()).result("another thread");
    assert!(!refused.unwrap());
    let seen = failures(Task::spawn(move || other.unlock()).result("another thread's unlock"));
    println!("another thread's unlock: {seen:?}");
    let not_owner = |error: &Error| matches!(error, Error::NotOwner { .. });
    assert!(seen.len() == 2 && seen.iter().all(not_owner), "{seen:?}");
    inner.release().unwrap();
    assert!(multi.is_held());
    outer.release().unwrap();
    assert_eq!(nodes(&multi), [0, 0]);

    // A lost nest says so to every unlock, and refuses to be entered again.
    let (outer, inner) = (multi.acquire().unwrap(), multi.acquire().unwrap());
    delete_node(&hold_of(&b));
    wait_until("the loss is noticed", SOON, || !multi.is_held());
    let again = multi.lock();
    println!("entered again: {again:?}");
    assert!(again.is_err_and(|error| is_lost(&error, b.path(), LossReason::NodeDeleted)));
    assert_eq!([a.hold_count(), b.hold_count()], [2, 2], "as before");
    for locker in [inner, outer] {
        let seen = failures(locker.release());
        assert!(seen.len() == 1 && seen[0].is_lost(), "{seen:?}");
    }
    assert!(multi.try_lock().unwrap(), "it can be used again");
    multi.unlock().unwrap();
}

#[test]
fn a_dropped_locker_releases_all() {
    let client = client();
    let root = fresh_path("multi-dropped");
    let multi = multi(&client, &root, ["a", "b", "c"]);
    warnings(&root);
    {
        let _locked = multi.acquire().unwrap();
        assert_eq!(nodes(&multi), [1, 1, 1]);
    }
    assert_eq!(nodes(&multi), [0, 0, 0]);
    {
        let any: &dyn Lock = &multi;
        let _locked = any.acquire().unwrap();
        assert!(multi.is_held());
    }
    assert!(!multi.is_held());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _locked = Locker::acquire(&multi).unwrap();
        panic!("while all three are held");
    }));
    assert!(panicked.is_err() && nodes(&multi) == [0, 0, 0]);
    assert_eq!(warnings(&root), [""; 0]);

    let locked = multi.acquire().unwrap();
    delete_node(&multi.holds()[1]);
    drop(locked);
    let logged = warnings(&root);
    println!("{logged:?}");
    assert!(
        logged.iter().any(|line| line.contains("dropped a locker")),
        "{logged:?}"
    );
    assert_eq!(nodes(&multi), [0, 0, 0]);
}

#[test]
fn it_can_go_to_any_thread() {
    fn both<T: Send + Sync + 'static>() {}
    both::<MultiLock>();
    both::<LockId>();
}
