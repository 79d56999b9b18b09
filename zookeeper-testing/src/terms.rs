//! ZooKeeper's terms, as servers use them. No I/O.

use std::fmt;

/// Why a server refuses a request, as a code of `org.apache.zookeeper.KeeperException.Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub i32);

impl Refused {
    pub(crate) const NOT_TRIED: Refused = Refused(-2);
    pub(crate) const CONNECTION_LOSS: Refused = Refused(-4);
    pub(crate) const UNIMPLEMENTED: Refused = Refused(-6);
    pub(crate) const BAD_ARGUMENTS: Refused = Refused(-8);
    /// The node does not exist.
    pub const NO_NODE: Refused = Refused(-101);
    pub(crate) const NO_AUTH: Refused = Refused(-102);
    pub(crate) const BAD_VERSION: Refused = Refused(-103);
    pub(crate) const NO_CHILDREN_FOR_EPHEMERALS: Refused = Refused(-108);
    pub(crate) const NODE_EXISTS: Refused = Refused(-110);
    /// The node has children.
    pub const NOT_EMPTY: Refused = Refused(-111);
    pub(crate) const SESSION_EXPIRED: Refused = Refused(-112);
    pub(crate) const INVALID_ACL: Refused = Refused(-114);
    pub(crate) const AUTH_FAILED: Refused = Refused(-115);
    pub(crate) const THROTTLED: Refused = Refused(-127);
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Refused::NO_NODE => f.write_str("there is no such node"),
            Refused::NOT_EMPTY => f.write_str("the node has children"),
            Refused(code) => write!(f, "the server refuses it ({code})"),
        }
    }
}

impl std::error::Error for Refused {}

/// How a node is created and when it is deleted, with the numbers of `org.apache.zookeeper.CreateMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateMode {
    Persistent = 0,
    Ephemeral = 1,
    PersistentSequential = 2,
    EphemeralSequential = 3,
    Container = 4,
    WithTtl = 5,
    SequentialWithTtl = 6,
}

impl CreateMode {
    pub(crate) fn of_flag(flag: i32) -> Option<CreateMode> {
        Some(match flag {
            0 => CreateMode::Persistent,
            1 => CreateMode::Ephemeral,
            2 => CreateMode::PersistentSequential,
            3 => CreateMode::EphemeralSequential,
            4 => CreateMode::Container,
            5 => CreateMode::WithTtl,
            6 => CreateMode::SequentialWithTtl,
            _ => return None,
        })
    }

    pub(crate) fn is_sequential(self) -> bool {
        use CreateMode::{EphemeralSequential, PersistentSequential, SequentialWithTtl};
        matches!(self, PersistentSequential | EphemeralSequential | SequentialWithTtl)
    }
}

/// The metadata of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// The id of the transaction that created the node.
    pub czxid: i64,
    /// The id of the transaction that last set the node's data.
    pub mzxid: i64,
    /// When the node was created, in milliseconds since 1970.
    pub ctime: i64,
    /// When the node's data were last set, in milliseconds since 1970.
    pub mtime: i64,
    /// How often the node's data have been set.
    pub version: i32,
    /// How often the node's children have changed.
    pub cversion: i32,
    /// How often the node's ACL has been set.
    pub aversion: i32,
    /// The session that owns an ephemeral node, or 0 for other nodes.
    pub ephemeral_owner: i64,
    /// The length of the node's data, in bytes.
    pub data_length: i32,
    /// How many children the node has.
    pub num_children: i32,
    /// The id of the transaction that last created or deleted a child.
    pub pzxid: i64,
}

/// What happened to a watched node, with the numbers of `Watcher.Event.EventType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

/// Returns whether servers accept this path, by the rules of `PathUtils.validatePath`.
pub(crate) fn is_path(path: &str) -> bool {
    // Servers check UTF-16 units and refuse surrogates, and therefore every character above U+FFFF.
    let is_refused = |c| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    let below = path.strip_prefix('/');
    below.is_some_and(|below| {
        below.is_empty() || !below.split('/').any(|part| ["", ".", ".."].contains(&part))
    }) && !path.contains(is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another test compares the client's check, used here, with ZooKeeper's own.
    #[test]
    fn paths_are_those_that_a_client_sends() {
        let parts = ["", "a", ".", "..", "...", "/", "a. ", "\u{1f512}"];
        for (first, second) in parts.iter().flat_map(|part| parts.map(|other| (part, other))) {
            for path in [format!("/{first}/{second}"), format!("/{first}"), (*first).to_owned()] {
                let expected = zoolock_zookeeper::check_path(&path).is_ok();
                assert_eq!(is_path(&path), expected, "{path:?}");
            }
        }
        for c in '\0'..=char::MAX {
            let path = format!("/a{c}b");
            assert_eq!(is_path(&path), zoolock_zookeeper::check_path(&path).is_ok(), "{path:?}");
        }
    }
}
