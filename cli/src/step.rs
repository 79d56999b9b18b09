//! The step between the supervisor and the program: a process that executes the program when zoolock
//! sends it a message. First, it asks the system to kill it when its supervisor dies, which only the
//! process itself can do. Then it waits for a message with the standard input of the program. Because
//! it needs that message, a signal cannot start the program too early.

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

/// This program, even if its file has been replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Returns the command that starts a step of this zoolock. This process is its parent.
pub(crate) fn command(zoolock: Pid) -> Command {
    let mut command = own_program();
    command.arg0("zoolock").args([STEP, &process::id().to_string(), &zoolock.to_string()]);
    command
}

/// Fails if the program does not exist, so that zoolock does not wait for the lock in vain. Also fails
/// without /proc, which the supervisor needs.
pub(crate) fn find(program: &[OsString]) -> Result<(), Failed> {
    if !Path::new(OWN_PROGRAM).exists() {
        let text = "failed to start a process: zoolock needs /proc, which is not mounted";
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
    let text = format!("failed to run '{}': the program does not exist", name.display());
    Err(Failed::new(NOT_FOUND, text))
}

/// Returns a command that runs this program again.
pub(crate) fn own_program() -> Command {
    Command::new(OWN_PROGRAM)
}

/// If this process is a step, executes the program. Returns an exit code if that fails.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == STEP)?;
    let (parent, zoolock) = (arguments.next()?, arguments.next()?);
    Some(run(&parent, &zoolock).map_or_else(Failed::tell, |()| SYSTEM))
}

/// Executes the program. Returns only if that fails, or if zoolock has ended.
fn run(parent: &OsStr, zoolock: &OsStr) -> Result<(), Failed> {
    let failed = |error| Failed::to_start("a process", error);
    set_pdeathsig(SIGKILL)?;
    // The supervisor may have died before this process requested the signal.
    if parent != OsStr::new(&getppid().to_string()) {
        return Ok(());
    }
    let Some((Message::Go(count), mut files)) =
        receive(io::stdin(), RecvFlags::empty()).map_err(failed)?
    else {
        return Ok(());
    };
    // The last arguments of zoolock's own command line. They are read only now, so that no other
    // process shows the program's command line before the program runs.
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
