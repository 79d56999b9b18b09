//! The step between the supervisor and the program: a process that becomes the program when zoolock
//! says so. First it asks the system to kill it when its supervisor dies; only the process itself
//! can ask for that. Then it waits for the standard input of the program, which comes in a message,
//! so no signal can start a program too early.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command};
use std::{env, fs};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::SIGKILL;
use nix::unistd::{Pid, getppid};
use rustix::net::RecvFlags;

use crate::exit::{CANNOT_RUN, Failed, NOT_FOUND, SYSTEM};
use crate::messages::{Message, receive};
use crate::signals;

/// The first argument of a step process. No user would type it.
const STEP: &str = "--exec-step";

/// This program, even if its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Returns the command that starts a step of this zoolock. This process is its parent.
pub(crate) fn command(zoolock: Pid) -> Command {
    let mut command = own_program();
    command.arg0("zoolock").args([STEP, &process::id().to_string(), &zoolock.to_string()]);
    command
}

/// Fails if there is no such program: so its lock is not waited for in vain. Fails without /proc,
/// too, which the supervisor needs.
pub(crate) fn find(program: &[OsString]) -> Result<(), Failed> {
    if !Path::new(OWN_PROGRAM).exists() {
        let text = "failed to start a process: /proc is not mounted, which zoolock needs";
        return Err(Failed::new(SYSTEM, text));
    }
    let (Some(name), Some(path)) = (program.first(), env::var_os("PATH")) else {
        return Ok(());
    };
    let is_there = match name.as_bytes().contains(&b'/') {
        true => Path::new(name).exists(),
        false => {
            !name.is_empty() && env::split_paths(&path).any(|folder| folder.join(name).exists())
        }
    };
    if is_there {
        return Ok(());
    }
    let text = format!("failed to run '{}': there is no such program", name.display());
    Err(Failed::new(NOT_FOUND, text))
}

/// Returns a command that runs this program again.
pub(crate) fn own_program() -> Command {
    Command::new(OWN_PROGRAM)
}

/// If this process is a step, becomes the program. Returns an exit code if that fails.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == STEP)?;
    let (parent, zoolock) = (arguments.next()?, arguments.next()?);
    Some(run(&parent, &zoolock).map_or_else(Failed::tell, |()| SYSTEM))
}

/// Becomes the program. Returns only if zoolock has ended, or if that fails.
fn run(parent: &OsStr, zoolock: &OsStr) -> Result<(), Failed> {
    let failed = |error| Failed::to_start("a process", error);
    set_pdeathsig(SIGKILL)?;
    // The supervisor may have died before this process asked for the signal.
    if parent != OsStr::new(&getppid().to_string()) {
        return Ok(());
    }
    let Some((Message::Go(count), mut files)) =
        receive(io::stdin(), RecvFlags::empty()).map_err(failed)?
    else {
        return Ok(());
    };
    // The last words of zoolock's own command line. No other process shows them before.
    let line = fs::read(Path::new("/proc").join(zoolock).join("cmdline")).map_err(failed)?;
    let line = line.strip_suffix(b"\0").unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(OsStr::from_bytes).collect();
    let (Some(input), Some((name, rest))) =
        (files.pop(), words[words.len().saturating_sub(count)..].split_first())
    else {
        return Ok(());
    };
    signals::unblock()?;
    let error = Command::new(name).args(rest).stdin(input).exec();
    let code = match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    };
    Err(Failed::new(code, format!("failed to run '{}': {error}", name.display())))
}
