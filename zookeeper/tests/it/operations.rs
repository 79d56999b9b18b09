//! The effect of each operation, and the error of each refusal.

mod bounds;
mod credentials;
mod modes;
mod multi;
mod roots;
mod submitted;

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use zoolock_test_support::{Op, fresh_path};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Permissions, State};

use crate::util::{
    BRIEFLY, CALLS, SESSION, SOON, Stage, Told, client, kind, make, make_ephemeral, root, said,
};

#[test]
fn acl_decides_each_users_permissions() {
    let client = client();
    let path = root("acl");
    let open = format!("{path}/open");
    let anyone = |permissions| vec![Acl::new(permissions, "world", "anyone")];
    make(&client, &open, b"data");
    let no_write = anyone(Permissions::READ | Permissions::ADMIN);
    client.set_acl(&open, &no_write, None).unwrap();
    assert_eq!(client.get_acl(&open).unwrap().0, no_write);
    assert_eq!(kind(client.set_data(&open, b"", None)), ErrorKind::NoAuth);
    let below = client.create(&format!("{open}/a"), b"", &no_write, CreateMode::Persistent);
    assert_eq!(kind(below), ErrorKind::NoAuth);
    client.set_acl(&open, &Acl::read_only(), None).unwrap();
    assert_eq!(kind(client.set_acl(&open, &no_write, None)), ErrorKind::NoAuth);
    client.get_data(&open).unwrap();
    // The parent decides whether a node may be deleted.
    client.delete(&open, None).unwrap();
    let several = [
        Acl::new(Permissions::READ, "ip", "127.0.0.1"),
        Acl::new(Permissions::ALL, "world", "anyone"),
    ];
    client.create(&open, b"", &several, CreateMode::Persistent).unwrap();
    let found = client.get_acl(&open).unwrap().0;
    println!("{found:?}");
    assert_eq!(found, several);
    for invalid in [vec![], vec![Acl::new(Permissions::ALL, "nonsense", "x")]] {
        let created = client.create(&format!("{path}/b"), b"", &invalid, CreateMode::Persistent);
        assert_eq!(kind(created), ErrorKind::InvalidAcl, "{invalid:?}");
        assert_eq!(kind(client.set_acl(&path, &invalid, None)), ErrorKind::InvalidAcl);
    }
}

#[test]
fn refusal_names_the_request_and_the_reason() {
    use ErrorKind::*;
    let client = client();
    let path = root("refused");
    let at = |name: &str| format!("{path}/{name}");
    let (none, full, short, locked) = (at("none"), at("full"), at("short"), at("locked"));
    make(&client, &full, b"");
    make(&client, &format!("{full}/a"), b"");
    make_ephemeral(&client, &short);
    client.create(&locked, b"", &Acl::read_only(), CreateMode::Persistent).unwrap();
    let create = |path: &str| client.create(path, b"", &Acl::open(), CreateMode::Persistent);
    let missing = [
        said(create(&format!("{none}/a"))),
        said(client.delete(&none, None)),
        said(client.get_data(&none)),
        said(client.set_data(&none, b"", None)),
        said(client.get_children(&none)),
        said(client.get_acl(&none)),
        said(client.set_acl(&none, &Acl::open(), None)),
    ];
    let missing = missing.map(|said| (said, NoNode, &none, "there is no such node"));
    let below = create(&format!("{short}/a"));
    let cases = [
        (said(create(&full)), NodeExists, &full, "the node exists"),
        (said(below), NoChildrenForEphemerals, &short, "an ephemeral node has no children"),
        (said(client.delete(&full, None)), NotEmpty, &full, "the node has children"),
        (said(client.delete(&short, Some(7))), BadVersion, &short, "the node has another version"),
        (said(client.set_data(&locked, b"", None)), NoAuth, &locked, "the ACL does not allow it"),
        (said(client.set_acl(&full, &[], None)), InvalidAcl, &full, "the ACL is invalid"),
    ];
    for ((kind, text), wanted, path, why) in cases.into_iter().chain(missing) {
        assert_eq!(kind, wanted, "{text}");
        assert!(text.starts_with("failed to ") && text.contains(path.as_str()), "{text}");
        assert!(text.ends_with(why), "{text}");
    }
    let error = create(&full).unwrap_err();
    assert_eq!(error.to_string(), format!("failed to create `{full}`: the node exists"));
    assert!(!error.is_maybe_done() && error.failed_op().is_none());
}

#[test]
fn timeouts_may_be_zero_or_unlimited() {
    let stage = Stage::new("extremes", SESSION);
    let for_ever = stage.client.with_timeout(Duration::MAX);
    make(&for_ever, &stage.path("a"), b"");
    let held = stage.proxy.hold_answer(Op::Sync, 1);
    for timeout in [BRIEFLY, Duration::ZERO] {
        let begun = Instant::now();
        assert_eq!(kind(stage.client.with_timeout(timeout).sync("/")), ErrorKind::Timeout);
        assert!(held.fired() && begun.elapsed() >= timeout);
    }
    held.release();
    // The late answer reaches no other request.
    assert_eq!(stage.client.get_data(&stage.root).unwrap().0, b"");
    assert!(stage.told.all().is_empty() && stage.proxy.connections() == 1);
    stage.suspend();
    assert_eq!(stage.client.state(), State::Suspended);
    let none = kind(stage.client.with_timeout(Duration::ZERO).sync("/"));
    assert_eq!(none, ErrorKind::NoConnection);
    let waits = for_ever.submit(|batch| batch.exists(&stage.root, None));
    stage.resume();
    assert!(waits.wait().unwrap().is_some());
}

#[test]
fn closed_client_refuses_everything() {
    let client = client();
    let told = Told::by(&client);
    let path = fresh_path("closed");
    let id = client.session_id();
    client.close().unwrap();
    assert_eq!(client.state(), State::Closed);
    for call in &CALLS {
        let error = call(&client, &path).unwrap_err();
        println!("{error}");
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(!error.is_maybe_done());
    }
    assert_eq!(kind(client.add_auth("digest", b"a:b")), ErrorKind::Closed);
    assert_eq!(kind(client.delete_eventually(&path).wait()), ErrorKind::Closed);
    let pending = client.submit(|batch| batch.exists(&path, None));
    assert_eq!(kind(pending.wait()), ErrorKind::Closed);
    let (say, called) = bounded(1);
    client.submit(|batch| batch.exists(&path, None)).on_done(move |result| {
        say.send(kind(result)).unwrap();
    });
    assert_eq!(called.recv_timeout(SOON), Ok(ErrorKind::Closed));
    drop(client.keep_lease());
    assert!(client.valid_for().is_zero());
    let kinds = told.kinds();
    assert_eq!(kinds, [zoolock_zookeeper::SessionEventKind::Closed]);
    assert_eq!(told.all()[0].session_id, id);
}
