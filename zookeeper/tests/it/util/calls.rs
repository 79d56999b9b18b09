//! Every operation, for tests that are about all of them.

use zoolock_test_support::{Op, Probe};
use zoolock_zookeeper::{Acl, CreateMode, Op as Change, Result, ZooKeeper};

/// One operation at a node that [`prepare`] has made.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// What the proxy calls it.
    pub(crate) op: Op,
    pub(crate) call: fn(&ZooKeeper, &str) -> Result<()>,
    /// Whether it was carried out; none for those that change nothing.
    pub(crate) is_done: Option<fn(&Probe, &str) -> bool>,
}

/// Makes what the calls are about: a node and a child of it.
pub(crate) fn prepare(probe: &Probe, path: &str) {
    probe.create_all(&format!("{path}/gone")).unwrap();
}

fn is_set(probe: &Probe, path: &str) -> bool {
    probe.stat(path).unwrap().unwrap().version > 0
}

pub(crate) const CALLS: [Call; 10] = [
    Call {
        name: "create",
        op: Op::Create,
        call: |client, path| {
            let path = format!("{path}/new");
            let created = client.create(&path, b"", &Acl::open(), CreateMode::Persistent);
            created.map(drop)
        },
        is_done: Some(|probe, path| probe.exists(&format!("{path}/new")).unwrap()),
    },
    Call {
        name: "delete",
        op: Op::Delete,
        call: |client, path| client.delete(&format!("{path}/gone"), None),
        is_done: Some(|probe, path| !probe.exists(&format!("{path}/gone")).unwrap()),
    },
    Call {
        name: "exists",
        op: Op::Exists,
        call: |client, path| client.exists(path).map(drop),
        is_done: None,
    },
    Call {
        name: "get_data",
        op: Op::GetData,
        call: |client, path| client.get_data(path).map(drop),
        is_done: None,
    },
    Call {
        name: "set_data",
        op: Op::SetData,
        call: |client, path| client.set_data(path, b"new", None).map(drop),
        is_done: Some(is_set),
    },
    Call {
        name: "get_children",
        op: Op::GetChildren,
        call: |client, path| client.get_children(path).map(drop),
        is_done: None,
    },
    Call {
        name: "get_acl",
        op: Op::GetAcl,
        call: |client, path| client.get_acl(path).map(drop),
        is_done: None,
    },
    Call {
        name: "set_acl",
        op: Op::SetAcl,
        call: |client, path| client.set_acl(path, &Acl::open(), None).map(drop),
        is_done: Some(|probe, path| probe.stat(path).unwrap().unwrap().aversion > 0),
    },
    Call { name: "sync", op: Op::Sync, call: |client, path| client.sync(path), is_done: None },
    Call {
        name: "multi",
        op: Op::Multi,
        call: |client, path| {
            let change = Change::SetData(path, b"new", None);
            client.multi(&[change]).map(drop)
        },
        is_done: Some(is_set),
    },
];
