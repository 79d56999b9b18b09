//! Who may ask, and whom.

use std::time::Duration;

use zoolock::{Acl, Client, Error, Kind};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use super::{REVOKE, contender_of, is_asked, is_not_asked};
use crate::contenders::look;
use common::{SESSION, SOON, client, client_of, lock_of, shared_proxy};

#[test]
fn a_stranger_is_not_asked() {
    let own = client();
    let path = fresh_path("stranger");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let node = format!("{path}/notes");
    probe.create(&node, b"mine", false, false).unwrap();
    let seen = look("a stranger", own.contenders(&path));
    assert_eq!(seen[0].kind, Kind::Foreign);
    let before = own.stats().requests;
    let refused = own.revoke(&seen[0]);
    println!("{refused:?}");
    let invalid = matches!(&refused, Err(Error::InvalidArgument { what: "contender", .. }));
    assert!(invalid, "{refused:?}");
    assert_eq!(own.stats().requests, before);
    assert_eq!(probe.get(&node).unwrap().unwrap().0, b"mine");
}

#[test]
fn a_made_up_contender_is_an_error_and_no_harm() {
    let own = client();
    let guard = lock_of(&own, &fresh_path("made-up")).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    let real = contender_of(&own, &guard);
    for path in ["", "x", "/x/", "/a/../b", "/a\0b", "/zookeeper/config"] {
        let mut made_up = real.clone();
        made_up.path = path.to_owned();
        let seen = own.revoke(&made_up);
        println!("{path:?}: {seen:?}");
        assert!(seen.is_err(), "{path:?}");
    }
    assert_eq!(own.stats().connections, 1);
    is_not_asked(&asked, "the holder");
    guard.release().unwrap();
}

#[test]
fn others_holders_are_asked_the_way_curator_does() {
    let own = client();
    let path = fresh_path("curator");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    let node = format!("{path}/_c_{id}-lock-");
    let node = probe.create(&node, b"192.168.0.1", true, true).unwrap();
    let seen = look("Curator's", own.contenders(&path));
    own.revoke(&seen[0]).unwrap();
    assert_eq!(probe.get(&node).unwrap().unwrap().0, REVOKE);
    let seen = look("asked", own.contenders(&path));
    assert_eq!((seen[0].identity.as_ref(), seen[0].holds), (None, true));
}

#[test]
fn without_permission_or_connection_nobody_is_asked() {
    let owner = Client::builder(&connect_string())
        .session_timeout(SESSION)
        .auth("digest", "owner:secret")
        .acl(Acl::creator().and("world", "anyone", zoolock::Permissions::READ))
        .connect()
        .unwrap();
    let proxy = shared_proxy();
    let other = client_of(&proxy.connect_string(), Duration::from_secs(2));
    let root = fresh_path("denied");
    shared_probe().unwrap().create_all(&root).unwrap();
    let guard = lock_of(&owner, &format!("{root}/lock")).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    let contender = contender_of(&other, &guard);
    let seen = other.revoke(&contender);
    println!("{seen:?}");
    let denied = matches!(&seen, Err(Error::Denied { path }) if path == guard.path());
    assert!(denied, "{seen:?}");
    is_not_asked(&asked, "the holder");
    proxy.refuse(true);
    proxy.cut();
    wait_until("suspended", SOON, || other.state() != zoolock::ClientState::Connected);
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    let _ = other.close();
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    owner.revoke(&contender).unwrap();
    is_asked(&asked, "the holder");
    guard.release().unwrap();
}
