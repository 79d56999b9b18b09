//! A session is ended by another process, which has the session's key.

use std::time::Instant;

use zoolock_test_support::{
    Direction, FaultProxy, Op, Then, connect_string, shared_server, wait_until,
};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, SessionKey, ZooKeeper};

use crate::util::{SESSION, SOON, Stage, kind, make_ephemeral};

#[test]
fn session_whose_key_somebody_has_is_ended_at_once() {
    let stage = Stage::new("ended", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let key = stage.client.session_key().unwrap();
    assert_eq!(key.id, stage.client.session_id());
    assert_eq!(key.timeout, stage.client.session_timeout());
    assert!(!format!("{key:?}").contains("password"));
    // The client is cut off, as if its process had died.
    stage.proxy.black_hole(Direction::Both);
    let builder = ZooKeeper::builder(&connect_string());
    builder.clone().end_session(&key, ()).unwrap();
    assert!(!stage.probe().exists(&path).unwrap());
    // Ending the session a second time has nothing left to do.
    builder.end_session(&key, ()).unwrap();
    stage.proxy.restore();
    stage.events.until(SessionEventKind::Expired);
    wait_until("another session", SOON, || {
        stage.client.session_key().is_some_and(|other| other.id != key.id)
    });
}

#[test]
fn session_is_kept_whose_password_is_wrong() {
    let stage = Stage::new("kept", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let key = stage.client.session_key().unwrap();
    let wrong = SessionKey { password: vec![7; 16], ..key };
    // With a wrong key, the servers only report that there is no such session.
    ZooKeeper::builder(&connect_string()).end_session(&wrong, ()).unwrap();
    assert_eq!(kind(ZooKeeper::builder("a b").end_session(&wrong, ())), ErrorKind::BadArguments);
    assert!(stage.probe().exists(&path).unwrap());
    stage.client.renew_lease().unwrap();
}

#[test]
fn session_ends_soon_though_no_close_arrives() {
    let stage = Stage::new("unheard", SESSION);
    let path = make_ephemeral(&stage.client, &stage.path("a"));
    let key = stage.client.session_key().unwrap();
    stage.proxy.black_hole(Direction::Both);
    let other = FaultProxy::start(shared_server().address()).unwrap();
    let drop_close = |nth| other.on(Op::CloseSession).nth(nth).drop_request(Then::Cut);
    let dropped: Vec<_> = (1..200).map(drop_close).collect();
    let begun = Instant::now();
    let ended = ZooKeeper::builder(&other.connect_string()).end_session(&key, ());
    println!("{ended:?}, {} closes", other.requests(Op::CloseSession));
    assert!(ended.is_err() && dropped[0].wait(SOON));
    // The session was resumed with the shortest timeout that the servers grant.
    wait_until("it expires", SOON, || !stage.probe().exists(&path).unwrap());
    assert!(begun.elapsed() < SESSION / 2);
}
