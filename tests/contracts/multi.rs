//! `MultiLock`: which members it can have, and what happens to all members if one fails. `every` tests it as a lock.

mod scripted;

use std::sync::Arc;
use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, EphemeralLock, Error,
    Hold, Lock, MultiGuard, MultiLock, Result,
};

use common::*;

/// Creates locks at `root/<name>`.
fn members<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> [DistributedLock; N] {
    names.map(|name| lock_of(client, &format!("{root}/{name}")))
}

fn multi_of<const N: usize>(members: &[DistributedLock; N]) -> MultiLock {
    MultiLock::new(members.clone().map(Into::into)).expect("a good list")
}

fn paths(multi: &MultiLock) -> Vec<&str> {
    multi.locks().iter().map(|lock| lock.path()).collect()
}

/// Returns the number of nodes at all members' paths.
fn nodes(multi: &MultiLock) -> usize {
    multi.locks().iter().map(|lock| children(lock.path()).len()).sum()
}

/// Describes each failure in a few words, with the path relative to `root`.
fn brief(error: &Error, root: &str) -> String {
    let (what, path) = match error {
        Error::Multiple { failures, .. } => {
            return failures.iter().map(|one| brief(one, root)).collect::<Vec<_>>().join(", ");
        }
        Error::Disconnected { path, .. } => ("disconnected".to_owned(), path),
        Error::PermissionDenied { path, .. } => ("denied".to_owned(), path),
        Error::NotHeld { path, .. } => ("not held".to_owned(), path),
        Error::Lost { path, reason, .. } => (format!("{reason:?}"), path),
        other => panic!("{other:?}"),
    };
    format!("{what} {}", path.strip_prefix(root).expect("below the root"))
}

#[track_caller]
fn fails(unlock: Result<()>, root: &str, with: &str) -> Error {
    let error = unlock.expect_err(with);
    println!("{error}");
    assert_eq!(brief(&error, root), with);
    error
}

#[test]
fn unlock_visits_every_member_and_reports_all_failures() {
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
        assert_eq!(nodes(&multi), 0);
    }
    fails(multi.unlock(), &root, "not held /c, not held /b, not held /a");
    assert!(multi.try_lock().unwrap());
    b.unlock().unwrap();
    assert!(!multi.is_held() && multi.holds().len() == 2);
    fails(multi.unlock(), &root, "not held /b");
    assert_eq!(nodes(&multi), 0);

    warnings(&root);
    let locked = multi.acquire().unwrap();
    delete_node(&multi.holds()[1]);
    drop(locked);
    let logged = warnings(&root);
    assert!(
        logged.iter().any(|line| line.contains("failed to release a dropped guard")),
        "{logged:?}"
    );
    assert_eq!(nodes(&multi), 0);
}

#[test]
fn guard_of_several_locks_is_owned_and_guards_writes_by_all_of_them() {
    let (ours, others, root) = (client(), client(), fresh_path("multi-guard"));
    let [a, b] = members(&ours, &root, ["a", "b"]);
    let multi = multi_of(&[b.clone(), a.clone()]);
    let locked: MultiGuard = multi.acquire().unwrap();
    // A `MultiGuard` can be moved to another thread and back.
    let locked = Task::spawn(move || locked).result("another thread");
    assert!(locked.is_held() && locked.holds().len() == 2);
    let data = format!("{root}/data");
    locked.transaction().unwrap().create(&data, "1").commit().unwrap();
    delete_node(&hold_of(&b));
    let late = locked.transaction().unwrap().set(&data, "2", None).commit();
    assert!(late.is_err_and(|error| error.is_lost()));
    assert!(locked.release().is_err_and(|error| error.is_lost()));

    let locked = multi.try_acquire().unwrap().unwrap();
    multi.unlock().unwrap();
    assert!(matches!(locked.transaction(), Err(Error::NotHeld { .. })));
    assert!(!locked.is_held() && locked.release().is_err());

    let rival = lock_of(&others, b.path()).acquire().unwrap();
    let busy = [multi.try_acquire(), multi.acquire_within(Duration::from_millis(100))];
    for busy in busy.map(|taken| taken.unwrap().unwrap_err()) {
        println!("{busy}");
        assert_eq!((busy.index, &*busy.path), (1, b.path()));
        assert_eq!(multi.locks()[busy.index].path(), busy.path);
    }
    assert!(!multi.is_held());
    rival.release().unwrap();
    drop(multi.acquire_within(SOON).unwrap().unwrap());
    assert_eq!(nodes(&multi), 0);
}

#[test]
fn multi_lock_takes_members_of_any_type_once_in_path_order() {
    let clients = [client(), client()];
    let root = fresh_path("multi-types");
    let at = |name: &str| format!("{root}/{name}");
    let [(r, multi), (_, other)] = clients.each_ref().map(|client| {
        let a = lock_of(client, &at("a"));
        let r = DistributedReentrantLock::new(client, at("b")).unwrap();
        let given: [Box<dyn Lock>; 8] = [
            a.clone().into(),
            DistributedRwLock::new(client, at("e")).unwrap().reader().into(),
            r.clone().into(),
            DistributedRwLock::new(client, at("d")).unwrap().writer().into(),
            EphemeralLock::new(client, at("c")).unwrap().into(),
            Box::new(Arc::new(a.clone())),
            Box::new(Box::new(r.clone())),
            a.into(),
        ];
        (r, MultiLock::new(given).unwrap())
    });
    let expected = ["a", "b", "c", "d", "e"].map(at);
    assert_eq!(paths(&multi), expected);
    assert_eq!(multi.path(), expected.join(", "));
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
    assert!(other.lock_within(SOON.into()).unwrap());
    other.unlock().unwrap();
}

#[track_caller]
fn refused(locks: impl IntoIterator<Item = Box<dyn Lock>>) -> String {
    let error = MultiLock::new(locks).expect_err("refused");
    println!("{error}");
    match error {
        Error::InvalidArgument { what: "list of locks", reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn multi_lock_refuses_empty_nested_and_duplicate_members() {
    let clients = [client(), client()];
    let root = fresh_path("multi-twice");
    let [a, b, c] = members(&clients[0], &root, ["a", "b", "c"]);
    let rw = DistributedRwLock::new(&clients[1], a.path()).unwrap();
    let twins: [Box<dyn Lock>; 6] = [
        lock_of(&clients[0], a.path()).into(),
        lock_of(&clients[1], a.path()).into(),
        DistributedReentrantLock::new(&clients[0], a.path()).unwrap().into(),
        rw.reader().into(),
        rw.writer().into(),
        EphemeralLock::new(&clients[0], a.path()).unwrap().into(),
    ];
    let named = format!("{:?}", a.path());
    for twin in twins {
        let reason = refused([a.clone().into(), b.clone().into(), twin, a.clone().into()]);
        assert!(reason.contains(&named), "{reason}");
    }
    // The two sides of a read-write lock exclude each other. All handles to one side count as the same lock.
    assert!(refused([rw.reader().into(), rw.writer().into()]).contains(&named));
    let readers = [rw.reader().into(), rw.reader().into()];
    assert_eq!(MultiLock::new(readers).unwrap().locks().len(), 1);

    assert_eq!(refused([]), "it is empty");
    let inner = multi_of(&[b, c]);
    for nested in [inner.clone().into(), Box::new(Arc::new(inner.clone())) as Box<dyn Lock>] {
        let reason = refused([a.clone().into(), nested]);
        assert!(reason.contains(inner.path()) && reason.contains("its members"), "{reason}");
    }
}

#[test]
fn full_path_below_the_chroot_identifies_a_member() {
    let (server, root) = (shared_address(), fresh_path("multi-chroot"));
    let connect = |hosts: &str| client_of(hosts, SOON);
    let (top, below) = (connect(&server.to_string()), connect(&format!("{server}{root}")));
    shared_probe().unwrap().create_all(&root).unwrap();
    let (outer, inner) = (lock_of(&top, &format!("{root}/a")), lock_of(&below, "/a"));
    let reason = refused([outer.clone().into(), inner.clone().into()]);
    assert!(reason.contains(outer.path()), "{reason}");
    // Members are sorted by their full paths, which include the chroots.
    let (high, low) = (lock_of(&top, &format!("{root}/b")), lock_of(&below, "/c"));
    let both = MultiLock::new([low.clone().into(), high.clone().into()]).unwrap();
    assert_eq!(paths(&both), [high.path(), low.path()]);
    // The same path below two chroots refers to two locks.
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
