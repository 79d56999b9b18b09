//! Credentials are sent on every connection, and nobody else receives them.

use std::time::Instant;

use zoolock_test_support::{Op, connect_string};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, SessionEventKind, ZooKeeper};

use crate::util::{SESSION, SOON, Stage, builder, client, kind, said};

const WHO: &[u8] = b"owner:correct-horse";

/// Creates a node that only this client can read.
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
    stage.events.until(SessionEventKind::Resumed);
    stage.client.get_data(&path).unwrap();
    assert_eq!(stage.proxy.requests(Op::Auth), 5, "the same is sent once a connection");
    assert_eq!(kind(stranger.get_data(&path)), ErrorKind::NoAuth);
    stranger.add_auth("digest", b"owner:wrong").unwrap();
    assert_eq!(kind(stranger.get_data(&path)), ErrorKind::NoAuth);
    stranger.add_auth("digest", WHO).unwrap();
    stranger.get_data(&path).unwrap();
}

#[test]
fn server_reports_the_identities_of_the_client() {
    let client = client();
    let own = [("ip", "127.0.0.1"), ("digest", "owner"), ("digest", "second")];
    let own = own.map(|(scheme, user)| (scheme.to_owned(), user.to_owned()));
    match client.who_am_i() {
        // Servers before 3.7 do not support this request.
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
        // Because it rejects the credentials, the server closes the connection.
        stage.events.until(SessionEventKind::Resumed);
        stage.client.get_data(&path).unwrap();
    }
    assert_eq!(stage.client.session_id(), id);
    stage.proxy.cut();
    stage.events.until(SessionEventKind::Resumed);
    stage.client.get_data(&path).unwrap();
    let turn = [SessionEventKind::Suspended, SessionEventKind::Resumed];
    assert_eq!(stage.events.kinds(), turn.repeat(4), "the refused are not sent again");
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
