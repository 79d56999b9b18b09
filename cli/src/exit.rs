//! The exit codes, and the code for each error. The codes are those of flock(1) where it defines them,
//! and otherwise those of sysexits(3).

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::thread;

use nix::sys::signal::SIGPIPE;
use zoolock::Error;

use crate::output::say;

/// Another client has the lock, or kept it for too long.
pub(crate) const CONFLICT: u8 = 1;
/// The arguments or settings are wrong.
pub(crate) const USAGE: u8 = 64;
/// No server can be reached, or none answers: the state of the lock is unknown.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The operating system refused something that the command needs.
pub(crate) const SYSTEM: u8 = 71;
/// The lock was lost while the program ran.
pub(crate) const LOST: u8 = 74;
/// The servers deny permission, or refuse the credentials.
pub(crate) const DENIED: u8 = 77;
/// The program exists, but cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// The program does not exist.
pub(crate) const NOT_FOUND: u8 = 127;

/// Returns the exit code for a process that this signal ended.
pub(crate) fn by_signal(signal: i32) -> u8 {
    128_u8.saturating_add(signal as u8)
}

/// A failure of the command.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: u8,
    /// The message, if there is one.
    pub(crate) text: Option<String>,
}

impl Failed {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Failed {
        let text = Some(text.into());
        Failed { code, text }
    }

    /// Returns the error of a process or a thread that could not be started.
    pub(crate) fn to_start(what: &str, cause: impl Display) -> Failed {
        Failed::new(SYSTEM, format!("failed to start {what}: {cause}"))
    }

    /// Returns a failure without a message.
    pub(crate) fn silent(code: u8) -> Failed {
        Failed { code, text: None }
    }

    /// Writes the message, and returns the exit code.
    pub(crate) fn tell(self) -> u8 {
        self.text.iter().for_each(|text| say(text));
        self.code
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        let code = match &error {
            Error::InvalidPath { .. } | Error::InvalidArgument { .. } => USAGE,
            Error::SpawnThread { .. } => SYSTEM,
            error if error.kind() == zoolock::ErrorKind::Denied => DENIED,
            error if error.is_lost() => LOST,
            _ => UNAVAILABLE,
        };
        Failed::new(code, error.to_string())
    }
}

impl From<nix::Error> for Failed {
    fn from(error: nix::Error) -> Failed {
        Failed::new(SYSTEM, error.desc())
    }
}

/// Starts a thread. Fails with [`SYSTEM`] if the system refuses one.
pub(crate) fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Failed> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(|cause| Failed::to_start(&format!("the thread `{name}`"), cause))
}

/// Writes to standard output, in one piece. If the reader has closed the pipe, fails without a message.
/// Blocks while the reader is slow, so do not call this while a lock is held.
pub(crate) fn print(text: &[u8]) -> Result<u8, Failed> {
    let mut output = io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            Err(Failed::silent(by_signal(SIGPIPE as i32)))
        }
        Err(error) => {
            Err(Failed::new(SYSTEM, format!("failed to write to standard output: {error}")))
        }
    }
}
