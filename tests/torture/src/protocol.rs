//! The roles in which this program starts itself, and the events that client processes report, as lines of JSON on
//! their standard output. The end of their standard input means that all faults are over.

use std::env;
use std::io::{BufRead, Write, stdout};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, Stdio};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use zoolock_checker::{Call, Commit, Grant, HoldId, Mode, Nanos, Unlocked, WorkerId};

use crate::Outcome;
use crate::client::ClientOptions;
use crate::kills::Facts;

/// The directory of all guarded writes. Each write creates a node in it, whose transaction id shows the order.
pub(crate) const JOURNAL: &str = "/journal";

/// The role of a process of this program, and the input for it.
#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    Client(ClientOptions),
    Holder(Facts),
}

impl Role {
    pub(crate) fn start(&self) -> Outcome<Child> {
        let mut program = Command::new(env::current_exe()?);
        program.arg("--role").arg(serde_json::to_string(self)?);
        // Only the coordinator receives the terminal's interrupt. The other processes end when it ends.
        program.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(program.spawn()?)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A call begins. `mode` is set if it requests a lock.
    Began {
        by: WorkerId,
        op: String,
        path: usize,
        mode: Option<Mode>,
        started: Nanos,
        deadline: Option<Nanos>,
    },
    Called(WorkerId, Call),
    Granted(Grant),
    Lost(HoldId, Nanos, String),
    /// An unlock begins.
    Leaving(HoldId, Nanos),
    Ended(HoldId, Unlocked, Nanos),
    Committed(Commit),
    /// The client is about to delete another client's node.
    Deletes(String, Nanos),
    /// The client requests that its own session is ended.
    Expires,
    /// Behaviour that the library must not show.
    Unexpected(String),
    /// The client has completed all steps.
    Idle,
}

impl Event {
    /// Reports the event to the coordinator. If the coordinator has ended, this process ends as well.
    pub(crate) fn report(&self) {
        let line = serde_json::to_string(self).unwrap_or_default();
        if writeln!(stdout().lock(), "{line}").is_err() {
            process::exit(1);
        }
    }

    /// Reads the next event. Returns `None` at the end, and for an incomplete line, which a killed process may leave.
    pub(crate) fn read(from: &mut impl BufRead) -> Option<Event> {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

/// Returns the time of the machine's monotonic clock, which all processes share, in nanoseconds.
pub(crate) fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
