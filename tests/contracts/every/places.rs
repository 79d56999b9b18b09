//! The paths that locks can have: their parents, other nodes nearby, and permissions.

use std::io::ErrorKind;

use zoolock::{Client, DistributedLock, Error, LockOptions, Result};

use super::{client, each_type};
use common::*;

/// Two rivals of different clients acquire the lock, the second one after waiting for the first.
#[track_caller]
fn take_turns(subject: Subject, clients: [&Client; 2], path: &str, full: &str) {
    let (object, next) = (subject.rival(clients[0], path), subject.at(clients[1], path));
    assert!(object.try_lock().unwrap(), "{}", subject.name);
    assert_eq!(subject.holding(full).len(), subject.nodes_of_one(), "{}", subject.name);
    assert!(object.hold().path().starts_with(path));
    assert!(!next.try_lock().unwrap());
    let waiting = Task::spawn(visit(next));
    subject.await_waiting(full, &[clients[1]], 1);
    object.unlock().unwrap();
    waiting.result("the one that waits").unwrap();
}

#[test]
fn client_creates_its_chroot_and_all_nodes_below_it() {
    every_subject(|subject| {
        let chroot = fresh_path("chroot") + "/made/by/us";
        let hosts = format!("{}{chroot}", connect_string());
        let clients = [client_of(&hosts, SESSION), client_of(&hosts, SESSION)];
        for path in ["/lock", "/a/lock"] {
            let full = format!("{chroot}{path}");
            take_turns(subject, [&clients[0], &clients[1]], path, &full);
        }
        let at_the_root = format!("/{}", fresh_path("root").replace('/', "_"));
        take_turns(subject, [&client(), &client()], &at_the_root, &at_the_root);
    });
}

/// Servers check the permission to create before they check whether the node exists.
#[test]
fn directories_above_the_chroot_need_no_permission() {
    let (root, probe) = (fresh_path("closed-above"), shared_probe().unwrap());
    probe.create_all(&root).unwrap();
    let closed = format!("{root}/closed");
    let acl = [(31, "auth", ""), (1, "world", "anyone")];
    probe.add_auth("digest", b"boss:secret").unwrap();
    probe.create_with_acl(&closed, b"", &acl).unwrap();
    probe.create_all(&format!("{closed}/open")).unwrap();
    let client = client_of(&format!("{}{closed}/open/chroot", connect_string()), SESSION);
    let guard = lock_of(&client, "/lock").acquire().unwrap();
    assert_eq!(probe.children(&format!("{closed}/open/chroot")).unwrap(), ["lock"]);
    guard.release().unwrap();
    let client = client_of(&format!("{}{closed}/missing", connect_string()), SESSION);
    let refused = lock_of(&client, "/lock").acquire_within(SOON).map(drop);
    assert!(matches!(refused, Err(Error::PermissionDenied { .. })), "{refused:?}");
}

/// Expects that every way to lock is denied, and that no nodes are left.
#[track_caller]
fn is_denied(subject: Subject, client: &Client, path: &str) {
    subject.at(client, path).is_refused(SOON, |ask, seen| {
        println!("{} at {path}, {ask:?}: {seen:?}", subject.name);
        // `try_lock` may find that the node of an `EphemeralLock` exists, and then reports a busy lock.
        let busy = !ask.waits() && matches!(seen, Ok(false));
        let denied =
            matches!(&seen, Err(Error::PermissionDenied { path: at, .. }) if at.starts_with(path));
        assert!(denied || busy, "{}, {ask:?}: {seen:?}", subject.name);
    });
    await_nothing_left(client);
}

#[test]
fn credentials_of_the_owner_are_required() {
    every_subject(|subject| {
        let (root, probe) = (fresh_path("digest"), shared_probe().unwrap());
        probe.create_all(&root).unwrap();
        let path = format!("{root}/a/lock");
        let (first, second, stranger) = (owner(), owner(), client());
        let object = subject.rival(&first, &path);
        object.lock().unwrap();
        let node = subject.node_of(&object.hold());
        // Permission to delete the node of an `EphemeralLock` is determined by the ACL of its directory.
        let denied = Err(ErrorKind::PermissionDenied);
        assert_eq!(probe.delete(&node).map_err(|error| error.kind()), denied, "{node}");
        // The directories above the node have the same ACL.
        let places: Vec<_> = node.match_indices('/').map(|(at, _)| &node[..at]).collect();
        let places: Vec<_> = places.into_iter().filter(|place| place.len() > root.len()).collect();
        println!("{}: {places:?}", subject.name);
        assert!(!places.is_empty());
        for place in places.iter().chain([&&*node]) {
            let seen = probe.get(place).map(drop).map_err(|error| error.kind());
            assert_eq!(seen, denied, "{place}");
            let seen = probe.set(place, b"x").map(drop).map_err(|error| error.kind());
            assert_eq!(seen, denied, "{place}");
        }
        is_denied(subject, &stranger, &path);
        let hold = object.hold();
        let verify = |client: &Client| client.verify_token(hold.path(), hold.fencing_token());
        assert!(verify(&second).unwrap(), "{}", subject.name);
        let seen = verify(&stranger);
        assert!(matches!(seen, Err(Error::PermissionDenied { .. })), "{}: {seen:?}", subject.name);
        let next = subject.at(&second, &path);
        assert!(!next.try_lock().unwrap(), "a client with the same credentials can contend");
        let waiting = Task::spawn(visit(next));
        assert!(object.is_held(), "{:?}", object.hold());
        object.unlock().unwrap();
        waiting.result("one with the same credentials").unwrap();
    });
}

#[test]
fn closed_ancestor_matters_only_where_a_node_must_be_created() {
    every_subject_that(Subject::is_plain, |subject| {
        let boss = shared_probe().unwrap();
        boss.add_auth("digest", b"boss:secret").unwrap();
        // Either all clients, or only the client that created it, may list the ancestor.
        for others in [&[(31, "auth", ""), (1, "world", "anyone")][..], &[(31, "auth", "")]] {
            let root = fresh_path("restricted");
            boss.create_all(&root).unwrap();
            let closed = format!("{root}/closed");
            boss.create_with_acl(&closed, b"", others).unwrap();
            boss.create(&format!("{closed}/open"), b"", false, false).unwrap();
            let client = client();
            for path in [format!("{closed}/open/lock"), format!("{closed}/open/a/b/c")] {
                let object = subject.at(&client, &path);
                visit(object.clone())().unwrap();
                assert!(object.try_lock().unwrap());
                object.unlock().unwrap();
            }
            for path in [format!("{closed}/new"), format!("{closed}/new/a/b")] {
                is_denied(subject, &client, &path);
            }
        }
    });
}

#[test]
fn invalid_paths_are_refused_with_a_reason() {
    let client = client();
    let before = client.stats().requests;
    let words = "a a/b /a/ // //a /a//b /. /a/./b /a/../b /a/.. /zookeeper /zookeeper/quota/a";
    let characters = ["\0b", "\u{1}", "\n", "\u{7f}", "\u{e000}", "\u{ffff}", "\u{1f512}"];
    let mut paths: Vec<_> = words.split(' ').map(str::to_owned).collect();
    paths.extend(characters.map(|character| format!("/a{character}")));
    paths.extend(["", "/", " /a"].map(str::to_owned));
    paths.extend([format!("/a/{}", "x".repeat(256)), "/abc".repeat(1025)]);
    for path in &paths {
        let asked = [client.contenders(path).map(drop), client.verify_token(path, 1).map(drop)];
        for seen in each_type(&client, path, &LockOptions::new()).into_iter().chain(asked) {
            println!("{seen:?}");
            is_invalid(seen, path, "");
        }
    }
    assert_eq!(client.stats().requests, before);
}

#[track_caller]
fn is_invalid<T: std::fmt::Debug>(seen: Result<T>, path: &str, why: &str) {
    let error = seen.expect_err(path);
    let named = matches!(&error, Error::InvalidPath { path: at, reason, .. }
        if at.starts_with(path) && !reason.is_empty() && error.to_string().contains(why));
    assert!(named, "{path:?}: {error:?}");
}

/// Each part of a path becomes a node. If a part had a contender's name, a lock at its parent path would wait for that
/// node.
#[test]
fn path_inside_the_queue_of_another_lock_is_invalid() {
    for part in [
        "lock-0000000000",
        "block-1234567890",
        "lock--000000001",
        &format!("_c_{ID}-lock-2147483647"),
        &format!("_c_{ID}-__READ__0000000000"),
        &format!("_c_{ID}-__WRIT__0000000000"),
        "0e17197e0afb43a4b0d7b5c1e7b17bb3__lock__0000000000",
        "__rlock__0000000000",
    ] {
        let (client, root) = (client(), fresh_path("above"));
        let above = DistributedLock::new(&client, &root).unwrap();
        for path in [format!("{root}/{part}"), format!("{root}/{part}/below/it")] {
            let turn = DistributedLock::new(&client, &path)
                .and_then(|lock| lock.lock().and_then(|()| lock.unlock()));
            assert!(above.try_lock().unwrap(), "held up by {path}: {turn:?}");
            above.unlock().unwrap();
            is_invalid(turn, &path, part);
            for seen in each_type(&client, &path, &LockOptions::new()) {
                is_invalid(seen, &path, part);
            }
            // Nodes that already exist can still be listed and read.
            assert_eq!(client.contenders(&path).unwrap(), []);
            assert_eq!(client.read(&path).unwrap(), None);
            assert!(!client.verify_token(&path, 1).unwrap());
            assert_eq!(client.paths_below(&path).unwrap(), [""; 0]);
        }
        let guard = above.acquire().unwrap();
        let made = guard.transaction().create(format!("{root}/{part}"), "").commit();
        is_invalid(made, &format!("{root}/{part}"), part);
        let gone = guard.transaction().delete(format!("{root}/{part}"), None).commit();
        assert!(matches!(gone, Err(Error::Conflict { .. })), "{gone:?}");
    }
}

#[test]
fn path_below_an_ephemeral_node_is_invalid() {
    every_subject(|subject| {
        let root = fresh_path("ephemeral");
        let probe = shared_probe().unwrap();
        probe.create_all(&root).unwrap();
        probe.create(&format!("{root}/e"), b"", true, false).unwrap();
        let client = client();
        for path in [format!("{root}/e"), format!("{root}/e/a"), format!("{root}/e/a/b/c")] {
            // At its own path, an `EphemeralLock` would treat this node as a rival's.
            if subject.queues() || path.ends_with("/a/b/c") {
                subject.at(&client, &path).is_refused(SOON, |ask, seen| {
                    println!("{}, {ask:?}: {seen:?}", subject.name);
                    is_invalid(seen, &path, "ephemeral");
                });
            }
        }
        await_nothing_left(&client);
    });
}

const ID: &str = "0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3";

/// Tests in `overload` show that a server survives this many bytes.
#[test]
fn client_refuses_more_path_bytes_than_the_server_survives() {
    let (client, root) = (client(), fresh_path("long"));
    let long = format!("{root}{}", format!("/{}", "x".repeat(255)).repeat(15));
    let lock = |number: usize| DistributedLock::new(&client, format!("{long}/{number}")).unwrap();
    let is_limit = |seen: &Result<bool>| matches!(seen, Err(Error::LimitExceeded { .. }));
    let mut held = Vec::new();
    let seen = loop {
        let lock = lock(held.len());
        match lock.try_lock() {
            Ok(true) => held.push(lock),
            seen => break seen,
        }
        assert!(held.len() < 1000, "no limit");
    };
    println!("{} locks of {} bytes, then {seen:?}", held.len(), held[0].path().len());
    assert!(is_limit(&seen), "{seen:?}");
    assert!(held.len() * (held[0].path().len() + 60) > 892 * 1024, "{}", held.len());
    // While the limit is reached, calls fail immediately. They succeed when there is room again.
    let one_more = lock(1000);
    let waiting = locking(&one_more).result("lock()").map(|()| true);
    assert!(is_limit(&waiting) && is_limit(&one_more.lock_within(SOON)), "{waiting:?}");
    held.pop().unwrap().unlock().unwrap();
    assert!(one_more.try_lock().unwrap(), "there is room again");
    one_more.unlock().unwrap();
}
