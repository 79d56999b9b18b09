//! What the client processes and the coordinator tell each other: lines of JSON.
//!
//! Each worker thread has a socket of its own to the coordinator, and each process one more for its
//! heartbeat. [`Command`]s come to a process on its standard input, whose end means that the
//! coordinator is gone.

use std::io::{self, BufRead, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::kinds::Kind;
use crate::settings::socket;

pub(crate) use zoolock_judge::{
    Act, Answer, Call, Commit, Grant, HoldId, InFlight, Incarnation, Missed, Unlocked, WorkerId,
};

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
        /// When the unlock was back, where that means that it is known what came of it.
        at: Option<Nanos>,
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
    /// `is_healthy()` of a leadership was false.
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
