//! The locks of a history: their names, kinds and capacities.

use serde::{Deserialize, Serialize};

/// The index of a [`Lock`] in the list that was passed to the checker.
pub type LockIndex = usize;

/// A lock on the servers. Objects of several types may share it: a `DistributedLock` and a `DistributedReentrantLock`
/// at the same path use one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The lock's name in findings, usually its path.
    pub name: String,
    /// The lock's kind.
    pub what: Use,
}

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// One holder at a time, and grants in the order of the queue.
    Exclusive,
    /// Readers, or one writer; grants in the order of the queue.
    ReadWrite,
    /// At most this many permits at a time.
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

/// More readers than any run has.
const READERS: u32 = 1000;

impl Lock {
    /// Names a lock.
    pub fn new(name: impl Into<String>, what: Use) -> Lock {
        Lock { name: name.into(), what }
    }
}

impl Use {
    /// Returns the number of units that can be held at a time. An exclusive holder takes all of them, and a reader
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
