//! What users, networks and other programs get wrong.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Acl, Client, ClientBuilder, ClientState, DistributedLock, DistributedReentrantLock, Error,
    HoldState, LossReason, Permissions,
};
use zoolock_test_support::{Server, connect_string, fresh_path, shared_probe, wait_until};

use crate::util::{
    SESSION, SOON, Task, children, client, client_of, in_time, shared_address, shared_proxy,
};

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
    for part in [
        "zookeeper",
        "...",
        ".a",
        "a b",
        "ü中",
        "a,b:c\\d*?",
        "lock-0000000001",
        &"x".repeat(255),
    ] {
        let path = format!("{root}/{part}");
        let lock = DistributedLock::new(&client, &path).unwrap();
        lock.lock()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(children(&path), [lock.hold().unwrap().node()]);
        lock.unlock().unwrap();
    }
}

/// Connects, which must fail within the connect timeout.
fn refused(builder: ClientBuilder, timeout: Duration) -> Error {
    let what = format!("{builder:?}");
    let slack = Duration::from_secs(1);
    let seen = in_time(&what, timeout + slack, || {
        Task::spawn(move || builder.connect_timeout(timeout).connect().map(drop)).result(&what)
    });
    seen.expect_err(&what)
}

fn is_invalid(what: &str, error: &Error) {
    let seen = matches!(error, Error::InvalidArgument { what: at, reason }
        if *at == what && !reason.is_empty());
    assert!(seen, "{error:?}");
}

fn cannot_connect(hosts: &str, error: &Error) {
    let seen = matches!(error, Error::Connect { hosts: at, cause }
        if at.contains(hosts) && !cause.is_empty());
    assert!(seen, "{hosts}: {error:?}");
}

#[test]
fn host_lists_that_make_no_sense_are_refused() {
    for hosts in [
        "",
        " ",
        ",",
        "/chroot",
        "a,,b",
        "a:0",
        "a:65536",
        "a:x",
        "a:",
        ":2181",
        "a:1:2",
        "[::1",
        "[a]:2181",
        "[::1]2181",
        "a b:2181",
        "zk://a:2181",
        "a:2181/chroot/",
        "a:2181/a//b",
        "a:2181/../b",
        "a:2181/chroot,b:2181",
    ] {
        let error = refused(Client::builder(hosts), SESSION);
        is_invalid("host list", &error);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let builder = || Client::builder("127.0.0.1:1");
    let day = Duration::from_secs(24 * 60 * 60);
    for timeout in [
        Duration::ZERO,
        Duration::from_nanos(1),
        day * 25,
        Duration::MAX,
    ] {
        let error = builder().session_timeout(timeout).connect().map(drop);
        is_invalid("session timeout", &error.expect_err("session timeout"));
        let error = builder().connect_timeout(timeout).connect().map(drop);
        is_invalid("connect timeout", &error.expect_err("connect timeout"));
        let error = Client::connect("127.0.0.1:1", timeout).map(drop);
        is_invalid("session timeout", &error.expect_err("session timeout"));
    }
    let error = refused(builder().identity("x".repeat(1 << 20)), SESSION);
    is_invalid("identity", &error);
    let read_only = Acl::none().and("world", "anyone", Permissions::READ);
    for acl in [Acl::none(), read_only, Acl::creator()] {
        let error = refused(builder().acl(acl), SESSION);
        is_invalid("ACL", &error);
    }
}

#[test]
fn an_acl_that_the_server_refuses_is_an_invalid_argument() {
    let acl = Acl::none().and("digest", "nobody", Permissions::ALL);
    let client = Client::builder(&connect_string())
        .acl(acl)
        .connect()
        .unwrap();
    let path = fresh_path("refused-acl");
    let lock = DistributedLock::new(&client, &path).unwrap();
    is_invalid("ACL", &lock.lock().expect_err("lock()"));
    is_invalid("ACL", &lock.try_lock().expect_err("try_lock()"));
}

#[test]
fn unknown_credentials_are_said_when_connecting() {
    for (scheme, secret) in [("no-such-scheme", "secret"), ("", "secret")].repeat(10) {
        let builder = Client::builder(&connect_string()).auth(scheme, secret);
        let error = refused(builder, Duration::from_secs(5));
        cannot_connect("", &error);
        let said = error.to_string();
        assert!(
            said.contains("auth"),
            "it does not say what was wrong: {said}"
        );
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn a_secret_is_never_printed() {
    let builder = Client::builder(&connect_string()).auth("digest", "joe:hunter2");
    assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
    let client = builder.connect().unwrap();
    assert!(!format!("{client:?}").contains("hunter2"), "{client:?}");
}

#[test]
fn hosts_that_are_not_there_are_an_error_in_time() {
    let proxy = shared_proxy();
    proxy.refuse(true);
    let hosts = proxy.connect_string();
    let begun = Instant::now();
    cannot_connect(&hosts, &refused(Client::builder(&hosts), SESSION * 6));
    assert!(
        begun.elapsed() < SESSION,
        "a refused connect is known at once"
    );
    let builder = Client::builder("no-such-host.invalid:2181");
    cannot_connect(
        "no-such-host.invalid",
        &refused(builder, Duration::from_secs(3)),
    );
    let both = format!("{hosts},no-such-host.invalid/chroot");
    cannot_connect(
        &hosts,
        &refused(Client::builder(&both), Duration::from_secs(3)),
    );
}

#[test]
fn servers_that_are_not_zookeeper_are_an_error_in_time() {
    let timeout = Duration::from_secs(2);
    let serve = |answer: fn(TcpStream) -> io::Result<()>| -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer(stream));
            }
        });
        address
    };
    let http = serve(|mut stream| {
        let _ = stream.read(&mut [0; 512])?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nwhat?\r\n")
    });
    let closing = serve(|_| Ok(()));
    let silent = serve(|mut stream| stream.read_to_end(&mut Vec::new()).map(drop));
    let endless = serve(|mut stream| {
        loop {
            stream.write_all(&[0xff; 4096])?;
        }
    });
    // A frame of the right length, of zeros: a session that was refused.
    let zeros = serve(|mut stream| {
        let mut frame = vec![0; 4 + 37];
        frame[3] = 37;
        stream.write_all(&frame)?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    for address in [http, closing, silent, endless, zeros] {
        let hosts = address.to_string();
        cannot_connect(&hosts, &refused(Client::builder(&hosts), timeout));
    }
    // One of them in a list does no harm.
    let hosts = format!(
        "{http},{closing},{silent},{endless},{zeros},{}",
        connect_string()
    );
    let client = client_of(&hosts, SESSION);
    assert_eq!(client.state(), ClientState::Connected);
}

#[test]
fn an_ipv6_address_is_connected_to() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        println!("no IPv6 here");
        let error = refused(Client::builder("[::1]:1"), Duration::from_secs(3));
        return cannot_connect("[::1]:1", &error);
    };
    let hosts = format!("[::1]:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(shared_address()).unwrap();
            let ways = [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ];
            for (mut from, mut to) in ways {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    let client = client_of(&hosts, SESSION);
    let lock = DistributedLock::new(&client, fresh_path("ipv6")).unwrap();
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
    client.close().unwrap();
}

#[test]
fn a_path_below_an_ephemeral_node_is_invalid() {
    let root = fresh_path("ephemeral");
    let probe = shared_probe().unwrap();
    probe.create_all(&root).unwrap();
    probe
        .create(&format!("{root}/e"), b"", true, false)
        .unwrap();
    let client = client();
    for path in [
        format!("{root}/e"),
        format!("{root}/e/a"),
        format!("{root}/e/a/b/c"),
    ] {
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
    assert_eq!(client.stats().seats, 0);
}

#[test]
fn foreign_nodes_that_are_no_contenders_are_ignored() {
    let path = fresh_path("junk");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    for junk in [
        "hello",
        "0000000000",
        "lock",
        "lock-",
        "-",
        "--------------",
        "lock-12",
        "lock-000000000x",
        "_c_",
        "_c_-lock-",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-lock-",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-lease-0000000000",
        "leases",
        "locks",
        "ünïcödé-中文",
        "n_0000000000",
        "write-0000000000",
        " lock-0000000000 ",
    ] {
        let junk = format!("{path}/{junk}");
        probe
            .create(&junk, &[0xff, 0xfe, 0x00, 0xc3], false, false)
            .unwrap();
    }
    probe
        .create(&format!("{path}/locks/below"), b"", false, false)
        .unwrap();
    let lock = DistributedLock::new(&client(), &path).unwrap();
    assert!(lock.try_lock().unwrap(), "{:?}", children(&path));
    lock.unlock().unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[test]
fn foreign_contenders_are_waited_for_whatever_their_data() {
    let path = fresh_path("foreign");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let client = client();
    for foreign in [
        "lock-",
        "guid-lock-",
        "_c_d3b07384d113edec49eaa6238ad5ff00-lock-",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-lock-",
        "0e17197e0afb43a4b0d7b5c1e7b17bb3__lock__",
        "0e17197e0afb43a4b0d7b5c1e7b17bb3__rlock__",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-__READ__",
        "_c_0e17197e-0afb-43a4-b0d7-b5c1e7b17bb3-__WRIT__",
        "x__READ__",
    ] {
        let ahead = format!("{path}/{foreign}");
        let ahead = probe
            .create(&ahead, &[0xff, 0xfe, 0x00, 0xc3], true, true)
            .unwrap();
        let lock = DistributedLock::new(&client, &path).unwrap();
        assert!(!lock.try_lock().unwrap(), "{ahead} does not count");
        let waiting = {
            let lock = lock.clone();
            Task::spawn(move || lock.lock())
        };
        wait_until("ours is queued", SOON, || children(&path).len() == 2);
        assert!(!waiting.is_done(), "{ahead} does not count");
        probe.delete(&ahead).unwrap();
        waiting.result(&ahead).unwrap();
        lock.unlock().unwrap();
    }
}

#[test]
fn ten_thousand_children_are_no_obstacle() {
    const CHILDREN: usize = 10_000;
    let path = fresh_path("crowd");
    shared_probe().unwrap().create_all(&path).unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for part in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let probe = shared_probe().unwrap();
                for number in (part..CHILDREN).step_by(4) {
                    let junk = format!("{path}/junk-{number}");
                    probe.create(&junk, b"", false, false).unwrap();
                }
            });
        }
    });
    println!("made in {:?}", begun.elapsed());
    let (first, second) = (client(), client());
    let begun = Instant::now();
    let ahead = DistributedLock::new(&first, &path).unwrap();
    let behind = DistributedLock::new(&second, &path).unwrap();
    ahead.lock().unwrap();
    assert!(!behind.try_lock().unwrap());
    assert!(!behind.try_lock_for(Duration::from_millis(100)).unwrap());
    ahead.unlock().unwrap();
    assert!(behind.try_lock_for(SOON).unwrap());
    behind.unlock().unwrap();
    println!("used in {:?}", begun.elapsed());
}

#[test]
fn unlock_without_lock_is_not_held() {
    let client = client();
    let path = fresh_path("not-held");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let not_held = |seen: zoolock::Result<()>| {
        assert!(
            matches!(&seen, Err(Error::NotHeld { path: at }) if *at == path),
            "{seen:?}"
        );
    };
    not_held(lock.unlock());
    not_held(reentrant.unlock());
    lock.lock().unwrap();
    not_held(DistributedLock::new(&client, &path).unwrap().unlock());
    not_held(reentrant.unlock());
    lock.unlock().unwrap();
    not_held(lock.unlock());
    reentrant.lock().unwrap();
    reentrant.lock().unwrap();
    reentrant.unlock().unwrap();
    reentrant.unlock().unwrap();
    not_held(reentrant.unlock());
    assert!(lock.try_lock().unwrap(), "nothing was broken by it");
    lock.unlock().unwrap();
}

#[test]
fn unlock_by_another_thread_is_for_the_plain_lock_only() {
    let client = client();
    let path = fresh_path("other-thread");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let me = thread::current().id();
    reentrant.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let seen = reentrant.unlock();
            println!("{seen:?}");
            let mine = matches!(&seen, Err(Error::NotOwner { path: at, owner })
                if *at == path && *owner == me);
            assert!(mine, "{seen:?}");
            assert!(!reentrant.is_held());
            assert_eq!(reentrant.hold_count(), 0);
        });
    });
    assert!(reentrant.is_held());
    reentrant.unlock().unwrap();
    lock.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| lock.unlock().unwrap());
    });
    assert!(!lock.is_held());
    assert_eq!(children(&path), [""; 0]);
}

fn is_closed(what: &str, seen: zoolock::Result<()>) {
    assert!(matches!(seen, Err(Error::Closed)), "{what}: {seen:?}");
}

/// Every method that both lock types have.
macro_rules! every_method_is_closed {
    ($lock:expr) => {
        let (lock, short) = ($lock, Duration::from_millis(100));
        let soon = Instant::now() + short;
        is_closed("lock", lock.lock());
        is_closed("try_lock", lock.try_lock().map(drop));
        is_closed("try_lock_for", lock.try_lock_for(short).map(drop));
        is_closed("try_lock_until", lock.try_lock_until(soon).map(drop));
        is_closed("acquire", lock.acquire().map(drop));
        is_closed("try_acquire", lock.try_acquire().map(drop));
        is_closed("try_acquire_for", lock.try_acquire_for(short).map(drop));
        is_closed("try_acquire_until", lock.try_acquire_until(soon).map(drop));
        is_closed("unlock", lock.unlock());
        lock.cancel_waiters();
        assert!(!lock.is_held());
        assert!(lock.hold().is_none(), "{:?}", lock.hold());
    };
}

#[test]
fn use_after_close_is_closed() {
    let client = client();
    let path = fresh_path("closed");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, format!("{path}/r")).unwrap();
    client.close().unwrap();
    every_method_is_closed!(&lock);
    every_method_is_closed!(&reentrant);
    assert_eq!(reentrant.hold_count(), 0);
    assert_eq!(client.state(), ClientState::Closed);
    println!(
        "{client:?} {:?} {:?}",
        client.stats(),
        client.session_timeout()
    );
    client.close().unwrap();
    client.clone().close().unwrap();
    // A path is still checked first.
    let seen = DistributedLock::new(&client, "nonsense").map(drop);
    assert!(matches!(seen, Err(Error::InvalidPath { .. })), "{seen:?}");
}

#[test]
fn a_hold_open_at_close_is_lost_once_and_then_closed() {
    let client = client();
    let path = fresh_path("closed-held");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let nest = DistributedReentrantLock::new(&client, format!("{path}/n")).unwrap();
    let guarded = DistributedLock::new(&client, format!("{path}/g")).unwrap();
    lock.lock().unwrap();
    nest.lock().unwrap();
    nest.lock().unwrap();
    let guard = guarded.acquire().unwrap();
    let hold = lock.hold().unwrap();
    client.close().unwrap();
    assert_eq!(hold.state(), HoldState::Lost(LossReason::ClientClosed));
    assert!(!hold.is_held() && !lock.is_held() && !nest.is_held());
    assert_eq!(hold.valid_for(), Duration::ZERO);
    let lost = |seen: zoolock::Result<()>| {
        let reason = LossReason::ClientClosed;
        let lost = matches!(&seen, Err(Error::Lost { reason: why, .. }) if *why == reason);
        assert!(lost, "{seen:?}");
    };
    lost(lock.unlock());
    lost(nest.unlock());
    lost(nest.unlock());
    lost(guard.release());
    every_method_is_closed!(&lock);
    every_method_is_closed!(&nest);
    every_method_is_closed!(&guarded);
}

#[test]
fn timeouts_of_every_size_are_taken() {
    let client = client();
    let lock = DistributedLock::new(&client, fresh_path("sizes")).unwrap();
    let past = Instant::now().checked_sub(Duration::from_secs(1));
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        // A nanosecond is over before an answer can come.
        let seen = lock.try_lock_for(timeout);
        println!("{timeout:?}: {seen:?}");
        match seen {
            Ok(true) => lock.unlock().unwrap(),
            Err(Error::Disconnected { .. }) if timeout == Duration::from_nanos(1) => {}
            seen => panic!("{timeout:?}: {seen:?}"),
        }
    }
    if let Some(past) = past {
        assert!(lock.try_lock_until(past).unwrap(), "free: as try_lock()");
        lock.unlock().unwrap();
    }
    let guard = lock.try_acquire_for(Duration::MAX).unwrap();
    drop(guard.expect("free"));
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
    println!(
        "{} locks of {} bytes, then {seen:?}",
        held.len(),
        held[0].path().len()
    );
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
