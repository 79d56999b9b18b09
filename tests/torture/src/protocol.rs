//! Messages between the client processes and the coordinator: lines of JSON.
//!
//! Each worker thread has a socket to the coordinator, and each process another one for its heartbeat. A
//! process gets [`Command`]s on its standard input, whose end means that the coordinator is gone.

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
    Answer, Call, Commit, Grant, HoldId, InFlight, Incarnation, Missed, Unlocked, WorkerId,
};

/// Some of [`zoolock::Stats`].
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) resumed: u64,
    pub(crate) holds_lost: u64,
}

/// A message from a client process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The first message of a worker.
    Worker(WorkerId),
    /// The first message of a process's heartbeat.
    Process {
        process: usize,
        incarnation: u32,
    },
    /// The thread is in no call and holds nothing. It waits for a [`Reply::Begin`].
    Ready,
    Called(Call),
    Granted(Grant),
    /// `is_held()` was true. The write follows a [`Reply::Proceed`].
    AboutToWrite {
        hold: HoldId,
    },
    /// Expects a [`Reply::Written`].
    Write {
        hold: HoldId,
        token: u64,
    },
    /// The loss was reported by `lost()` or by the end of the lease.
    Lost {
        hold: HoldId,
        at: Nanos,
        reason: String,
    },
    /// The witness is free again, and the unlock begins. The process may die before its end.
    Leaving {
        hold: HoldId,
        at: Nanos,
    },
    /// The unlock has ended.
    Ended {
        hold: HoldId,
        unlocked: Unlocked,
        /// When the unlock returned, if that proves its outcome.
        at: Option<Nanos>,
    },
    /// A call for several locks returned without any, since one was lost before it had the last.
    LostWhileWaiting {
        kind: Kind,
    },
    /// From a holder that guards writes.
    Committed(Commit),
    /// The process kills itself.
    Dying {
        at: Nanos,
    },
    /// Behaviour that the library must not show.
    Unexpected(String),
    Beat {
        at: Nanos,
        calls: Vec<InFlight>,
        counts: Counts,
    },
    /// The delay of a thread that only sleeps.
    Slept {
        since: Nanos,
        late: u64,
    },
}

/// The workers' task in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Take locks of every kind in every way.
    Locks,
    /// Take exclusive locks, and commit writes guarded by them.
    Guard,
}

/// A message from the coordinator to a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Work until [`Command::Drain`] for this phase. With `deaths`, a worker may kill its process.
    Begin {
        phase: u32,
        deaths: bool,
        task: Task,
    },
    /// No phase follows.
    Finish,
    Written {
        accepted: bool,
    },
    Proceed,
}

/// A message from the coordinator to a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Begin nothing more in this phase.
    Drain { phase: u32 },
    /// No worker kills the process in this phase any more.
    Spare { phase: u32 },
    /// The next holder sends [`Event::AboutToWrite`] before its write.
    Arm,
}

/// The connection of a worker and its loss watchers to the coordinator, or of a process. The process ends
/// with the coordinator.
#[derive(Debug, Clone)]
pub(crate) struct Reporter(Arc<Mutex<UnixStream>>);

impl Reporter {
    pub(crate) fn connect(folder: &Path) -> io::Result<Reporter> {
        Ok(Reporter(Arc::new(Mutex::new(UnixStream::connect(socket(folder))?))))
    }

    /// Another handle of the socket, for the replies.
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

/// `None` at the end. An unfinished line of a killed process is the end, too.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
