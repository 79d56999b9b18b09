//! Nothing there, no such path, no permission, no connection.

use std::time::{Duration, Instant};

use zoolock::{Client, Contender, DistributedSemaphore, EphemeralLock, Error, Result};
use zoolock_test_support::{Direction, Op, Server, connect_string, fresh_path, shared_probe};

use super::look;
use common::{SESSION, SOON, Task, client, client_of, in_time, lock_of, shared_proxy};

#[test]
fn nothing_there_is_nobody() {
    let client = client();
    let path = fresh_path("nothing");
    let lock = lock_of(&client, &path);
    let semaphore = DistributedSemaphore::new(&client, &path, 1).unwrap();
    assert_eq!(client.contenders(&path).unwrap(), [], "nothing");
    assert_eq!(lock.contenders().unwrap(), []);
    assert_eq!(semaphore.contenders().unwrap(), []);
    let deep = format!("{path}/a/b");
    assert_eq!(client.contenders(&deep).unwrap(), []);
    shared_probe().unwrap().create_all(&path).unwrap();
    assert_eq!(client.contenders(&path).unwrap(), [], "empty");
    let single = EphemeralLock::new(&client, &path).unwrap();
    assert_eq!(single.contenders().unwrap(), [], "a directory");

    let hosts = format!("{}{}", connect_string(), fresh_path("no-chroot"));
    let below = client_of(&hosts, SESSION);
    assert_eq!(below.contenders("/a").unwrap(), [], "no chroot");
    println!("{:?}", client.stats());
}

#[test]
fn below_a_chroot_paths_are_those_of_the_client() {
    let root = fresh_path("chroot");
    let hosts = format!("{}{root}", connect_string());
    let below = client_of(&hosts, SESSION);
    let guard = lock_of(&below, "/a").acquire().unwrap();
    let single = EphemeralLock::new(&below, "/single").unwrap();
    let alone = single.acquire().unwrap();
    let seen = look("inside", below.contenders("/a"));
    assert_eq!((&*seen[0].path, &*seen[0].node), ("/a", &*guard.node()));
    let inside = look("single, inside", below.contenders("/single"));
    let mut outside = look("outside", client().contenders(&format!("{root}/a")));
    assert_eq!(outside[0].path, format!("{root}/a"));
    outside[0].path = "/a".to_owned();
    assert_eq!(outside, seen);
    let (asked, told) = (guard.revocation().unwrap(), alone.revocation().unwrap());
    below.revoke(&seen[0]).unwrap();
    below.revoke(&inside[0]).unwrap();
    asked.recv_timeout(SOON).expect("revoked below a chroot");
    told.recv_timeout(SOON).expect("revoked below a chroot");
}

#[test]
fn a_path_that_cannot_be_a_locks_is_invalid_without_a_request() {
    let client = client();
    let before = client.stats().requests;
    for path in ["", "/", "a", "/a/", "/a//b", "/a/..", "/zookeeper", "/a\0"] {
        let seen = client.contenders(path);
        let invalid = matches!(&seen, Err(Error::InvalidPath { path: at, .. }) if at == path);
        assert!(invalid, "{path:?}: {seen:?}");
    }
    assert_eq!(client.stats().requests, before);
}

#[test]
fn without_permission_it_is_denied() {
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    let client = client();
    let path = fresh_path("denied");
    boss.create_all("/zoolock-test").unwrap();
    boss.create_with_acl(&path, b"", &[(31, "auth", ""), (30, "world", "anyone")]).unwrap();
    is_denied(&client, &path);
    // A contender that may not be read.
    let path = fresh_path("denied-child");
    boss.create_all(&path).unwrap();
    boss.create_with_acl(&format!("{path}/lock-0000000001"), b"", &[(31, "auth", "")]).unwrap();
    is_denied(&client, &path);
}

#[track_caller]
fn is_denied(client: &Client, path: &str) {
    let seen = client.contenders(path);
    println!("{seen:?}");
    let denied = matches!(&seen, Err(Error::Denied { path: at }) if at == path);
    assert!(denied, "{seen:?}");
}

#[test]
fn without_a_connection_it_is_disconnected_within_a_session_timeout() {
    const SHORT: Duration = Duration::from_secs(2);
    let slack = Duration::from_secs(1);
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("disconnected");
    let guard = lock_of(&client, &path).acquire().unwrap();
    let asks = || {
        in_time("contenders()", SHORT + slack, || {
            let (client, path) = (client.clone(), path.clone());
            Task::spawn(move || client.contenders(&path)).result("contenders()")
        })
    };
    proxy.black_hole(Direction::Both);
    is_disconnected(&asks(), &path);
    proxy.refuse(true);
    proxy.cut();
    is_disconnected(&asks(), &path);
    proxy.restore();
    // It waits for a connection.
    let back = asks().unwrap();
    println!("back: {back:?}");
    drop(guard);
    client.close().unwrap();
    let closed = asks();
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

#[track_caller]
fn is_disconnected(seen: &Result<Vec<Contender>>, path: &str) {
    let disconnected = matches!(seen, Err(Error::Disconnected { path: at }) if at == path);
    assert!(disconnected, "{seen:?}");
}

#[test]
fn a_cut_or_a_close_while_it_reads_ends_it_at_once() {
    for close in [true, false] {
        let proxy = shared_proxy();
        let looking = client_of(&proxy.connect_string(), Duration::from_secs(60));
        let path = fresh_path("cut-while-reading");
        let holder = client();
        let guard = lock_of(&holder, &path).acquire().unwrap();
        let reading = proxy.on(Op::GetData).path_contains(&guard.node());
        let reading = reading.hold_answer();
        let (asks, at) = (looking.clone(), path.clone());
        let asked = Task::spawn(move || asks.contenders(&at));
        assert!(reading.wait(SOON), "{:#?}", proxy.log());
        let begun = Instant::now();
        let closing = match close {
            true => Some(Task::spawn(move || looking.close())),
            false => {
                proxy.cut();
                None
            }
        };
        let seen = asked.result("contenders()");
        println!("{seen:?} {:?} later", begun.elapsed());
        match close {
            true => assert!(matches!(seen, Err(Error::Closed)), "{seen:?}"),
            false => is_disconnected(&seen, &path),
        }
        reading.release();
        if let Some(closing) = closing {
            closing.result("close()").unwrap();
        }
        guard.release().unwrap();
    }
}

#[test]
fn the_session_is_the_one_in_the_servers_list_of_connections() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    let guard = lock_of(&client, "/a").acquire().unwrap();
    let seen = look("a lock", client.contenders("/a"));
    let connections = server.four_letter("cons").unwrap();
    let session = format!("sid={:#x},", seen[0].session);
    println!("{session} in {connections}");
    assert!(connections.contains(&session));
    guard.release().unwrap();
}
