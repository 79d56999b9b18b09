//! What the client processes and the parent say to each other: lines of JSON.
//!
//! Each worker thread has a socket of its own to the parent, and each process one more for its
//! heartbeat. [`Command`]s come to a process on its standard input, whose end means that the
//! parent is gone.

use std::fmt;
use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::kinds::Kind;
use crate::places::Share;

/// One thread of one life of one client process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ThreadId {
    pub(crate) process: usize,
    pub(crate) life: u32,
    pub(crate) thread: usize,
}

impl ThreadId {
    /// Are they of the same process?
    pub(crate) fn is_beside(self, other: ThreadId) -> bool {
        (self.process, self.life) == (other.process, other.life)
    }
}

/// A process by its number, and how often it was started before.
pub(crate) type Life = (usize, u32);

/// One hold, from the grant to the outermost unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HoldId {
    pub(crate) by: ThreadId,
    pub(crate) number: u32,
}

/// A call of the library that is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) op: String,
    pub(crate) path: usize,
    pub(crate) started: Nanos,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) ended: Nanos,
}

/// A call of the library that has not returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct InFlight {
    pub(crate) thread: usize,
    pub(crate) op: String,
    pub(crate) path: usize,
    pub(crate) since: Nanos,
    pub(crate) deadline: Option<Nanos>,
}

/// A lock was granted. Of a `MultiLock` each member is told as a hold of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) hold: HoldId,
    /// The write of the same thread that this is a read under.
    pub(crate) under: Option<HoldId>,
    pub(crate) kind: Kind,
    pub(crate) path: usize,
    pub(crate) share: Share,
    /// 0, and more for the further members of a `MultiLock`.
    pub(crate) member: usize,
    pub(crate) op: String,
    /// The call waited for its turn, for as long as it took.
    pub(crate) waited: bool,
    /// The names of its nodes: one, or one for each permit.
    pub(crate) nodes: Vec<String>,
    pub(crate) token: Option<u64>,
    /// When the call was made.
    pub(crate) started: Nanos,
    /// When it had returned.
    pub(crate) at: Nanos,
    /// `is_held()` was true after that.
    pub(crate) sound: bool,
    /// The witness could be had.
    pub(crate) alone: bool,
}

/// What the unlock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unlocked {
    Fine,
    Lost,
    /// A dropped guard says nothing.
    Silent,
    /// Not one of the errors that it may give.
    Wrong,
}

/// Some of [`zoolock::Stats`].
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) resumed: u64,
    pub(crate) holds_lost: u64,
}

/// From a client process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Said {
    /// The first word of a worker.
    Worker(ThreadId),
    /// The first word of a heartbeat.
    Process {
        process: usize,
        life: u32,
    },
    /// The thread is in no call and holds nothing; it waits for an [`Answer::Turn`].
    Next,
    Called(Call),
    Granted(Grant),
    /// `is_held()` was true. The write follows after an [`Answer::Go`].
    Checked {
        hold: HoldId,
    },
    /// Wants an [`Answer::Written`].
    Write {
        hold: HoldId,
        token: u64,
    },
    /// The loss was announced, by `lost()` or by the end of the lease.
    Lost {
        hold: HoldId,
        at: Nanos,
        reason: String,
    },
    /// The witness is free again and the unlock begins. The process may not live to its end.
    Leaving {
        hold: HoldId,
        at: Nanos,
    },
    /// The unlock is over.
    Ended {
        hold: HoldId,
        unlocked: Unlocked,
    },
    /// A call for several locks came back without any, since one was lost before the last was
    /// there.
    LostWhileWaiting {
        kind: Kind,
    },
    /// The process kills itself.
    Dying {
        at: Nanos,
    },
    /// Something that the library must not do.
    Wrong(String),
    Beat {
        at: Nanos,
        calls: Vec<InFlight>,
        counts: Counts,
    },
    /// How much too late a thread woke that only sleeps.
    Slept {
        since: Nanos,
        late: u64,
    },
}

/// From the parent to a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Work until [`Command::Drain`] for this phase.
    Turn {
        phase: u32,
        deaths: bool,
    },
    Finish,
    Written {
        accepted: bool,
    },
    Go,
}

/// From the parent to a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Begin nothing more in this phase.
    Drain { phase: u32 },
    /// Nobody kills the process in this phase any more.
    Spare { phase: u32 },
    /// The next holder that is about to write says [`Said::Checked`] first.
    Arm,
}

pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// None at the end. A line that a killed process has not finished is the end, too.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ThreadId { process, life, thread } = self;
        write!(f, "p{process}.{life}/t{thread}")
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.by, self.number)
    }
}
