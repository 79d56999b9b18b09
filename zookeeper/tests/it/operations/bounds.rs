//! The limits of requests and answers.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use zoolock_test_support::Server;
use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Op as Change};

use crate::util::{SESSION, Stage, client_of, kind, make, said};

/// For a server that may be silent for long.
const LONG: Duration = Duration::from_secs(60);
/// The longest request that a server accepts.
const LONGEST: usize = 0xf_ffff;
/// A `create` with an open ACL: its two headers, three lengths, the ACL and the flags.
const AROUND_CREATE: usize = 8 + 4 + 4 + 4 + (4 + 4 + 5 + 4 + 6) + 4;
/// A `setData` without its path and data.
const AROUND_SET: usize = 8 + 4 + 4 + 4;

#[test]
fn request_over_the_servers_limit_is_never_sent() {
    let stage = Stage::new("long", SESSION);
    let client = &stage.client;
    let path = stage.path("a");
    let data: Vec<u8> = (0..=LONGEST).map(|n| (n % 251) as u8).collect();
    let create =
        |length: usize| client.create(&path, &data[..length], &Acl::open(), CreateMode::Persistent);
    let longest = LONGEST - AROUND_CREATE - path.len();
    let (kind_, text) = said(create(longest + 1));
    assert_eq!(kind_, ErrorKind::BadArguments, "{text}");
    assert_eq!(create(longest).unwrap().1.data_length as usize, longest);
    assert!(client.get_data(&path).unwrap().0 == data[..longest]);
    let longest = LONGEST - AROUND_SET - path.len();
    let too_long = client.set_data(&path, &data[..=longest], None);
    assert_eq!(kind(too_long), ErrorKind::BadArguments);
    let stat = client.set_data(&path, &data[..longest], None).unwrap();
    let read = client.get_data(&path).unwrap();
    assert!(read == (data[..longest].to_vec(), stat));

    let long_path = format!("/{}", "p".repeat(LONGEST));
    assert_eq!(kind(client.exists(&long_path)), ErrorKind::BadArguments);
    assert_eq!(kind(client.delete_eventually(&long_path).wait()), ErrorKind::BadArguments);
    let long_acl = vec![Acl::new(zoolock_zookeeper::Permissions::ALL, "ip", "1".repeat(LONGEST))];
    assert_eq!(kind(client.set_acl(&path, &long_acl, None)), ErrorKind::BadArguments);
    let (connections, told) = (stage.proxy.connections(), stage.told.all());
    println!("{connections} connection, {told:?}");
    assert!(connections == 1 && told.is_empty());
}

#[test]
fn client_lists_a_hundred_thousand_children() {
    // A server for this test, since it is busy for some seconds.
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), LONG);
    let root = make(&client, "/children", b"");
    let acl = Acl::open();
    let names: Vec<String> = (0..100_000).map(|n| format!("child-{n:08}")).collect();
    let paths: Vec<String> = names.iter().map(|name| format!("{root}/{name}")).collect();
    let create = |path| Change::Create(path, b"", &acl, CreateMode::Ephemeral);
    let submitted: Vec<_> = paths
        .chunks(1000)
        .map(|chunk| {
            let ops: Vec<_> = chunk.iter().map(|path| create(path.as_str())).collect();
            client.submit(|batch| batch.multi(&ops))
        })
        .collect();
    for pending in submitted {
        assert_eq!(pending.wait().unwrap().len(), 1000);
    }
    let begun = Instant::now();
    let (listed, stat) = client.get_children(&root).unwrap();
    println!("{} names in {:?}", listed.len(), begun.elapsed());
    assert_eq!(stat.num_children, 100_000);
    let (listed, names): (HashSet<_>, HashSet<_>) =
        (listed.iter().collect(), names.iter().map(String::as_str).collect());
    assert!(listed == names);
}
