//! The effect of each operation, and the error with which it may be refused.

mod credentials;
mod roots;

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use zoolock_test_support::{Op, Server, fresh_path, wait_until};
use zoolock_zookeeper::{
    Acl, CreateMode, ErrorKind, Op as Change, Permissions, SessionEventKind, State,
};

use crate::util::{
    BRIEFLY, CALLS, Events, SESSION, SHORT, SOON, Stage, client, client_of, created, kind, make,
    make_ephemeral, root, said,
};

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
    let missing = missing.map(|said| (said, NoNode, &none, "the node does not exist"));
    let below = create(&format!("{short}/a"));
    let ttl = CreateMode::PersistentWithTtl(SHORT);
    let with_ttl = client.create(&none, b"", &Acl::open(), ttl);
    let cases = [
        (said(create(&full)), NodeExists, &full, "the node already exists"),
        (said(below), NoChildrenForEphemerals, &short, "an ephemeral node cannot have children"),
        (said(client.delete(&full, None)), NotEmpty, &full, "the node has children"),
        (said(client.delete(&short, Some(7))), BadVersion, &short, "the node has another version"),
        (said(client.set_data(&locked, b"", None)), NoAuth, &locked, "the ACL denies permission"),
        (said(client.set_acl(&full, &[], None)), InvalidAcl, &full, "the ACL is invalid"),
        (
            said(with_ttl),
            Unimplemented,
            &none,
            "does not support this operation, or has disabled it",
        ),
    ];
    for ((kind, text), wanted, path, why) in cases.into_iter().chain(missing) {
        assert_eq!(kind, wanted, "{text}");
        assert!(text.starts_with("failed to ") && text.contains(path.as_str()), "{text}");
        assert!(text.ends_with(why), "{text}");
    }
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
    // The late answer must not be given to another request.
    assert_eq!(stage.client.get_data(&stage.root).unwrap().0, b"");
    assert!(stage.events.all().is_empty() && stage.proxy.connections() == 1);
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
    let events = Events::of(&client);
    let path = fresh_path("closed");
    let id = client.session_id();
    client.close().unwrap();
    assert_eq!(client.state(), State::Closed);
    for call in &CALLS {
        let error = call(&client, &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(!error.is_maybe_done());
    }
    assert_eq!(kind(client.add_auth("digest", b"a:b")), ErrorKind::Closed);
    assert_eq!(kind(client.delete_eventually(&path).wait()), ErrorKind::Closed);
    let (say, called) = bounded(1);
    client.submit(|batch| batch.exists(&path, None)).on_done(move |result| {
        say.send(kind(result)).unwrap();
    });
    assert_eq!(called.recv_timeout(SOON), Ok(ErrorKind::Closed));
    drop(client.keep_lease());
    assert!(client.valid_for().is_zero());
    assert_eq!(events.kinds(), [SessionEventKind::Closed]);
    assert_eq!(events.all()[0].session_id, id);
}

#[test]
fn request_over_the_servers_limit_is_never_sent() {
    /// The longest request that a server accepts.
    const LONGEST: usize = 0xf_ffff;
    /// The rest of a `create` with an open ACL: its two headers, three lengths, the ACL and the flags.
    const AROUND_CREATE: usize = 8 + 4 + 4 + 4 + (4 + 4 + 5 + 4 + 6) + 4;
    let stage = Stage::new("long", SESSION);
    let (client, path) = (&stage.client, stage.path("a"));
    let data: Vec<u8> = (0..=LONGEST).map(|n| (n % 251) as u8).collect();
    let create =
        |length: usize| client.create(&path, &data[..length], &Acl::open(), CreateMode::Persistent);
    let longest = LONGEST - AROUND_CREATE - path.len();
    let long_path = format!("/{}", "p".repeat(LONGEST));
    let long_acl = vec![Acl::new(Permissions::ALL, "ip", "1".repeat(LONGEST))];
    for (kind, text) in [
        said(create(longest + 1)),
        said(client.set_data("/", &data, None)),
        said(client.exists(&long_path)),
        said(client.delete_eventually(&long_path).wait()),
        said(client.set_acl(&path, &long_acl, None)),
    ] {
        assert_eq!(kind, ErrorKind::BadArguments, "{text}");
    }
    assert_eq!(create(longest).unwrap().1.data_length as usize, longest);
    assert!(client.get_data(&path).unwrap().0 == data[..longest]);
    assert!(stage.proxy.connections() == 1 && stage.events.all().is_empty());
}

#[test]
fn each_mode_creates_its_kind_of_node_alone_and_in_a_transaction() {
    // This server supports all modes, and removes empty containers several times a second instead of once a minute.
    let server = Server::builder()
        .jvm_flag("-Dzookeeper.extendedTypesEnabled=true")
        .jvm_flag("-Dznode.container.checkIntervalMs=200");
    let server = server.start().unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    let own = client.session_id();
    make(&client, "/modes", b"");
    let longest = Duration::from_millis((1 << 40) - 1);
    let modes = [
        (CreateMode::Persistent, "/modes/n0", 0),
        (CreateMode::Ephemeral, "/modes/n1", own),
        (CreateMode::PersistentSequential, "/modes/n0000000002", 0),
        (CreateMode::EphemeralSequential, "/modes/n0000000003", own),
        (CreateMode::Container, "/modes/n4", 0),
        (CreateMode::PersistentWithTtl(longest), "/modes/n5", 0),
        (CreateMode::PersistentSequentialWithTtl(longest), "/modes/n0000000006", 0),
    ];
    for (number, (mode, path, owner)) in modes.into_iter().enumerate() {
        let is_numbered = path.ends_with(&format!("{number:010}"));
        let asked = if is_numbered { "/modes/n" } else { path };
        let (created, stat) = client.create(asked, b"x", &Acl::open(), mode).unwrap();
        assert_eq!((created.as_str(), stat.ephemeral_owner), (path, owner), "{mode:?}");
        assert_eq!(client.get_data(path).unwrap(), (b"x".to_vec(), stat));
    }
    // A node's whole name may be its number.
    let nameless = client.create("/modes/", b"", &Acl::open(), CreateMode::PersistentSequential);
    assert_eq!(nameless.unwrap().0, "/modes/0000000007");

    let acl = Acl::open();
    let create = |path, mode| Change::Create(path, b"x", &acl, mode);
    let made = client.multi(&[
        create("/m", CreateMode::Container),
        create("/m/n", CreateMode::EphemeralSequential),
        create("/m/n", CreateMode::PersistentSequential),
        create("/m/t", CreateMode::PersistentWithTtl(longest)),
        create("/m/t", CreateMode::PersistentSequentialWithTtl(longest)),
        create("/m/e", CreateMode::Ephemeral),
    ]);
    let paths = ["/m", "/m/n0000000000", "/m/n0000000001", "/m/t", "/m/t0000000003", "/m/e"];
    assert_eq!(created(&made.unwrap()), paths);
    let owner = |path: &str| client.exists(path).unwrap().unwrap().ephemeral_owner;
    assert_eq!(paths.map(owner), [0, own, 0, 0, 0, own]);

    for (path, mode) in
        [("/container", CreateMode::Container), ("/ttl", CreateMode::PersistentWithTtl(BRIEFLY))]
    {
        client.create(path, b"", &acl, mode).unwrap();
    }
    let child = make(&client, "/container/child", b"");
    wait_until("the time is over", SOON, || client.exists("/ttl").unwrap().is_none());
    assert!(client.exists("/container").unwrap().is_some(), "it has a child");
    client.delete(&child, None).unwrap();
    wait_until("the container is gone", SOON, || client.exists("/container").unwrap().is_none());
}
