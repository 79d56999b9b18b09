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

/// One hold, from the grant to the outermost unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HoldId {
    /// The thread that was granted the hold.
    pub by: WorkerId,
    /// The number of the hold among the thread's.
    pub number: u32,
}

/// A finished call of the library.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub op: Cow<'static, str>,
    /// The lock.
    pub path: LockIndex,
    /// When the call was made.
    pub started: Nanos,
    /// The deadline of its return.
    pub deadline: Option<Nanos>,
    /// When the call returned.
    pub ended: Nanos,
    /// Set if the call asked for a lock and returned without it.
    #[serde(default)]
    pub missed: Option<Missed>,
}

/// An acquisition without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// What was asked for.
    pub mode: Mode,
    /// False if the lock may have been taken for a time, since the answer was lost.
    pub certain: bool,
}

/// A granted lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grant {
    /// The hold.
    pub hold: HoldId,
    /// The same thread's write, if this is a downgraded read.
    pub under: Option<HoldId>,
    /// The lock.
    pub path: LockIndex,
    /// How it is held.
    pub mode: Mode,
    /// The method.
    pub op: Cow<'static, str>,
    /// The names of its nodes: one, or one for each permit.
    pub nodes: Vec<String>,
    /// The fencing token, if it is known.
    pub token: Option<u64>,
    /// When the call was made.
    pub started: Nanos,
    /// When it had returned.
    pub at: Nanos,
}

/// The loss of a hold, as it was announced.
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
    /// When it had returned.
    pub ended: Nanos,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a commit.
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
    /// The number of the commit among the hold's.
    pub number: u32,
    /// The number of the transaction.
    pub zxid: i64,
}

/// A hold whose client was stopped until another one had the lock and had committed a write.
#[derive(Debug, Clone, Copy)]
pub struct Overtaken {
    /// The hold.
    pub hold: HoldId,
    /// When its client was stopped.
    pub stopped: Nanos,
    /// When the other one was known to have committed.
    pub overtaken: Nanos,
}

/// A time when a client could not know in time that its holds had ended: their nodes were deleted, their
/// session was ended from outside, or the client was stopped. Others may be granted beside them.
#[derive(Debug, Clone, Copy)]
pub struct Doubt {
    /// The client.
    pub process: usize,
    /// The lock, if only one was affected.
    pub path: Option<LockIndex>,
    /// The start.
    pub begun: Nanos,
    /// Later calls are unaffected.
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
