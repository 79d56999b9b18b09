//! All operations, for tests that must cover each of them.

use zoolock_zookeeper::{Acl, CreateMode, Op, Result, ZooKeeper};

type Call = fn(&ZooKeeper, &str) -> Result<()>;

/// Calls that each act on a node or on nodes below it.
pub(crate) const CALLS: [Call; 11] = [
    |client, path| {
        let path = format!("{path}/new");
        client.create(&path, b"", &Acl::open(), CreateMode::Persistent).map(drop)
    },
    |client, path| client.delete(&format!("{path}/gone"), None),
    |client, path| client.exists(path).map(drop),
    |client, path| client.get_data(path).map(drop),
    |client, path| client.set_data(path, b"new", None).map(drop),
    |client, path| client.get_children(path).map(drop),
    |client, path| client.get_acl(path).map(drop),
    |client, path| client.set_acl(path, &Acl::open(), None).map(drop),
    |client, path| client.sync(path),
    |client, _| client.who_am_i().map(drop),
    |client, path| client.multi(&[Op::SetData(path, b"new", None)]).map(drop),
];
