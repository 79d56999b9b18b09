//! What is over with a session, and what goes on.

use zoolock_test_support::{Op, Then};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, State};

use crate::util::{BRIEFLY, CALLS, SESSION, SOON, Stage, kind, make_ephemeral, prepare};

#[test]
fn after_an_expired_session_comes_another() {
    let stage = Stage::new("expired", SESSION);
    let old = stage.client.session_id();
    let term = stage.client.lease().term;
    let (in_old, path) = (stage.client.in_session(old), stage.path("a"));
    make_ephemeral(&stage.client, &path);
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1);
    let expired = stage.told.until(SessionEventKind::Expired);
    let connected = stage.told.until(SessionEventKind::Connected);
    let new = stage.client.session_id();
    println!("{old:x}, then {new:x}; {:?}", stage.client.lease());
    assert_eq!((expired.session_id, connected.session_id), (old, new));
    assert!(new != old && new != 0);
    assert!(stage.client.lease().term > term && !stage.client.valid_for().is_zero());
    assert_eq!(stage.client.exists(&path).unwrap(), None, "ephemeral nodes are gone");
    prepare(&stage.probe(), &stage.path("calls"));
    for call in &CALLS {
        let refused = (call.call)(&in_old, &stage.path("calls"));
        assert_eq!(kind(refused), ErrorKind::SessionExpired, "{}", call.name);
    }
    for call in &CALLS {
        (call.call)(&stage.client.in_session(new), &stage.path("calls")).unwrap();
    }
}

#[test]
fn between_two_sessions_there_is_none() {
    let stage = Stage::new("between", SESSION);
    let old = stage.client.session_id();
    stage.suspend();
    assert_eq!((stage.client.state(), stage.client.session_id()), (State::Suspended, old));
    stage.proxy.expire_sessions().unwrap();
    // It is told that the old one has expired, and gets no new one.
    let silent = stage.proxy.drop_answer(Op::Connect, 2, Then::Hold);
    stage.proxy.refuse(false);
    stage.told.until(SessionEventKind::Expired);
    assert!(silent.wait(SOON));
    // Nor when it has given that handshake up.
    stage.proxy.refuse(true);
    assert_eq!((stage.client.state(), stage.client.session_id()), (State::Connecting, 0));
    assert!(stage.client.valid_for().is_zero());
    let error = stage.client.with_timeout(BRIEFLY).exists("/").unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::NoConnection);
    let waiting = stage.client.submit(|batch| batch.exists("/", None));
    stage.proxy.restore();
    stage.told.until(SessionEventKind::Connected);
    assert!(waiting.wait().unwrap().is_some());
}
