//! The kinds of locks: what their nodes request, and who owns their holds. This module is pure.

use std::fmt;

/// A type of lock.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// [`DistributedLock`](crate::DistributedLock)
    Exclusive,
    /// [`DistributedReentrantLock`](crate::DistributedReentrantLock)
    Reentrant,
    /// [`ReadLock`](crate::ReadLock)
    Read,
    /// [`WriteLock`](crate::WriteLock)
    Write,
    /// [`DistributedSemaphore`](crate::DistributedSemaphore)
    Semaphore,
    /// [`EphemeralLock`](crate::EphemeralLock)
    Ephemeral,
    /// [`Leadership::start_in_latch`](crate::Leadership::start_in_latch)
    Latch,
}

impl LockKind {
    /// Returns the kind's name as a label: a single word in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LockKind::Exclusive => "exclusive",
            LockKind::Reentrant => "reentrant",
            LockKind::Read => "read",
            LockKind::Write => "write",
            LockKind::Semaphore => "semaphore",
            LockKind::Ephemeral => "ephemeral",
            LockKind::Latch => "latch",
        }
    }

    /// Returns the text that precedes the sequence number in the names that this library creates.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            LockKind::Exclusive | LockKind::Reentrant | LockKind::Ephemeral => "lock-",
            LockKind::Read => "__READ__",
            LockKind::Write => "__WRIT__",
            LockKind::Semaphore => "lease-",
            LockKind::Latch => "latch-",
        }
    }

    /// Returns whether a contender of this kind must wait for a contender of kind `other` with a
    /// lower number.
    pub(crate) fn waits_for(self, other: LockKind) -> bool {
        !self.is_apart_from(other) && (self != LockKind::Read || other != LockKind::Read)
    }

    /// Returns whether contenders of the two kinds ignore each other. If they met, both would be
    /// granted.
    pub(crate) fn is_apart_from(self, other: LockKind) -> bool {
        (self == LockKind::Latch) != (other == LockKind::Latch)
    }

    /// Returns whether the lock is a single node, whose name all its contenders share.
    pub(crate) fn is_single_node(self) -> bool {
        self == LockKind::Ephemeral
    }

    /// Returns whether a hold belongs to the thread that acquired it. Otherwise it belongs to the
    /// object, and any thread may unlock it.
    pub(crate) fn is_of_a_thread(self) -> bool {
        matches!(self, LockKind::Reentrant | LockKind::Read | LockKind::Write)
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
