//! The step between zoolock and the program: a process that becomes the program when zoolock
//! continues it. First it asks the system to kill it when zoolock dies; only the process itself can
//! ask for that. Then it waits, while zoolock hands over the terminal. The kill comes at once, even
//! without a guard, but does not reach descendants.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command};

use nix::sys::signal::{SIGKILL, SIGSTOP, raise};
use nix::unistd::getppid;

use crate::exit::{CANNOT_RUN, Failed, NOT_FOUND, SYSTEM};
use crate::signals;

/// The first argument of a step process. No user would type it.
const STEP: &str = "--exec-step";

/// Returns the command that starts a step. This process is its parent.
pub(crate) fn command(program: &[OsString]) -> Command {
    let mut command = own_program();
    command.args([STEP, &process::id().to_string()]);
    command.args(program);
    command
}

/// Fails if there is no such program: so its lock is not waited for in vain.
pub(crate) fn find(program: &[OsString]) -> Result<(), Failed> {
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

/// Returns a command that runs this program again, even if its file was replaced meanwhile.
pub(crate) fn own_program() -> Command {
    let own = match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => env::current_exe(),
    };
    let mut command = Command::new(own.unwrap_or_else(|_| "zoolock".into()));
    command.arg0("zoolock");
    command
}

/// If this process is a step, becomes the program. Returns an exit code if that fails.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == STEP)?;
    let parent = arguments.next()?;
    let program: Vec<OsString> = arguments.collect();
    Some(run(&parent, &program).tell())
}

/// Becomes the program. Returns only if that fails.
fn run(parent: &OsStr, program: &[OsString]) -> Failed {
    let Some((name, arguments)) = program.split_first() else {
        return Failed::new(SYSTEM, "failed to run the program: its name is missing");
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
    // zoolock may have died before this process asked for the signal.
    if parent != OsStr::new(&getppid().to_string()) {
        raise(SIGKILL)?;
    }
    // zoolock waits for this stop, and then sends SIGCONT.
    raise(SIGSTOP)?;
    signals::unblock()
}
