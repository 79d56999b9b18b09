//! `delete_eventually`, where it is not done.

use zoolock_test_support::{Op, Then};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Permissions, SessionEventKind};

use crate::util::{BRIEFLY, SESSION, SOON, Stage, kind, make};

#[test]
fn what_the_server_refuses_is_said_and_not_tried_again() {
    let stage = Stage::new("eventually", SESSION);
    let full = make(&stage.client, &stage.path("full"), b"");
    let below = make(&stage.client, &format!("{full}/a"), b"");
    let pending = stage.client.delete_eventually(&full);
    assert_eq!(kind(pending.wait()), ErrorKind::NotEmpty);
    let no_deletes = [Acl::new(Permissions::READ, "world", "anyone")];
    stage.client.set_acl(&full, &no_deletes, None).unwrap();
    assert_eq!(kind(stage.client.delete_eventually(&below).wait()), ErrorKind::NoAuth);
    stage.proxy.cut();
    stage.told.until(SessionEventKind::Resumed);
    stage.client.sync("/").unwrap();
    let asked = stage.proxy.requests(Op::Delete);
    println!("{asked} requests");
    assert_eq!(asked, 2);
    assert!(stage.probe().exists(&below).unwrap());
}

#[test]
fn it_ends_with_the_session_and_with_the_client() {
    let stage = Stage::new("eventually", SESSION);
    let acl = Acl::open();
    let path = stage.path("a");
    stage.client.create(&path, b"", &acl, CreateMode::Persistent).unwrap();
    stage.suspend();
    let pending = stage.client.delete_eventually(&path);
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1);
    stage.proxy.restore();
    assert_eq!(kind(pending.wait()), ErrorKind::SessionExpired);
    stage.told.until(SessionEventKind::Connected);
    stage.client.sync("/").unwrap();
    assert!(stage.probe().exists(&path).unwrap(), "it is not done in another session");
    assert_eq!(stage.proxy.requests(Op::Delete), 0);
    stage.suspend();
    let pending = stage.client.delete_eventually(&path);
    let closed = stage.client.with_timeout(BRIEFLY).close();
    assert!(closed.is_err());
    let ended = kind(pending.wait());
    println!("{closed:?}, {ended:?}");
    assert_eq!(ended, ErrorKind::Closed);
}

#[test]
fn one_that_was_sent_when_the_session_ended_may_be_done() {
    let stage = Stage::new("eventually", SESSION);
    let path = make(&stage.client, &stage.path("a"), b"");
    let rule = stage.proxy.drop_answer(Op::Delete, 1, Then::Hold);
    let pending = stage.client.delete_eventually(&path);
    assert!(rule.wait(SOON));
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1);
    stage.proxy.cut();
    let error = pending.wait().unwrap_err();
    println!("{error}");
    assert!(!stage.probe().exists(&path).unwrap());
    // It was carried out, so nobody may be told that it was not.
    assert!(error.is_maybe_done(), "{error}");
}
