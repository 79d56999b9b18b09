//! The events of a history: calls, grants, losses, writes and faults.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lock::{Kind, LockIndex, Mode};
use crate::time::Nanos;

/// One thread of one incarnation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId {
    /// The client.
    pub process: usize,
    /// How often it was started before.
    pub incarnation: u32,
    /// The thread.
    pub thread: usize,
}

/// A client by its number, and how often it was started before.
pub type Incarnation = (usize, u32);

/// One hold, from the grant to the outermost unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HoldId {
    /// The thread that it was granted to.
    pub by: WorkerId,
    /// The number of the hold among those of the thread.
    pub number: u32,
}

/// A call of the library that is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub op: Cow<'static, str>,
    /// The lock; of a `MultiLock` the first.
    pub path: LockIndex,
    /// When the call was made.
    pub started: Nanos,
    /// When it has to be back.
    pub deadline: Option<Nanos>,
    /// When it was back.
    pub ended: Nanos,
    /// Set if the call asked for a lock and came back without it.
    #[serde(default)]
    pub missed: Option<Missed>,
}

/// An acquisition that gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// What was asked for.
    pub mode: Mode,
    /// False if the lock may have been taken all the same, for a time: the answer was lost.
    pub certain: bool,
}

/// A call of the library that has not returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InFlight {
    /// The thread that made it.
    pub thread: usize,
    /// The method.
    pub op: Cow<'static, str>,
    /// The lock.
    pub path: LockIndex,
    /// When the call was made.
    pub since: Nanos,
    /// When it has to be back.
    pub deadline: Option<Nanos>,
}

/// A lock was granted. Each member of a `MultiLock` is a hold of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grant {
    /// The hold.
    pub hold: HoldId,
    /// The write of the same thread that this is a read under.
    pub under: Option<HoldId>,
    /// The type of the lock object.
    pub kind: Kind,
    /// The lock.
    pub path: LockIndex,
    /// How it is held.
    pub mode: Mode,
    /// 0, and more for the further members of a `MultiLock`.
    pub member: usize,
    /// The method.
    pub op: Cow<'static, str>,
    /// The call waited for its turn, for as long as it took.
    pub waited: bool,
    /// The names of its nodes: one, or one for each permit. The ten digits at the end of the first
    /// are the place in the queue.
    pub nodes: Vec<String>,
    /// The fencing token, if it is known.
    pub token: Option<u64>,
    /// When the call was made.
    pub started: Nanos,
    /// When it had returned.
    pub at: Nanos,
    /// `is_held()` was true after that.
    pub still_held: bool,
    /// An outside witness saw room for it. True if there is no such witness.
    pub witness_free: bool,
}

/// The loss of a hold, as it was announced.
#[derive(Debug, Clone)]
pub struct Loss {
    /// When `is_held()` became false.
    pub at: Nanos,
    /// What was said about it.
    pub reason: Cow<'static, str>,
}

/// What an unlock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unlocked {
    /// The hold was given back.
    Fine,
    /// The hold had been lost before.
    Lost,
    /// A dropped guard says nothing.
    Silent,
    /// Not one of the errors that it may give.
    Unexpected,
}

/// An unguarded write that reached the register, which refuses lower tokens than it has seen.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// When the register took note of it.
    pub at: Nanos,
    /// The lock that guards the register.
    pub path: LockIndex,
    /// The fencing token that it came with.
    pub token: u64,
    /// Whose it was.
    pub hold: HoldId,
    /// What the register said.
    pub accepted: bool,
}

/// A guarded write got its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Commit {
    /// Several of a `MultiLock`: it was to be carried out while all of them are held.
    pub holds: Vec<HoldId>,
    /// 0 for the first of these holds.
    pub number: u32,
    /// `is_held()` was true right before the call.
    pub held: bool,
    /// When the call was made.
    pub started: Nanos,
    /// When it had returned.
    pub ended: Nanos,
    /// What it said.
    pub answer: Answer,
}

/// What a commit said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It was carried out.
    Done,
    /// The lock is not held any more.
    Refused,
    /// It may have been carried out.
    Unknown,
}

/// A guarded write that the servers have carried out, by what they have of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The lock.
    pub path: LockIndex,
    /// The token of the hold.
    pub token: u64,
    /// Whose it was.
    pub hold: HoldId,
    /// The number of the commit among those of the hold.
    pub number: u32,
    /// The number of the transaction.
    pub zxid: i64,
}

/// A leader acts, and may do so until then, by its deadline.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Act {
    /// The leader's hold.
    pub term: HoldId,
    /// When it acted.
    pub at: Nanos,
    /// Its deadline at that time.
    pub until: Nanos,
}

/// How much too late a sleeper woke.
#[derive(Debug, Clone, Copy)]
pub struct Nap {
    /// The client that the sleeper belongs to.
    pub process: usize,
    /// When it fell asleep.
    pub since: Nanos,
    /// How much later than wanted it woke.
    pub late: u64,
}

/// A hold whose client stood still until somebody else had the lock and had committed a write.
#[derive(Debug, Clone, Copy)]
pub struct Overtaken {
    /// The hold.
    pub hold: HoldId,
    /// When its client stood still.
    pub stopped: Nanos,
    /// When the other one was known to have committed.
    pub overtaken: Nanos,
}

/// What was done to leaders.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What it is called.
    pub name: &'static str,
    /// The client, if it was one only.
    pub process: Option<usize>,
    /// Where there has to be a leader again.
    pub paths: Vec<LockIndex>,
    /// When it began.
    pub begun: Nanos,
    /// When it was over.
    pub over: Nanos,
    /// From when on the time without a leader counts: the end, if the fault allows for none.
    pub counts_from: Nanos,
    /// Nodes vanished, so that leaders could not know how long they had.
    pub breaks_leases: bool,
    /// Servers took connections and answered nobody. A client to which that happens for a session
    /// timeout rests.
    pub answers_nobody: bool,
}

/// Nobody could tell a client in time that holds of it were over: their nodes were deleted or their
/// session was ended from outside, or the client stood still. Others may be let in beside them.
#[derive(Debug, Clone, Copy)]
pub struct Doubt {
    /// The client.
    pub process: usize,
    /// The lock, if it was one only.
    pub path: Option<LockIndex>,
    /// From here on.
    pub begun: Nanos,
    /// Calls that are made later are not concerned.
    pub over: Nanos,
}

/// The queue of those who wait for permits, at some instant between two.
#[derive(Debug)]
pub struct QueueSnapshot {
    /// The lock.
    pub path: LockIndex,
    /// When the servers were asked.
    pub asked: Nanos,
    /// When they had answered.
    pub answered: Nanos,
    /// The numbers in the queue; never none.
    pub queued: Vec<u32>,
}

impl WorkerId {
    /// Returns whether both are threads of the same client.
    pub fn is_beside(self, other: WorkerId) -> bool {
        self.incarnation() == other.incarnation()
    }

    /// Returns the client.
    pub fn incarnation(self) -> Incarnation {
        (self.process, self.incarnation)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerId { process, incarnation, thread } = self;
        write!(f, "p{process}.{incarnation}/t{thread}")
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.by, self.number)
    }
}
