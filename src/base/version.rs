//! The version of a node, for users.

use std::fmt;

/// The version of a node's data in ZooKeeper: each write increments it, and a new node has 0.
/// [`Client::read`](crate::Client::read) returns it, and a [`Transaction`](crate::Transaction) can
/// require it.
///
/// A `Version` converts from and into a number, for programs that pass it on, for example in an
/// HTTP `ETag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(i32);

impl From<i32> for Version {
    fn from(number: i32) -> Version {
        Version(number)
    }
}

impl From<Version> for i32 {
    fn from(Version(number): Version) -> i32 {
        number
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
