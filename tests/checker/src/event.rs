//! The events of a history: calls, grants, losses, writes and faults.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lock::{LockIndex, Mode};
use crate::time::Nanos;

/// One thread of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId {
    /// The number of the client.
    pub process: usize,
    /// The number of the thread in its client.
    pub thread: usize,
}

/// A hold, from its grant to its last unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HoldId {
    /// The thread that was granted the hold.
    pub by: WorkerId,
    /// The number of the hold among its thread's holds.
    pub number: u32,
}

/// A call of the library that has returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The method's name.
    pub op: Cow<'static, str>,
    /// The index of the lock.
    pub path: LockIndex,
    /// When the call was made.
    pub started: Nanos,
    /// The deadline for its return.
    pub deadline: Option<Nanos>,
    /// When the call returned.
    pub ended: Nanos,
    /// Set if the call requested a lock, but returned without it.
    #[serde(default)]
    pub missed: Option<Missed>,
}

/// A request for a lock that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The mode that was requested.
    pub mode: Mode,
    /// Whether the lock was certainly never granted. False if an answer was lost, so that it may have been for a while.
    pub certain: bool,
}

/// A granted lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grant {
    /// The hold.
    pub hold: HoldId,
    /// If this is a downgraded read: the same thread's write hold.
    pub under: Option<HoldId>,
    /// The index of the lock.
    pub path: LockIndex,
    /// How it is held.
    pub mode: Mode,
    /// The method's name.
    pub op: Cow<'static, str>,
    /// The names of the hold's nodes: one, or one for each permit.
    pub nodes: Vec<String>,
    /// The fencing token, if it is known.
    pub token: Option<u64>,
    /// When the call was made.
    pub started: Nanos,
    /// A time after the call returned.
    pub at: Nanos,
}

/// A lost hold, as the library reported the loss.
#[derive(Debug, Clone)]
pub struct Loss {
    /// When `is_held()` became false.
    pub at: Nanos,
    /// The reported reason.
    pub reason: Cow<'static, str>,
}

/// The result of an unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unlocked {
    /// The hold was released.
    Fine,
    /// The hold was already lost.
    Lost,
    /// A guard was dropped, which does not report a result.
    Silent,
    /// An error that an unlock must not return.
    Unexpected,
}

/// A guarded write that was answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Commit {
    /// The hold that guards the write.
    pub hold: HoldId,
    /// The number of the commit among those of its hold; the first is 0.
    pub number: u32,
    /// Whether `is_held()` was true directly before the call.
    pub held: bool,
    /// When the call was made.
    pub started: Nanos,
    /// A time after the call returned.
    pub ended: Nanos,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The write was applied.
    Done,
    /// The write was refused, because the lock is no longer held.
    Refused,
    /// The write may have been applied.
    Unknown,
}

/// A guarded write that the servers applied, according to their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The index of the lock.
    pub path: LockIndex,
    /// The fencing token of the hold.
    pub token: u64,
    /// The hold that guards the write.
    pub hold: HoldId,
    /// The number of the commit among those of its hold.
    pub number: u32,
    /// The id of the transaction.
    pub zxid: i64,
}

/// A hold whose client was stopped until another client had acquired the lock and committed a write.
#[derive(Debug, Clone, Copy)]
pub struct Overtaken {
    /// The hold.
    pub hold: HoldId,
    /// When its client was stopped.
    pub stopped: Nanos,
    /// When the other client had certainly committed.
    pub overtaken: Nanos,
}

/// A period in which a client could not detect in time that its holds had ended, because their nodes were deleted, its
/// session was ended from outside, or it was stopped. Other clients may then be granted its locks.
#[derive(Debug, Clone, Copy)]
pub struct Doubt {
    /// The client.
    pub process: usize,
    /// The index of the lock, if only one was affected.
    pub path: Option<LockIndex>,
    /// When the period begins.
    pub begun: Nanos,
    /// When the period ends. Calls made later are not affected.
    pub over: Nanos,
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}/t{}", self.process, self.thread)
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.by, self.number)
    }
}
