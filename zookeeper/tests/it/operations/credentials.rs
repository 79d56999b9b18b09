//! Credentials: sent on every connection, and shown to nobody else.

use std::time::Instant;

use zoolock_test_support::{Op, connect_string, wait_until};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, SessionEventKind, ZooKeeper};

use crate::util::{SESSION, SOON, Stage, Told, builder, client, kind, logged, make, said};

const WHO: &[u8] = b"owner:correct-horse";

/// A node that only this client can read.
fn own(client: &ZooKeeper, path: &str) {
    client.create(path, b"own", &Acl::creator_all(), CreateMode::Persistent).unwrap();
}

#[test]
fn credentials_added_later_are_sent_on_every_later_connection() {
    let stage = Stage::new("auth", SESSION);
    let path = stage.path("own");
    let stranger = client();
    for who in [WHO, WHO, b"second:x"] {
        stage.client.add_auth("digest", who).unwrap();
    }
    own(&stage.client, &path);
    assert_eq!(stage.client.get_acl(&path).unwrap().0.len(), 2);
    stage.proxy.cut();
    stage.told.until(SessionEventKind::Resumed);
    stage.client.get_data(&path).unwrap();
    assert_eq!(stage.proxy.requests(Op::Auth), 5, "the same is sent once a connection");
    assert_eq!(kind(stranger.get_data(&path)), ErrorKind::NoAuth);
    stranger.add_auth("digest", b"owner:wrong").unwrap();
    assert_eq!(kind(stranger.get_data(&path)), ErrorKind::NoAuth);
    stranger.add_auth("digest", WHO).unwrap();
    stranger.get_data(&path).unwrap();
}

#[test]
fn server_tells_whom_it_takes_the_client_for() {
    let client = client();
    let own = [("ip", "127.0.0.1"), ("digest", "owner"), ("digest", "second")];
    let own = own.map(|(scheme, user)| (scheme.to_owned(), user.to_owned()));
    match client.who_am_i() {
        // Servers before 3.7 do not know the request.
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unimplemented),
        Ok(first) => {
            assert_eq!(first, own[..1]);
            for who in [WHO, b"second:x"] {
                client.add_auth("digest", who).unwrap();
            }
            let mut all = client.who_am_i().unwrap();
            all.sort_by_key(|id| own.iter().position(|other| other == id));
            assert_eq!(all, own);
        }
    }
}

#[test]
fn refused_credentials_are_named_and_the_session_continues() {
    let stage = Stage::new("auth", SESSION);
    let path = stage.path("own");
    let id = stage.client.session_id();
    stage.client.add_auth("digest", WHO).unwrap();
    own(&stage.client, &path);
    for _ in 0..3 {
        let (kind, text) = said(stage.client.add_auth("nonsense", b"secret-x"));
        assert_eq!(kind, ErrorKind::AuthFailed);
        assert!(text.contains("`nonsense`") && !text.contains("secret-x"), "{text}");
        // The server hangs up.
        stage.told.until(SessionEventKind::Resumed);
        stage.client.get_data(&path).unwrap();
    }
    assert_eq!(stage.client.session_id(), id);
    stage.proxy.cut();
    stage.told.until(SessionEventKind::Resumed);
    stage.client.get_data(&path).unwrap();
    let turn = [SessionEventKind::Suspended, SessionEventKind::Resumed];
    assert_eq!(stage.told.kinds(), turn.repeat(4), "the refused are not sent again");
}

#[test]
fn refused_credentials_fail_the_connect() {
    let builder = builder(&connect_string(), SESSION).auth("digest", WHO);
    let begun = Instant::now();
    let (kind, text) = said(builder.auth("nonsense", b"secret-y").connect());
    assert_eq!(kind, ErrorKind::AuthFailed);
    assert!(text.contains("`nonsense`") && !text.contains("secret-y"), "{text}");
    assert!(begun.elapsed() < SOON);
}

#[test]
fn secret_appears_in_no_output() {
    logged("");
    let secrets = ["tell-no-one-1", "tell-no-one-2", "tell-no-one-3", "tell-no-one-4"];
    let stage = Stage::new("secret", SESSION);
    let credential = |number: usize| format!("user:{}", secrets[number]).into_bytes();
    let servers = stage.proxy.connect_string();
    let builder = builder(&servers, SESSION).auth("digest", &credential(0));
    let mut said = format!("{builder:?}");
    let client = builder.clone().connect().unwrap();
    let told = Told::by(&client);
    client.add_auth("digest", &credential(1)).unwrap();
    let refused = client.add_auth("nonsense", &credential(2)).unwrap_err();
    // The server hangs up.
    told.until(SessionEventKind::Resumed);
    let not_at_all = builder.auth("nonsense", &credential(3)).connect().unwrap_err();
    stage.proxy.cut();
    told.until(SessionEventKind::Resumed);
    make(&client, &stage.path("a"), b"tell-no-one-5");
    let data =
        client.create(&stage.path("a"), b"tell-no-one-6", &Acl::open(), CreateMode::Persistent);
    said += &format!("{client:?} {refused:?} {refused} {not_at_all:?} {not_at_all} {data:?}");
    client.close().unwrap();
    assert!(!said.contains("tell-no-one"), "{said}");
    // The lines come in order, but later.
    wait_until("the cut is logged", SOON, || !logged(&servers).is_empty());
    let lines = logged("tell-no-one");
    assert!(lines.is_empty(), "{lines:?}");
}
