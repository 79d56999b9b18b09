//! What the client processes and the coordinator tell each other: lines of JSON.
//!
//! Each worker thread has a socket of its own to the coordinator, and each process one more for its
//! heartbeat. [`Command`]s come to a process on its standard input, whose end means that the
//! coordinator is gone.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::kinds::Kind;
use crate::paths::Mode;
use crate::settings::socket;

/// One thread of one incarnation of a client process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct WorkerId {
    pub(crate) process: usize,
    pub(crate) incarnation: u32,
    pub(crate) thread: usize,
}

impl WorkerId {
    /// Are they of the same process?
    pub(crate) fn is_beside(self, other: WorkerId) -> bool {
        self.incarnation() == other.incarnation()
    }

    pub(crate) fn incarnation(self) -> Incarnation {
        (self.process, self.incarnation)
    }
}

/// A process by its number, and how often it was started before.
pub(crate) type Incarnation = (usize, u32);

/// One hold, from the grant to the outermost unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HoldId {
    pub(crate) by: WorkerId,
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
    pub(crate) mode: Mode,
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
    pub(crate) still_held: bool,
    /// The witness was free.
    pub(crate) witness_free: bool,
}

/// A guarded write got its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// Several of a `MultiLock`: it was to be carried out while all of them are held.
    pub(crate) holds: Vec<HoldId>,
    /// 0 for the first of these holds.
    pub(crate) number: u32,
    /// `is_held()` was true right before the call.
    pub(crate) held: bool,
    pub(crate) started: Nanos,
    pub(crate) ended: Nanos,
    pub(crate) answer: Answer,
}

/// What a commit said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    /// The lock is not held any more.
    Refused,
    /// It may have been carried out.
    Unknown,
}

/// A leader acts, and may do so until then, by its deadline.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) term: HoldId,
    pub(crate) at: Nanos,
    pub(crate) until: Nanos,
}

/// What the unlock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unlocked {
    Fine,
    Lost,
    /// A dropped guard says nothing.
    Silent,
    /// Not one of the errors that it may give.
    Unexpected,
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
pub(crate) enum Event {
    /// The first of a worker.
    Worker(WorkerId),
    /// The first of a process's heartbeat.
    Process {
        process: usize,
        incarnation: u32,
    },
    /// The thread is in no call and holds nothing; it waits for a [`Reply::Begin`].
    Ready,
    Called(Call),
    Granted(Grant),
    /// `is_held()` was true. The write follows after a [`Reply::Proceed`].
    AboutToWrite {
        hold: HoldId,
    },
    /// Wants a [`Reply::Written`].
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
    /// Of one who holds locks to guard writes.
    Committed(Commit),
    /// Of a leader.
    Acted(Act),
    /// `health()` of a leadership was false.
    Unwell {
        at: Nanos,
    },
    /// The process kills itself.
    Dying {
        at: Nanos,
    },
    /// Something that the library must not do.
    Unexpected(String),
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

/// What the workers do in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Take locks of every kind in every way.
    Locks,
    /// Take locks that one holds alone, and commit writes that they guard.
    Guard,
    /// Stand as candidates.
    Lead,
}

/// From the coordinator to a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Work until [`Command::Drain`] for this phase; with `deaths`, a worker may kill its process.
    Begin {
        phase: u32,
        deaths: bool,
        task: Task,
    },
    /// There are no more phases.
    Finish,
    Written {
        accepted: bool,
    },
    Proceed,
}

/// From the coordinator to a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Begin nothing more in this phase.
    Drain { phase: u32 },
    /// Nobody kills the process in this phase any more.
    Spare { phase: u32 },
    /// The next holder that is about to write sends [`Event::AboutToWrite`] first.
    Arm,
}

/// The way of a worker and the loss watchers of its holds to the coordinator, or of a process. When
/// the coordinator is gone, so is the process.
#[derive(Debug, Clone)]
pub(crate) struct Reporter(Arc<Mutex<UnixStream>>);

impl Reporter {
    pub(crate) fn connect(folder: &Path) -> io::Result<Reporter> {
        Ok(Reporter(Arc::new(Mutex::new(UnixStream::connect(socket(folder))?))))
    }

    /// Another handle of the socket, to read the replies.
    pub(crate) fn replies(&self) -> io::Result<UnixStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_clone()
    }

    pub(crate) fn report(&self, event: &Event) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if send(&mut *stream, event).is_err() {
            process::exit(1);
        }
    }
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
