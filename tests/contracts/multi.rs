//! `MultiLock`: what may be a member, and what becomes of all when one of them fails. What it promises as
//! a lock is said in `every`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, EphemeralLock, Error,
    Hold, Lock, LockId, MultiLock, Result,
};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::basics::{await_nodes, hold_of};
use common::{
    SOON, Task, Witness, children, client, client_of, delete_node, lock_of, shared_address,
    shared_proxy, warnings,
};

/// Objects of their own at `root/<name>`.
fn members<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> [DistributedLock; N] {
    names.map(|name| lock_of(client, &format!("{root}/{name}")))
}

fn multi_of<const N: usize>(members: &[DistributedLock; N]) -> MultiLock {
    MultiLock::new(members.clone().map(Into::into)).expect("a good list")
}

fn paths(multi: &MultiLock) -> Vec<&str> {
    multi.locks().iter().map(|lock| lock.path()).collect()
}

/// How many nodes there are at each member's path.
fn nodes(multi: &MultiLock) -> Vec<usize> {
    multi.locks().iter().map(|lock| children(lock.path()).len()).collect()
}

/// Each failure in a few words, with the path below `root`.
fn brief(error: &Error, root: &str) -> String {
    let (what, path) = match error {
        Error::Release { failures } => {
            return failures.iter().map(|one| brief(one, root)).collect::<Vec<_>>().join(", ");
        }
        Error::Disconnected { path } => ("disconnected".to_owned(), path),
        Error::Denied { path } => ("denied".to_owned(), path),
        Error::NotHeld { path } => ("not held".to_owned(), path),
        Error::NotOwner { path, .. } => ("not owner".to_owned(), path),
        Error::Lost { path, reason } => (format!("{reason:?}"), path),
        other => panic!("{other:?}"),
    };
    format!("{what} {}", path.strip_prefix(root).expect("below the root"))
}

#[track_caller]
fn fails<T: std::fmt::Debug>(seen: Result<T>, root: &str, with: &str) -> Error {
    let error = seen.expect_err(with);
    println!("{error}");
    assert_eq!(brief(&error, root), with);
    error
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
use Does::{Busy, Fail, Forget, Panic, Well};

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
    fn act(&self, verb: &str, does: Does) -> Result<bool> {
        let (name, path) = (self.path.trim_start_matches('/'), self.path.clone());
        self.calls.lock().unwrap().push(format!("{verb} {name}"));
        match does {
            Well | Forget => Ok(true),
            Busy => Ok(false),
            Panic => panic!("told to panic when asked to {verb} {name}"),
            Fail if verb == "unlock" => Err(Error::Denied { path }),
            Fail => Err(Error::Disconnected { path }),
        }
    }

    fn enter(&self, verb: &str) -> Result<bool> {
        let locked = self.act(verb, self.locking)?;
        self.held.store(locked && self.locking != Forget, Ordering::SeqCst);
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
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let member = |(path, locking, unlocking): (&str, Does, Does)| -> Box<dyn Lock> {
            let (path, held, calls) = (path.to_owned(), AtomicBool::new(false), Arc::clone(&calls));
            Box::new(Scripted { path, locking, unlocking, held, calls })
        };
        let multi = MultiLock::new(members.map(member)).expect("a good list");
        Script { multi, calls }
    }

    /// The calls since the last time.
    fn calls(&self) -> String {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap()).join(", ");
        println!("{calls}");
        calls
    }
}

#[test]
fn failure_on_the_kth_releases_the_others_in_reverse() {
    // What the first and the third do, and all when unlocked.
    for (verb, [first, third], unlocking, expected, calls) in [
        ("lock", [Well, Well], Well, "true", "lock a, lock b, lock c, lock d"),
        (
            "lock",
            [Well, Fail],
            Well,
            "disconnected c",
            "lock a, lock b, lock c, unlock b, unlock a",
        ),
        ("try", [Well, Busy], Well, "false", "try a, try b, try c, unlock b, unlock a"),
        (
            "lock",
            [Well, Fail],
            Fail,
            "disconnected c, denied b, denied a",
            "lock a, lock b, lock c, unlock b, unlock a",
        ),
        (
            "try",
            [Well, Busy],
            Fail,
            "denied b, denied a",
            "try a, try b, try c, unlock b, unlock a",
        ),
        (
            "try",
            [Forget, Well],
            Well,
            "not held a",
            "try a, try b, try c, try d, unlock d, unlock c, unlock b, unlock a",
        ),
    ] {
        let script = Script::new([
            ("/d", Well, unlocking),
            ("/c", third, unlocking),
            ("/b", Well, unlocking),
            ("/a", first, unlocking),
        ]);
        let seen = match verb {
            "lock" => script.multi.lock().map(|()| true),
            _ => script.multi.try_lock(),
        };
        println!("{seen:?}");
        let is_retryable = seen.as_ref().is_err_and(Error::is_retryable);
        assert_eq!(is_retryable, expected.starts_with("disconnected"), "{seen:?}");
        assert!(!seen.as_ref().is_err_and(Error::is_lost), "{seen:?}");
        let told = seen.map_or_else(|error| brief(&error, "/"), |locked| locked.to_string());
        assert_eq!((told.as_str(), script.calls().as_str()), (expected, calls));
        if expected == "true" {
            script.multi.unlock().unwrap();
            assert_eq!(script.calls(), "unlock d, unlock c, unlock b, unlock a");
        }
        assert!(script.multi.locks().iter().all(|lock| !lock.is_held()));
    }
}

#[test]
fn one_deadline_covers_all_members() {
    let script = Script::new([("/a", Well, Well), ("/b", Well, Well), ("/c", Well, Well)]);
    let deadline = Instant::now() + SOON;
    assert!(script.multi.try_lock_until(deadline).unwrap());
    let expected = ["a", "b", "c"].map(|name| format!("until {deadline:?} {name}"));
    assert_eq!(script.calls(), expected.join(", "));
    script.multi.unlock().unwrap();
    script.calls();
    assert!(script.multi.try_lock_for(SOON).unwrap());
    let calls = script.calls();
    let first = calls.split_once(" a, ").unwrap().0;
    assert!(first.starts_with("until "), "{calls}");
    assert_eq!(calls, ["a", "b", "c"].map(|name| format!("{first} {name}")).join(", "));
}

#[test]
fn a_panic_of_one_member_leaves_none_locked() {
    let panics = |call: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
        let said = panic.downcast_ref::<String>().cloned();
        println!("panicked: {said:?}");
        said.expect("a text")
    };
    let script = Script::new([("/a", Well, Well), ("/b", Well, Panic), ("/c", Panic, Well)]);
    let said = panics(&|| drop(script.multi.lock()));
    assert!(said.contains("lock c"), "{said}");
    assert_eq!(script.calls(), "lock a, lock b, lock c, unlock b, unlock a");

    let first = format!("/multi-panic-{}", std::process::id());
    warnings(&first);
    let script = Script::new([(&first, Well, Fail), ("/u", Well, Panic), ("/v", Well, Panic)]);
    script.multi.lock().unwrap();
    script.calls();
    let said = panics(&|| drop(script.multi.unlock()));
    assert!(said.contains("unlock v"), "the first one: {said}");
    assert_eq!(script.calls(), format!("unlock v, unlock u, unlock {}", &first[1..]));
    let logged = warnings(&first);
    assert_eq!(logged.len(), 1, "{logged:?}");
}

#[test]
fn every_member_is_visited_and_all_failures_reported() {
    let (client, root) = (client(), fresh_path("multi-failures"));
    warnings(&root);
    let [a, b, c] = members(&client, &root, ["a", "b", "c"]);
    let multi = multi_of(&[a.clone(), b.clone(), c.clone()]);
    for (victims, failures) in
        [(vec![&b], "NodeDeleted /b"), (vec![&a, &c], "NodeDeleted /c, NodeDeleted /a")]
    {
        let locked = multi.acquire().expect("it can be used again");
        victims.iter().for_each(|victim| delete_node(&hold_of(*victim)));
        let error = fails(locked.release(), &root, failures);
        assert!(error.is_lost() && !error.is_retryable(), "{error:?}");
        assert_eq!(nodes(&multi), [0, 0, 0]);
    }
    fails(multi.unlock(), &root, "not held /c, not held /b, not held /a");
    assert!(multi.try_lock().unwrap());
    b.unlock().unwrap();
    assert!(!multi.is_held() && multi.holds().len() == 2);
    fails(multi.unlock(), &root, "not held /b");
    assert_eq!(nodes(&multi), [0, 0, 0]);

    warnings(&root);
    let locked = multi.acquire().unwrap();
    delete_node(&multi.holds()[1]);
    drop(locked);
    let logged = warnings(&root);
    assert!(logged.iter().any(|line| line.contains("dropped a locker")), "{logged:?}");
    assert_eq!(nodes(&multi), [0, 0, 0]);
}

#[test]
fn a_member_lost_while_waiting_for_the_others_fails_the_call() {
    // Short, as nodes are watched from the first quarter of it on.
    let ours = client_of(&connect_string(), Duration::from_secs(6));
    let (rivals, root) = (client(), fresh_path("multi-lost"));
    let [a, b, c, d] = members(&ours, &root, ["a", "b", "c", "d"]);
    let multi = multi_of(&[a.clone(), b.clone(), c.clone(), d]);
    let [rival] = members(&rivals, &root, ["d"]);
    for (victims, failures) in
        [(vec![&b], "NodeDeleted /b"), (vec![&a, &c], "NodeDeleted /c, NodeDeleted /a")]
    {
        rival.lock().unwrap();
        let waiting = multi.clone();
        let waiter = Task::spawn(move || waiting.lock());
        await_nodes(rival.path(), 2);
        for victim in &victims {
            delete_node(&hold_of(*victim));
            wait_until("the loss is noticed", SOON, || !victim.is_held());
        }
        assert!(!waiter.is_done(), "the rival still holds the last one");
        rival.unlock().unwrap();
        let error = waiter.result("a waiter that lost a member").unwrap_err();
        let mut seen: Vec<_> = brief(&error, &root).split(", ").map(str::to_owned).collect();
        println!("{error}: {seen:?}");
        seen.sort_by(|one, other| other.cmp(one));
        assert_eq!(seen.join(", "), failures);
        assert_eq!((nodes(&multi), multi.holds().len()), (vec![0; 4], 0));
    }
    multi.lock().expect("it can be used again");
    multi.unlock().unwrap();
}

#[test]
fn one_of_reentrant_locks_can_be_nested() {
    let (client, root) = (client(), fresh_path("multi-reentrant"));
    let at = |name| DistributedReentrantLock::new(&client, format!("{root}/{name}")).unwrap();
    let [a, b] = ["a", "b"].map(at);
    let multi = MultiLock::new([b.clone().into(), a.clone().into()]).unwrap();
    let enter_twice = || {
        let entered = [multi.acquire().unwrap(), multi.try_acquire().unwrap().expect("in")];
        assert_eq!([a.hold_count(), b.hold_count()], [2, 2]);
        entered
    };
    let [outer, inner] = enter_twice();
    let elsewhere = multi.clone();
    let elsewhere = Task::spawn(move || (elsewhere.try_lock(), elsewhere.unlock()));
    let (tried, unlocked) = elsewhere.result("another thread");
    assert!(!tried.unwrap());
    fails(unlocked, &root, "not owner /b, not owner /a");
    inner.release().unwrap();
    assert!(multi.is_held());
    outer.release().unwrap();
    assert_eq!(nodes(&multi), [0, 0]);

    // A lost nest says so to every unlock, and refuses to be entered again.
    let [outer, inner] = enter_twice();
    delete_node(&hold_of(&b));
    wait_until("the loss is noticed", SOON, || !multi.is_held());
    fails(multi.lock(), &root, "NodeDeleted /b");
    assert_eq!([a.hold_count(), b.hold_count()], [2, 2], "as before");
    for locker in [inner, outer] {
        fails(locker.release(), &root, "NodeDeleted /b");
    }
    assert!(multi.try_lock().unwrap(), "it can be used again");
    multi.unlock().unwrap();
}

/// Every thread wants two of three locks, given in an order of its own: A,B against B,A, and all
/// around the circle.
#[test]
fn opposite_orders_do_not_deadlock() {
    const ROUNDS: u32 = 40;
    let root = fresh_path("multi-orders");
    let witnesses = Arc::new([(); 3].map(|()| Witness::default()));
    let clients = [client(), client()];
    let wants = [[0, 1], [1, 0], [1, 2], [2, 0]];
    let visitors = wants.iter().enumerate().map(|(number, &wanted)| {
        let lock = members(&clients[number % 2], &root, wanted.map(|at| ["a", "b", "c"][at]));
        let (lock, witnesses) = (multi_of(&lock), Arc::clone(&witnesses));
        Task::spawn(move || {
            for _ in 0..ROUNDS {
                lock.lock().unwrap();
                let [first, second] = wanted.map(|at| &witnesses[at]);
                first.visit(|| second.visit(thread::yield_now));
                lock.unlock().unwrap();
            }
        })
    });
    for visitor in visitors.collect::<Vec<_>>() {
        visitor.result("one of four who want two of three locks");
    }
    println!("{witnesses:?}");
    for (witness, visits) in witnesses.iter().zip([3, 3, 2]) {
        witness.saw(visits * ROUNDS);
    }
}

#[test]
fn members_may_be_of_any_type_and_clones_are_taken_once_in_the_order_of_their_paths() {
    let clients = [client(), client()];
    let root = fresh_path("multi-types");
    let at = |name: &str| format!("{root}/{name}");
    let [(r, multi), (_, other)] = clients.each_ref().map(|client| {
        let a = lock_of(client, &at("a"));
        let r = DistributedReentrantLock::new(client, at("b")).unwrap();
        let given: [Box<dyn Lock>; 8] = [
            a.clone().into(),
            DistributedRwLock::new(client, at("e")).unwrap().read_lock().into(),
            r.clone().into(),
            DistributedRwLock::new(client, at("d")).unwrap().write_lock().into(),
            EphemeralLock::new(client, at("c")).unwrap().into(),
            Box::new(Arc::new(a.clone())),
            Box::new(Box::new(r.clone())),
            a.into(),
        ];
        (r, MultiLock::new(given).unwrap())
    });
    println!("{multi:?}");
    let expected = ["a", "b", "c", "d", "e"].map(at);
    assert_eq!(
        (paths(&multi), multi.path()),
        (expected.each_ref().map(|path| &**path).to_vec(), &*expected.join(", "))
    );
    multi.lock().unwrap();
    assert_eq!(multi.holds().iter().map(Hold::path).collect::<Vec<_>>(), expected);
    assert_eq!(r.hold_count(), 1, "a clone is no second entry");
    assert!(multi.locks().iter().all(|lock| lock.is_held()));
    assert!(!other.try_lock().unwrap());
    assert!(other.locks()[4].try_lock().unwrap(), "a second reader");
    assert!(!other.is_held());
    other.locks()[4].unlock().unwrap();
    multi.unlock().unwrap();
    assert!(multi.locks().iter().all(|lock| !lock.is_held()) && r.hold_count() == 0);
    assert!(other.try_lock_for(SOON).unwrap());
    other.unlock().unwrap();
}

#[track_caller]
fn refused(locks: impl IntoIterator<Item = Box<dyn Lock>>) -> String {
    let error = MultiLock::new(locks).expect_err("refused");
    println!("{error}");
    match error {
        Error::InvalidArgument { what: "list of locks", reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ids_tell_objects_and_places() {
    let (client, root) = (client(), fresh_path("multi-ids"));
    let [a, b] = members(&client, &root, ["a", "b"]);
    let (id, other) = (a.id(), lock_of(&client, a.path()));
    println!("{id:?}");
    assert_eq!([&a.clone().id(), &(&&a).id(), &Arc::new(a.clone()).id()], [&id; 3]);
    assert_eq!(Box::<dyn Lock>::from(a.clone()).id(), id);
    assert_ne!(other.id(), id);
    assert!(b.id() > id && b.id() > other.id());
    assert_ne!(LockId::new(a.path()), id);
    let script = Script::new([("/x", Well, Well)]);
    assert_eq!(script.multi.locks()[0].id(), LockId::new("/x"));
    assert_ne!(script.multi.id(), LockId::new("/x"));
}

#[test]
fn none_nested_ones_and_two_objects_on_one_path_are_refused() {
    let clients = [client(), client()];
    let root = fresh_path("multi-twice");
    let [a, b, c] = members(&clients[0], &root, ["a", "b", "c"]);
    let own = DistributedReentrantLock::new(&clients[0], a.path()).unwrap();
    let rw = DistributedRwLock::new(&clients[1], a.path()).unwrap();
    let single = EphemeralLock::new(&clients[0], a.path()).unwrap();
    // Of a user's own locks nothing is known but their paths, not even that one is the other.
    let script: Arc<dyn Lock> = Arc::new(Scripted {
        path: "/x".to_owned(),
        locking: Well,
        unlocking: Well,
        held: AtomicBool::new(false),
        calls: Arc::default(),
    });
    let twins: [Box<dyn Lock>; 6] = [
        lock_of(&clients[0], a.path()).into(),
        lock_of(&clients[1], a.path()).into(),
        own.into(),
        rw.read_lock().into(),
        rw.write_lock().into(),
        single.into(),
    ];
    let names = |path: &str, reason: String| {
        assert!(reason.contains(&format!("{path:?}")), "{reason}");
    };
    for twin in twins {
        names(a.path(), refused([a.clone().into(), b.clone().into(), twin, a.clone().into()]));
    }
    names("/x", refused([Box::new(Arc::clone(&script)) as Box<dyn Lock>, Box::new(script)]));
    // The two sides of a read-write lock exclude each other, a side is the same however got.
    names(rw.path(), refused([rw.read_lock().into(), rw.write_lock().into()]));
    let readers = [rw.read_lock().into(), rw.read_lock().into()];
    assert_eq!(MultiLock::new(readers).unwrap().locks().len(), 1);

    assert_eq!(refused([]), "it is empty");
    let inner = multi_of(&[b, c]);
    for nested in [inner.clone().into(), Box::new(Arc::new(inner.clone())) as Box<dyn Lock>] {
        let reason = refused([a.clone().into(), nested]);
        assert!(reason.contains(inner.path()) && reason.contains("its members"), "{reason}");
    }
    refused([inner.clone().into(), inner.into()]);
}

#[test]
fn a_path_is_the_whole_path_on_the_same_servers_below_whatever_chroot_and_in_whatever_order() {
    let (server, root) = (shared_address(), fresh_path("multi-chroot"));
    let connect = |hosts: &str| client_of(hosts, SOON);
    let (top, below) = (connect(&server.to_string()), connect(&format!("{server}{root}")));
    shared_probe().unwrap().create_all(&root).unwrap();
    let (outer, inner) = (lock_of(&top, &format!("{root}/a")), lock_of(&below, "/a"));
    let reason = refused([outer.clone().into(), inner.clone().into()]);
    assert!(reason.contains(outer.path()), "{reason}");
    // Sorted by the whole path, not by what is below the chroot.
    let (high, low) = (lock_of(&top, &format!("{root}/b")), lock_of(&below, "/c"));
    let both = MultiLock::new([low.clone().into(), high.clone().into()]).unwrap();
    assert_eq!(paths(&both), [high.path(), low.path()]);
    // The same path below different chroots is two.
    let two = [&top, &below].map(|client| lock_of(client, "/zoolock-test-a").into());
    assert_eq!(MultiLock::new(two).unwrap().locks().len(), 2);

    let proxies = [shared_proxy(), shared_proxy()];
    let [first, second] = proxies.each_ref().map(|proxy| proxy.connect_string());
    let at = |hosts: &str| lock_of(&connect(hosts), &root);
    let one = at(&format!("{first},{second}"));
    let (other, fewer) = (at(&format!("{second}, {first} ,{second}/")), at(&first));
    println!("{:?}\n{:?}\n{:?}", one.id(), other.id(), fewer.id());
    refused([one.clone().into(), other.into()]);
    assert!(MultiLock::new([one.into(), fewer.into()]).is_ok(), "another list");
}
