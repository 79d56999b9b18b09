//! Several changes that are made together or not at all.

use crate::acl::Acl;
use crate::types::{CreateMode, Stat};

/// One operation of a [`multi`](crate::ZooKeeper::multi).
#[derive(Debug, Clone, Copy)]
pub enum Op<'a> {
    /// Creates a node.
    Create {
        /// Where.
        path: &'a str,
        /// With what.
        data: &'a [u8],
        /// For whom.
        acl: &'a [Acl],
        /// How.
        mode: CreateMode,
    },
    /// Deletes a node, of this version if one is given.
    Delete {
        /// Which.
        path: &'a str,
        /// None for any.
        version: Option<i32>,
    },
    /// Sets the data of a node, of this version if one is given.
    SetData {
        /// Which.
        path: &'a str,
        /// To what.
        data: &'a [u8],
        /// None for any.
        version: Option<i32>,
    },
    /// Changes nothing, and fails if there is no such node or it has another version.
    Check {
        /// Which.
        path: &'a str,
        /// None for any.
        version: Option<i32>,
    },
}

/// What an [`Op`] has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// A node was created, at this path.
    Created(String),
    /// The node was deleted.
    Deleted,
    /// The data was set.
    Set(Stat),
    /// The node is there and has the version.
    Checked,
}
