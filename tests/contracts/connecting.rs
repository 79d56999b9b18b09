//! Hosts, settings and credentials with which a client fails to connect.

use std::net::{Ipv6Addr, TcpListener};
use std::time::Duration;

use zoolock::{Acl, Client, ClientBuilder, ConnectFailure, Error, Permissions};

use common::relay::{Fate, relay_on};
use common::*;

use crate::is_invalid;

/// Expects that connecting fails within the connect timeout.
fn refused(builder: ClientBuilder, timeout: Duration) -> Error {
    let what = format!("{builder:?}");
    let slack = Duration::from_secs(2);
    let seen = in_time(&what, timeout + slack, || {
        Task::spawn(move || builder.connect_timeout(timeout).connect().map(drop)).result(&what)
    });
    seen.expect_err(&what)
}

#[test]
fn invalid_settings_are_refused() {
    let builder = || Client::builder("127.0.0.1:1");
    let day = Duration::from_secs(24 * 60 * 60);
    let timeouts = [Duration::ZERO, Duration::from_nanos(1), day * 25, Duration::MAX];
    // The unit tests of the host list's parser cover its other parts.
    let hosts = ["", "127.0.0.1:x", "a:0", "a:2181/chroot/", "a:2181/app/lock-0000000000/b"];
    let read_only = Acl::none().and("world", "anyone", Permissions::READ);
    let acls = [Acl::none(), read_only, Acl::creator()];
    let mut invalid = vec![("identity", builder().identity("x".repeat(1 << 20)))];
    invalid.extend(hosts.map(|hosts| ("host list", Client::builder(hosts))));
    invalid.extend(timeouts.map(|time| ("session timeout", builder().session_timeout(time))));
    invalid.extend(acls.map(|acl| ("ACL", builder().acl(acl))));
    for (what, builder) in invalid {
        is_invalid(what, &builder.clone().connect().map(drop));
        is_invalid(what, &builder.connect_lazily().map(drop));
    }
    for timeout in timeouts {
        is_invalid("connect timeout", &builder().connect_timeout(timeout).connect().map(drop));
        is_invalid("session timeout", &Client::connect("127.0.0.1:1", timeout).map(drop));
    }
    // Only the servers can detect this error.
    is_invalid("existing_chroot", &builder().existing_chroot(true).connect_lazily().map(drop));
}

#[test]
fn acl_refused_by_the_server_is_an_invalid_argument() {
    let acl = Acl::none().and("digest", "nobody", Permissions::ALL);
    let client = connected(Client::builder(connect_string()).acl(acl));
    let lock = lock_of(&client, &fresh_path("refused-acl"));
    is_invalid("ACL", &lock.lock());
    is_invalid("ACL", &lock.try_lock());
}

#[test]
fn unknown_credentials_fail_the_connect() {
    for (scheme, secret) in [("no-such-scheme", "secret"), ("", "secret")].repeat(10) {
        let builder = Client::builder(connect_string()).auth(scheme, secret);
        let error = refused(builder, SOON);
        let is_it = matches!(&error, Error::Connect { hosts, cause, failure: ConnectFailure::Credentials, .. }
            if *hosts == connect_string() && !cause.is_empty());
        assert!(is_it, "{error:?}");
        let said = error.to_string();
        assert!(said.contains("credentials"), "the error does not name the cause: {said}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn existing_chroot_is_required_and_not_created() {
    let (probe, chroot) = (shared_probe().unwrap(), fresh_path("existing-chroot"));
    let hosts = format!("{}{chroot}", connect_string());
    let builder = |hosts: &str| Client::builder(hosts).existing_chroot(true);
    let error = refused(builder(&hosts), SESSION);
    assert!(error.to_string().contains(&chroot), "{error}");
    is_invalid("host list", &Err::<(), _>(error));
    probe.create_all(&chroot).unwrap();
    for hosts in [&hosts, &connect_string()] {
        let client = connected(builder(hosts));
        lock_of(&client, &fresh_path("below")).acquire().unwrap().release().unwrap();
    }
    assert_eq!(probe.children(&chroot).unwrap().len(), 1);
}

#[test]
fn client_connects_to_an_ipv6_address() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        return println!("no IPv6 here");
    };
    let client = client_of(&relay_on(listener, |_| Fate::Pass), SOON);
    lock_of(&client, &fresh_path("ipv6")).acquire().unwrap().release().unwrap();
    client.close().unwrap();
}
