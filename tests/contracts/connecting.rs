//! Hosts, settings and credentials that do not lead to a connection.

use std::io;
use std::net::{Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Acl, Client, ClientBuilder, DistributedLock, Error, Permissions};
use zoolock_test_support::{connect_string, fresh_path, shared_probe};

use common::{SESSION, SOON, Task, client_of, connected, in_time, shared_address, shared_proxy};

/// Expects the connect to fail within the connect timeout.
fn refused(builder: ClientBuilder, timeout: Duration) -> Error {
    let what = format!("{builder:?}");
    let slack = Duration::from_secs(2);
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
    let seen = matches!(error, Error::Connect { hosts: at, cause, .. }
        if at.contains(hosts) && !cause.is_empty());
    assert!(seen, "{hosts}: {error:?}");
}

#[test]
fn invalid_host_lists_are_refused() {
    // The parts of the list are tested beside its parser.
    for hosts in ["", "a:0", "a:2181/chroot/", "a:2181/app/lock-0000000000/b"] {
        let error = refused(Client::builder(hosts), SESSION);
        is_invalid("host list", &error);
    }
}

#[test]
fn settings_that_need_the_servers_are_refused_for_a_lazy_client() {
    let builder = || Client::builder("127.0.0.1:1");
    for (what, builder) in [
        ("existing chroot", builder().existing_chroot(true)),
        ("session timeout", builder().session_timeout(Duration::ZERO)),
        ("host list", Client::builder("127.0.0.1:x")),
        ("ACL", builder().acl(Acl::creator())),
    ] {
        is_invalid(what, &builder.connect_lazily().map(drop).expect_err(what));
    }
}

#[test]
fn invalid_settings_are_refused() {
    let builder = || Client::builder("127.0.0.1:1");
    let day = Duration::from_secs(24 * 60 * 60);
    for timeout in [Duration::ZERO, Duration::from_nanos(1), day * 25, Duration::MAX] {
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
fn acl_refused_by_the_server_is_an_invalid_argument() {
    let acl = Acl::none().and("digest", "nobody", Permissions::ALL);
    let client = connected(Client::builder(&connect_string()).acl(acl));
    let path = fresh_path("refused-acl");
    let lock = DistributedLock::new(&client, &path).unwrap();
    is_invalid("ACL", &lock.lock().expect_err("lock()"));
    is_invalid("ACL", &lock.try_lock().expect_err("try_lock()"));
}

#[test]
fn unknown_credentials_fail_the_connect() {
    for (scheme, secret) in [("no-such-scheme", "secret"), ("", "secret")].repeat(10) {
        let builder = Client::builder(&connect_string()).auth(scheme, secret);
        let error = refused(builder, SOON);
        let is_it = matches!(&error, Error::Refused { hosts, cause }
            if *hosts == connect_string() && !cause.is_empty());
        assert!(is_it, "{error:?}");
        let said = error.to_string();
        assert!(said.contains("credentials"), "it does not say what was wrong: {said}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn existing_chroot_is_required_and_not_created() {
    let (probe, chroot) = (shared_probe().unwrap(), fresh_path("existing-chroot"));
    let hosts = format!("{}{chroot}", connect_string());
    let builder = |hosts: &str| Client::builder(hosts).existing_chroot(true);
    let error = refused(builder(&hosts), SESSION);
    is_invalid("host list", &error);
    assert!(error.to_string().contains(&chroot), "{error}");
    probe.create_all(&chroot).unwrap();
    for hosts in [&hosts, &connect_string()] {
        let client = connected(builder(hosts));
        let path = fresh_path("below");
        DistributedLock::new(&client, &path).unwrap().acquire().unwrap().release().unwrap();
    }
    assert_eq!(probe.children(&chroot).unwrap().len(), 1);
}

#[test]
fn unreachable_hosts_fail_the_connect_in_time() {
    let proxy = shared_proxy();
    proxy.refuse(true);
    let hosts = proxy.connect_string();
    let begun = Instant::now();
    cannot_connect(&hosts, &refused(Client::builder(&hosts), SOON * 2));
    assert!(begun.elapsed() < SOON, "a refused connect is known at once");
    let builder = Client::builder("no-such-host.invalid:2181");
    cannot_connect("no-such-host.invalid", &refused(builder, Duration::from_secs(3)));
    let both = format!("{hosts},no-such-host.invalid/chroot");
    cannot_connect(&hosts, &refused(Client::builder(&both), Duration::from_secs(3)));
}

#[test]
fn client_connects_to_an_ipv6_address() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        println!("no IPv6 here");
        let error = refused(Client::builder("[::1]:1"), Duration::from_secs(3));
        return cannot_connect("[::1]:1", &error);
    };
    let hosts = format!("[::1]:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(shared_address()).unwrap();
            let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
            for (mut from, mut to) in ways {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    let client = client_of(&hosts, SOON);
    let lock = DistributedLock::new(&client, fresh_path("ipv6")).unwrap();
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
    client.close().unwrap();
}

#[test]
fn servers_tell_whom_they_take_a_client_for() {
    let builder = Client::builder(&connect_string()).session_timeout(SOON);
    let owner = connected(builder.auth("digest", "owner:secret"));
    match owner.who_am_i() {
        // Servers before 3.7 do not tell it.
        Err(error) => assert!(matches!(error, Error::ZooKeeper { .. }), "{error}"),
        Ok(all) => {
            let pair = |scheme: &str, user: &str| (scheme.to_owned(), user.to_owned());
            assert!(all.contains(&pair("ip", "127.0.0.1")), "{all:?}");
            assert!(all.contains(&pair("digest", "owner")), "{all:?}");
        }
    }
}
