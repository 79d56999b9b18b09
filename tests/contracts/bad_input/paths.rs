//! Paths that cannot be locks, or look as if they could not.

use zoolock::{DistributedLock, DistributedReentrantLock, Error};
use zoolock_test_support::{Server, fresh_path, shared_probe};

use common::{SESSION, SOON, Task, children, client, client_of};

#[test]
fn paths_that_cannot_be_locks_are_refused_with_a_reason() {
    let client = client();
    let long_part = format!("/a/{}", "x".repeat(256));
    let long_path = "/abc".repeat(1025);
    for path in [
        "",
        "/",
        "a",
        "a/b",
        " /a",
        "/a/",
        "//",
        "//a",
        "/a//b",
        "/.",
        "/a/./b",
        "/a/../b",
        "/a/..",
        "/a\0b",
        "/a\u{1}",
        "/a\n",
        "/a\u{7f}",
        "/a\u{e000}",
        "/a\u{ffff}",
        "/a\u{1f512}",
        "/zookeeper",
        "/zookeeper/quota/a",
        &long_part,
        &long_path,
    ] {
        let before = client.stats().requests;
        let seen = [
            DistributedLock::new(&client, path).map(drop),
            DistributedReentrantLock::new(&client, path).map(drop),
        ];
        for seen in seen {
            let error = seen.expect_err(path);
            println!("{error}");
            let named = matches!(&error, Error::InvalidPath { path: at, reason }
                if at == path && !reason.is_empty());
            assert!(named, "{path:?}: {error:?}");
        }
        assert_eq!(client.stats().requests, before, "{path:?} was asked for");
    }
}

#[test]
fn paths_that_merely_look_odd_are_fine() {
    let client = client();
    let root = fresh_path("odd");
    for part in
        ["zookeeper", "...", ".a", "a b", "ü中", "a,b:c\\d*?", "lock-0000000001", &"x".repeat(255)]
    {
        let path = format!("{root}/{part}");
        let lock = DistributedLock::new(&client, &path).unwrap();
        lock.lock().unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(children(&path), [lock.hold().unwrap().node()]);
        lock.unlock().unwrap();
    }
}

#[test]
fn a_path_below_an_ephemeral_node_is_invalid() {
    let root = fresh_path("ephemeral");
    let probe = shared_probe().unwrap();
    probe.create_all(&root).unwrap();
    probe.create(&format!("{root}/e"), b"", true, false).unwrap();
    let client = client();
    for path in [format!("{root}/e"), format!("{root}/e/a"), format!("{root}/e/a/b/c")] {
        let lock = DistributedLock::new(&client, &path).unwrap();
        for _ in 0..2 {
            let (waiting, trying) = (lock.clone(), lock.clone());
            let calls = [
                Task::spawn(move || waiting.lock()).result("lock()"),
                Task::spawn(move || trying.try_lock().map(drop)).result("try_lock()"),
            ];
            for seen in calls {
                let error = seen.expect_err(&path);
                println!("{error}");
                let named = matches!(&error, Error::InvalidPath { path: at, .. } if *at == path);
                assert!(named, "{path}: {error:?}");
            }
        }
    }
    assert_eq!(common::in_use(&client.stats()), 0);
}

#[test]
fn too_many_bytes_of_paths_are_a_limit_not_a_broken_server() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    let long = format!("/{}", "x".repeat(255)).repeat(15);
    let mut held = Vec::new();
    let seen = loop {
        let path = format!("{long}/{:0255}", held.len());
        let lock = DistributedLock::new(&client, path).unwrap();
        match lock.try_lock() {
            Ok(true) => held.push(lock),
            seen => break seen,
        }
        assert!(held.len() < 1000, "no limit");
    };
    println!("{} locks of {} bytes, then {seen:?}", held.len(), held[0].path().len());
    let is_limit = |seen: &zoolock::Result<bool>| matches!(seen, Err(Error::Limit { .. }));
    assert!(is_limit(&seen), "{seen:?}");
    assert!(held.len() > 64, "{}", held.len());
    // It is said at once, by every call, and passes.
    let path = format!("{long}/{}", "y".repeat(255));
    let one_more = DistributedLock::new(&client, path).unwrap();
    for _ in 0..2 {
        let waiting = one_more.clone();
        let seen = Task::spawn(move || waiting.lock().map(|()| true)).result("lock()");
        assert!(is_limit(&seen), "{seen:?}");
        assert!(is_limit(&one_more.try_lock()), "{seen:?}");
        assert!(is_limit(&one_more.try_lock_for(SOON)), "{seen:?}");
    }
    held.pop().unwrap().unlock().unwrap();
    assert!(one_more.try_lock().unwrap(), "there is room again");
    one_more.unlock().unwrap();
    client.close().unwrap();
    server.restart().unwrap();
    println!("{:?}", client_of(&server.connect_string(), SESSION).state());
}
