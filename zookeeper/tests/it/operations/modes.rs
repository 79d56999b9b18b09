//! Nodes of each mode.

use std::time::Duration;

use zoolock_test_support::{Server, wait_until};
use zoolock_zookeeper::{Acl, CreateMode, Op};

use crate::util::{SESSION, SOON, client_of, created, make};

const TTL: Duration = Duration::from_millis(300);

#[test]
fn each_mode_creates_its_kind_of_node_alone_and_in_a_transaction() {
    // It knows all modes, and cleans up often instead of once a minute.
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
    // A number may be the whole name.
    let nameless = client.create("/modes/", b"", &Acl::open(), CreateMode::PersistentSequential);
    assert_eq!(nameless.unwrap().0, "/modes/0000000007");

    let acl = Acl::open();
    let create = |path, mode| Op::Create(path, b"x", &acl, mode);
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
        [("/container", CreateMode::Container), ("/ttl", CreateMode::PersistentWithTtl(TTL))]
    {
        client.create(path, b"", &acl, mode).unwrap();
    }
    let child = make(&client, "/container/child", b"");
    wait_until("the time is over", SOON, || client.exists("/ttl").unwrap().is_none());
    assert!(client.exists("/container").unwrap().is_some(), "it has a child");
    client.delete(&child, None).unwrap();
    wait_until("the container is gone", SOON, || client.exists("/container").unwrap().is_none());
}
