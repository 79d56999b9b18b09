//! The kinds of locks: what their nodes request, and who owns their holds. This module is pure.

use std::fmt;

use crate::base::contender::Kind;

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
    /// Returns the name as a label: a single word in lower case.
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

    /// Returns what the nodes request. The node of an [`Ephemeral`](LockKind::Ephemeral) lock
    /// requests exclusive access, but does not queue.
    pub(crate) fn of_nodes(self) -> Kind {
        match self {
            LockKind::Exclusive | LockKind::Reentrant | LockKind::Ephemeral => Kind::Exclusive,
            LockKind::Read => Kind::Read,
            LockKind::Write => Kind::Write,
            LockKind::Semaphore => Kind::Permit,
            LockKind::Latch => Kind::Latch,
        }
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
