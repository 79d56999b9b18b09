//! The step between zoolock and the program: a process that becomes the program when it is told to.
//! It asks for its death when zoolock dies, which only a process itself can do, and gives zoolock
//! the time to hand over the terminal before the program reads from it. The signal comes at once
//! and whatever becomes of the guard, but reaches this one process only.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};

use nix::sys::signal::{SIGKILL, SIGSTOP, raise};
use nix::unistd::getppid;

use crate::exit::{CANNOT_RUN, Failed, NOT_FOUND, SYSTEM};
use crate::signals;

/// The first argument of a process that is such a step. Nothing that a user would type.
const STEP: &str = "--exec-step";

/// What to run to get one. This process is its parent.
pub(crate) fn command(program: &[OsString]) -> Command {
    let mut command = own_program();
    command.args([STEP, &process::id().to_string()]);
    command.args(program);
    command
}

/// This very program, also if its file was replaced meanwhile.
pub(crate) fn own_program() -> Command {
    let own = match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => env::current_exe(),
    };
    let mut command = Command::new(own.unwrap_or_else(|_| "zoolock".into()));
    command.arg0("zoolock");
    command
}

/// Is this process one? Then it becomes the program, or returns the exit code that says why not.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == STEP)?;
    let parent = arguments.next()?;
    let program: Vec<OsString> = arguments.collect();
    Some(run(&parent, &program).tell())
}

/// Does not come back if all is well.
fn run(parent: &OsStr, program: &[OsString]) -> Failed {
    let Some((name, arguments)) = program.split_first() else {
        return Failed::new(SYSTEM, "no program to run");
    };
    if let Err(failed) = get_ready(parent) {
        return failed;
    }
    let error = Command::new(name).args(arguments).exec();
    let code = match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    };
    Failed::new(code, format!("failed to run '{}': {error}", name.display()))
}

fn get_ready(parent: &OsStr) -> Result<(), Failed> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(SIGKILL)?;
    // It may have died before it was asked for.
    if parent != OsStr::new(&getppid().to_string()) {
        raise(SIGKILL)?;
    }
    // Whoever waits for this sends SIGCONT.
    raise(SIGSTOP)?;
    signals::unblock()
}
