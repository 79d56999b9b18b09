//! The events of a history: calls, grants, losses, writes and faults.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lock::{LockIndex, Mode};
use crate::time::Nanos;

/// One thread of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId {
    /// The client.
    pub process: usize,
    /// The thread.
    pub thread: usize,
}

/// A hold, from the grant to the outermost unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HoldId {
    /// The thread that was granted the hold.
    pub by: WorkerId,
    /// The number of the hold among those of its thread.
    pub number: u32,
}

/// A call of the library that has returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The method's name.
    pub op: Cow<'static, str>,
    /// The lock.
    pub path: LockIndex,
    /// When the call was made.
    pub started: Nanos,
    /// The deadline for its return.
    pub deadline: Option<Nanos>,
    /// When the call returned.
    pub ended: Nanos,
    /// Set if the call requested a lock and returned without it.
    #[serde(default)]
    pub missed: Option<Missed>,
}

/// The result of an acquisition that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The mode that was requested.
    pub mode: Mode,
    /// False if the call may have held the lock for a while, because an answer was lost.
    pub certain: bool,
}

/// A granted lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grant {
    /// The hold.
    pub hold: HoldId,
    /// The same thread's write hold, if this is a downgraded read.
    pub under: Option<HoldId>,
    /// The lock.
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
    /// When the call had returned.
    pub at: Nanos,
}

/// The loss of a hold, as the library reported it.
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
    /// A dropped guard reports nothing.
    Silent,
    /// An error that an unlock must not return.
    Unexpected,
}

/// The answer to a guarded write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Commit {
    /// The hold that guards it.
    pub hold: HoldId,
    /// 0 for the first commit of this hold.
    pub number: u32,
    /// `is_held()` was true right before the call.
    pub held: bool,
    /// When the call was made.
    pub started: Nanos,
    /// When the call had returned.
    pub ended: Nanos,
    /// The answer.
    pub answer: Answer,
}

/// The answers to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It was applied.
    Done,
    /// The lock is no longer held.
    Refused,
    /// It may have been applied.
    Unknown,
}

/// A guarded write that the servers have applied, according to their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The lock.
    pub path: LockIndex,
    /// The token of the hold.
    pub token: u64,
    /// The hold of the writer.
    pub hold: HoldId,
    /// The number of the commit among those of the hold.
    pub number: u32,
    /// The number of the transaction.
    pub zxid: i64,
}

/// A hold whose client was stopped until another client had acquired the lock and committed a write.
#[derive(Debug, Clone, Copy)]
pub struct Overtaken {
    /// The hold.
    pub hold: HoldId,
    /// When its client was stopped.
    pub stopped: Nanos,
    /// When the other client was known to have committed.
    pub overtaken: Nanos,
}

/// A period in which a client could not detect in time that its holds had ended: their nodes were deleted, their
/// session was ended by others, or the client was stopped. Others may be granted the lock beside them.
#[derive(Debug, Clone, Copy)]
pub struct Doubt {
    /// The client.
    pub process: usize,
    /// The lock, if only one was affected.
    pub path: Option<LockIndex>,
    /// When it begins.
    pub begun: Nanos,
    /// When it ends. Later calls are not affected.
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
