//! The effect of each operation, and the error of each refusal.

mod bounds;
mod credentials;
mod modes;
mod multi;
mod roots;
mod sharing;
mod submitted;

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use zoolock_test_support::{Op, fresh_path};
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Permissions, State};

use crate::util::{
    BRIEFLY, CALLS, SESSION, SOON, Stage, Told, client, kind, make, make_ephemeral, root, said,
};

#[test]
fn written_data_is_read_back() {
    let client = client();
    let root = root("written");
    let path = format!("{root}/näme 名前");
    let data: [&[u8]; 4] = [b"", b"plain", "nicht ASCII: é, 名".as_bytes(), &[0, 255, 0, 128]];
    let (created, stat) =
        client.create(&path, data[1], &Acl::open(), CreateMode::Persistent).unwrap();
    assert_eq!(created, path);
    assert_eq!((stat.version, stat.data_length, stat.ephemeral_owner), (0, 5, 0));
    assert_eq!(client.get_data(&path).unwrap(), (data[1].to_vec(), stat));
    assert_eq!(client.exists(&path).unwrap(), Some(stat));
    for (version, data) in (1..).zip(data) {
        let stat = client.set_data(&path, data, None).unwrap();
        println!("{stat:?}");
        assert_eq!((stat.version, stat.data_length), (version, data.len() as i32));
        assert_eq!(client.get_data(&path).unwrap(), (data.to_vec(), stat));
    }
    let (names, stat) = client.get_children(&root).unwrap();
    assert_eq!(names, ["näme 名前"]);
    assert_eq!(stat.num_children, 1);
    client.sync(&path).unwrap();
    client.delete(&path, None).unwrap();
    assert_eq!(client.exists(&path).unwrap(), None);
    assert_eq!(client.get_children(&root).unwrap().0, [""; 0]);
}

#[test]
fn change_with_another_version_is_refused() {
    let client = client();
    let path = root("versions");
    assert_eq!(client.set_data(&path, b"1", Some(0)).unwrap().version, 1);
    for wrong in [0, 2, i32::MAX] {
        assert_eq!(kind(client.set_data(&path, b"2", Some(wrong))), ErrorKind::BadVersion);
        assert_eq!(kind(client.delete(&path, Some(wrong))), ErrorKind::BadVersion);
    }
    assert_eq!(client.get_data(&path).unwrap().0, b"1");
    let (acl, stat) = client.get_acl(&path).unwrap();
    assert_eq!((&acl, stat.aversion), (&Acl::open(), 0));
    assert_eq!(client.set_acl(&path, &acl, Some(0)).unwrap().aversion, 1);
    assert_eq!(kind(client.set_acl(&path, &acl, Some(0))), ErrorKind::BadVersion);
    assert_eq!(client.set_acl(&path, &acl, None).unwrap().aversion, 2);
    client.delete(&path, Some(1)).unwrap();
}

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
    let create = |path: &str| {
        let created = client.create(path, b"", &Acl::open(), CreateMode::Persistent);
        said(created.map(drop))
    };
    let cases = [
        (create(&full), NodeExists, &full, "the node exists"),
        (create(&format!("{none}/a")), NoNode, &none, "there is no such node"),
        (
            create(&format!("{short}/a")),
            NoChildrenForEphemerals,
            &short,
            "an ephemeral node has no children",
        ),
        (said(client.delete(&none, None)), NoNode, &none, "there is no such node"),
        (said(client.delete(&full, None)), NotEmpty, &full, "the node has children"),
        (said(client.delete(&short, Some(7))), BadVersion, &short, "the node has another version"),
        (said(client.get_data(&none)), NoNode, &none, "there is no such node"),
        (said(client.set_data(&none, b"", None)), NoNode, &none, "there is no such node"),
        (said(client.get_children(&none)), NoNode, &none, "there is no such node"),
        (said(client.get_acl(&none)), NoNode, &none, "there is no such node"),
        (said(client.set_acl(&none, &Acl::open(), None)), NoNode, &none, "there is no such node"),
        (said(client.set_data(&locked, b"", None)), NoAuth, &locked, "the ACL does not allow it"),
        (said(client.set_acl(&full, &[], None)), InvalidAcl, &full, "the ACL is invalid"),
    ];
    for ((kind, text), wanted, path, why) in cases {
        assert_eq!(kind, wanted, "{text}");
        assert!(text.starts_with("failed to ") && text.contains(path.as_str()), "{text}");
        assert!(text.ends_with(why), "{text}");
    }
    let error = client.create(&full, b"", &Acl::open(), CreateMode::Persistent).unwrap_err();
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
fn handle_for_a_session_is_refused_in_any_other() {
    let client = client();
    let path = root("in_session");
    let id = client.session_id();
    assert_ne!(id, 0);
    make(&client.in_session(id), &format!("{path}/a"), b"");
    for call in &CALLS {
        let (kind, text) = said(call(&client.in_session(id + 1), &path));
        assert_eq!(kind, ErrorKind::SessionExpired, "{text}");
    }
    assert_eq!(kind(client.in_session(0).add_auth("digest", b"a:b")), ErrorKind::SessionExpired);
    let other = client.in_session(1).delete_eventually(&format!("{path}/a"));
    assert_eq!(kind(other.wait()), ErrorKind::SessionExpired);
    assert_eq!(client.get_children(&path).unwrap().0, ["a"]);
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
