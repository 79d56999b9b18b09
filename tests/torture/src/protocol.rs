//! Copies of this program, and what the client processes among them tell: lines of JSON on their standard output. The
//! end of their standard input says that all faults are over.

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

/// The directory of all guarded writes: each creates a node, whose transaction shows the order.
pub(crate) const JOURNAL: &str = "/journal";

/// What a copy of this program is, and what it has to know.
#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    Client(ClientOptions),
    Holder(Facts),
}

impl Role {
    pub(crate) fn start(&self) -> Outcome<Child> {
        let mut program = Command::new(env::current_exe()?);
        program.arg("--role").arg(serde_json::to_string(self)?);
        // The coordinator gets the terminal's interrupt, and ends the others with itself.
        program.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(program.spawn()?)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A call begins, for a lock in this mode or for something else.
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
    /// The unlock begins.
    Leaving(HoldId, Nanos),
    Ended(HoldId, Unlocked, Nanos),
    Committed(Commit),
    /// The client deletes the node of another one.
    Deletes(String, Nanos),
    /// The client asks for the end of its session.
    Expires,
    /// Behaviour that the library must not show.
    Unexpected(String),
    /// All steps are done.
    Idle,
}

impl Event {
    /// Tells the coordinator, which this process does not survive.
    pub(crate) fn report(&self) {
        let line = serde_json::to_string(self).unwrap_or_default();
        if writeln!(stdout().lock(), "{line}").is_err() {
            process::exit(1);
        }
    }

    /// Reads the next event. `None` at the end, also in a line that a killed process has not finished.
    pub(crate) fn read(from: &mut impl BufRead) -> Option<Event> {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

/// Nanoseconds of the machine's monotonic clock, which all processes share.
pub(crate) fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
