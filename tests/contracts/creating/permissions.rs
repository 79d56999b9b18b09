//! ACLs: of what is made, and of where it is made.

use std::io::ErrorKind;
use std::time::Instant;

use zoolock::{Acl, Client, Error, Permissions};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::{SESSION, SOON, Task, await_nothing_left, children, client, lock_of, owner};

#[test]
fn an_ancestor_that_lets_nobody_create_is_no_obstacle() {
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    // May be listed by everybody, or not even that.
    for others in [&[(31, "auth", ""), (1, "world", "anyone")][..], &[(31, "auth", "")]] {
        let root = fresh_path("restricted");
        boss.create_all(&root).unwrap();
        let closed = format!("{root}/closed");
        boss.create_with_acl(&closed, b"", others).unwrap();
        boss.create(&format!("{closed}/open"), b"", false, false).unwrap();
        let client = client();
        for path in [format!("{closed}/open"), format!("{closed}/open/a/b/c")] {
            let lock = lock_of(&client, &path);
            lock.lock().unwrap();
            assert_eq!(children(&path).last(), Some(&lock.hold().unwrap().node()));
            lock.unlock().unwrap();
            assert!(lock.try_lock().unwrap());
            lock.unlock().unwrap();
        }
        // Where something has to be made in it, that is said.
        for path in [closed.clone(), format!("{closed}/new"), format!("{closed}/new/a/b")] {
            is_denied(&client, &path);
        }
    }
}

/// Every way of locking says so, in bounded time, and the object can be used again.
fn is_denied(client: &Client, path: &str) {
    let lock = lock_of(client, path);
    let begun = Instant::now();
    for round in 0..2 {
        let (waiting, trying, trying_for) = (lock.clone(), lock.clone(), lock.clone());
        let calls = [
            ("lock()", Task::spawn(move || waiting.lock().map(|()| true))),
            ("try_lock()", Task::spawn(move || trying.try_lock())),
            ("try_lock_for()", Task::spawn(move || trying_for.try_lock_for(SOON))),
        ];
        for (what, call) in calls {
            let seen = call.result(what);
            // The three share an object: a try_lock may find it in use by another of them.
            let busy = what == "try_lock()" && matches!(seen, Ok(false));
            let denied = matches!(&seen, Err(Error::Denied { path: at }) if at.contains(path));
            assert!(denied || busy, "{what} of {path} in round {round}: {seen:?}");
        }
    }
    println!("{path}: denied in {:?}", begun.elapsed());
    await_nothing_left(client);
}

#[test]
fn only_the_owners_credentials_count_under_a_creator_acl() {
    let root = fresh_path("digest");
    shared_probe().unwrap().create_all(&root).unwrap();
    let path = format!("{root}/lock");
    let (first, second) = (owner(), owner());
    let lock = lock_of(&first, &path);
    lock.lock().unwrap();
    let node = format!("{path}/{}", lock.hold().unwrap().node());

    let stranger = shared_probe().unwrap();
    let seen = stranger.delete(&node).map_err(|error| error.kind());
    assert_eq!(seen, Err(ErrorKind::PermissionDenied));
    let seen = stranger.get(&node).map_err(|error| error.kind());
    assert_eq!(seen, Err(ErrorKind::PermissionDenied));
    is_denied(&client(), &path);

    let next = lock_of(&second, &path);
    assert!(!next.try_lock().unwrap(), "the same credentials may take part");
    let waiting = {
        let next = next.clone();
        Task::spawn(move || next.lock())
    };
    wait_until("both are queued", SOON, || common::in_use(&second.stats()) == 1);
    assert!(lock.is_held(), "{:?}", lock.hold());
    lock.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    next.unlock().unwrap();
}

#[test]
fn nodes_and_directories_get_the_clients_acl() {
    let root = fresh_path("acl");
    shared_probe().unwrap().create_all(&root).unwrap();
    let path = format!("{root}/a/b");
    let client = Client::builder(&connect_string())
        .session_timeout(SESSION)
        .auth("digest", "owner:secret")
        .acl(Acl::creator().and("world", "anyone", Permissions::READ))
        .connect()
        .unwrap();
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let node = format!("{path}/{}", lock.hold().unwrap().node());
    let probe = shared_probe().unwrap();
    for place in [format!("{root}/a"), path.clone(), node] {
        assert!(probe.get(&place).unwrap().is_some(), "everybody may read {place}");
        let written = probe.set(&place, b"x").map_err(|error| error.kind());
        assert_eq!(written.map(drop), Err(ErrorKind::PermissionDenied), "{place}");
    }
    lock.unlock().unwrap();
}
