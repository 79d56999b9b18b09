//! `MultiLock`: its members, and what happens to all of them when one fails. `every` has its
//! promises as a lock.

mod scripted;

use std::sync::Arc;
use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, EphemeralLock, Error,
    Hold, Lock, LockId, MultiLock, Result,
};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::{
    SOON, Task, await_nodes, children, client, client_of, delete_node, hold_of, lock_of,
    shared_address, shared_proxy, warnings,
};

/// Creates separate objects at `root/<name>`.
fn members<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> [DistributedLock; N] {
    names.map(|name| lock_of(client, &format!("{root}/{name}")))
}

fn multi_of<const N: usize>(members: &[DistributedLock; N]) -> MultiLock {
    MultiLock::new(members.clone().map(Into::into)).expect("a good list")
}

fn paths(multi: &MultiLock) -> Vec<&str> {
    multi.locks().iter().map(|lock| lock.path()).collect()
}

/// Returns how many nodes there are at each member's path.
fn nodes(multi: &MultiLock) -> Vec<usize> {
    multi.locks().iter().map(|lock| children(lock.path()).len()).collect()
}

/// Returns each failure as a short text, with the path below `root`.
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
    let expected = ["a", "b", "c", "d", "e"].map(at);
    assert_eq!(
        (paths(&multi), multi.path()),
        (expected.each_ref().map(|path| &**path).to_vec(), &*expected.join(", "))
    );
    multi.lock().unwrap();
    assert_eq!(multi.holds().iter().map(Hold::path).collect::<Vec<_>>(), expected);
    assert_eq!(r.hold_count(), 1, "a clone is no second entry");
    assert!(multi.locks().iter().all(|lock| lock.is_held()));
    let shown = format!("{multi:?}");
    println!("{shown}");
    assert!(expected.iter().all(|path| shown.contains(path)) && shown.len() < 1_500, "{shown}");
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
}

#[test]
fn none_nested_ones_and_two_objects_on_one_path_are_refused() {
    let clients = [client(), client()];
    let root = fresh_path("multi-twice");
    let [a, b, c] = members(&clients[0], &root, ["a", "b", "c"]);
    let own = DistributedReentrantLock::new(&clients[0], a.path()).unwrap();
    let rw = DistributedRwLock::new(&clients[1], a.path()).unwrap();
    let single = EphemeralLock::new(&clients[0], a.path()).unwrap();
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
