//! The locks of a history: their names and their capacities.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The index of a [`Lock`] in the list that the judge was given.
pub type LockIndex = usize;

/// One lock on the servers. Objects of several types may share it: a `DistributedLock` and a
/// `DistributedReentrantLock` at one path are one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The name in findings, mostly the path.
    pub name: String,
    /// What the lock does.
    pub what: Use,
}

/// What a lock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// One holder at a time, and grants in the order of the queue.
    Exclusive,
    /// Readers, or one writer; grants in the order of the queue.
    ReadWrite,
    /// This many permits.
    Semaphore(u32),
    /// One holder at a time, without a queue.
    Ephemeral,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Shared with other readers.
    Shared,
    /// With this many permits.
    Permits(u32),
}

/// A lock type of the crate. Figures are counted for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `DistributedLock`
    Exclusive,
    /// `DistributedReentrantLock`
    Reentrant,
    /// `DistributedRwLock`
    ReadWrite,
    /// `DistributedSemaphore`
    Semaphore,
    /// `EphemeralLock`
    Ephemeral,
    /// `MultiLock`
    Multi,
}

/// More readers than ever occur.
const READERS: u32 = 1000;

impl Lock {
    /// Names a lock.
    pub fn new(name: impl Into<String>, what: Use) -> Lock {
        Lock { name: name.into(), what }
    }
}

impl Use {
    /// Returns the number of units that fit at a time. An exclusive holder takes all of them, and a reader
    /// takes one.
    pub fn capacity(self) -> u32 {
        match self {
            Use::Exclusive | Use::Ephemeral => 1,
            Use::ReadWrite => READERS,
            Use::Semaphore(limit) => limit,
        }
    }

    /// Returns the number of units that a holder takes.
    pub fn units(self, mode: Mode) -> u32 {
        match mode {
            Mode::Exclusive => self.capacity(),
            Mode::Shared => 1,
            Mode::Permits(count) => count,
        }
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [
        Kind::Exclusive,
        Kind::Reentrant,
        Kind::ReadWrite,
        Kind::Semaphore,
        Kind::Ephemeral,
        Kind::Multi,
    ];

    /// Returns the name that reports and command lines use.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exclusive => "exclusive",
            Kind::Reentrant => "reentrant",
            Kind::ReadWrite => "read-write",
            Kind::Semaphore => "semaphore",
            Kind::Ephemeral => "ephemeral",
            Kind::Multi => "multi",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let named = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        named.ok_or_else(|| format!("there is no kind `{name}`"))
    }
}
