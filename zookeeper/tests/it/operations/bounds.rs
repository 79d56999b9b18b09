//! The limit of requests.

use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Permissions};

use crate::util::{SESSION, Stage, kind, said};

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
    let long_acl = vec![Acl::new(Permissions::ALL, "ip", "1".repeat(LONGEST))];
    assert_eq!(kind(client.set_acl(&path, &long_acl, None)), ErrorKind::BadArguments);
    let (connections, told) = (stage.proxy.connections(), stage.told.all());
    println!("{connections} connection, {told:?}");
    assert!(connections == 1 && told.is_empty());
}
