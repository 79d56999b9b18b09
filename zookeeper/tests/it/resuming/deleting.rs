//! `delete_eventually`: over cuts, until it is done or cannot be.

use zoolock_test_support::{Op, Then, wait_until};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Permissions, SessionEventKind};

use crate::util::{BRIEFLY, SESSION, SOON, Stage, kind, make, make_ephemeral};

#[test]
fn what_is_to_go_goes_over_cuts() {
    let stage = Stage::new("eventually", SESSION);
    for (number, then) in [Then::Cut, Then::Hold].into_iter().enumerate() {
        for is_lost_request in [true, false] {
            let path = make(&stage.client, &stage.path(&format!("{number}")), b"");
            let rule = match is_lost_request {
                true => stage.proxy.drop_request(Op::Delete, 1, then),
                false => stage.proxy.drop_answer(Op::Delete, 1, then),
            };
            // Its deadline is no matter.
            let pending = stage.client.with_timeout(BRIEFLY).delete_eventually(&path);
            assert!(rule.wait(SOON));
            if then == Then::Hold {
                // It can only wait for somebody to notice that nothing comes.
                stage.proxy.cut();
            }
            println!("{then:?}, request lost: {is_lost_request}: {:?}", pending.wait().unwrap());
            assert!(!stage.probe().exists(&path).unwrap());
        }
    }
    let none = stage.client.delete_eventually(&stage.path("none"));
    none.wait().unwrap();
}

#[test]
fn what_is_to_go_goes_when_there_is_a_connection_again_long_after_its_deadline() {
    let stage = Stage::new("eventually", SESSION);
    let paths: Vec<_> =
        (0..50).map(|n| make_ephemeral(&stage.client, &stage.path(&format!("{n}")))).collect();
    stage.suspend();
    let hurried = stage.client.with_timeout(BRIEFLY);
    let pending: Vec<_> = paths.iter().map(|path| hurried.delete_eventually(path)).collect();
    assert_eq!(kind(hurried.sync("/")), ErrorKind::NoConnection);
    assert!(pending.iter().all(|pending| !pending.is_done()));
    stage.resume();
    pending.into_iter().for_each(|pending| pending.wait().unwrap());
    assert_eq!(stage.client.get_children(&stage.root).unwrap().0, [""; 0]);
}

#[test]
fn it_goes_on_when_nobody_waits_for_it() {
    let stage = Stage::new("eventually", SESSION);
    let path = make(&stage.client, &stage.path("a"), b"");
    let rule = stage.proxy.drop_request(Op::Delete, 1, Then::Cut);
    drop(stage.client.delete_eventually(&path));
    assert!(rule.wait(SOON));
    let probe = stage.probe();
    wait_until("it is gone", SOON, || !probe.exists(&path).unwrap());
}

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
