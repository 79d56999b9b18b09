//! A second process that outlives zoolock by a moment: when zoolock is killed, it kills the
//! program's group. What the program has started is of that group, too, and the signal that a
//! process can ask for when its parent dies reaches none of that.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use nix::sys::signal::{SIGKILL, killpg};
use nix::unistd::Pid;

use crate::exit::{Failed, SYSTEM};
use crate::step::own_program;

/// The first argument of a process that is one. Nothing that a user would type.
const GUARD: &str = "--exec-guard";

/// One of them, for as long as this is kept.
pub(crate) struct Guard(Child);

impl Guard {
    /// Of the process group. It is not interrupted: the signals that are blocked here are blocked
    /// there.
    pub(crate) fn over(group: Pid) -> Result<Guard, Failed> {
        let guard = own_program()
            .args([GUARD, &group.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Whoever kills zoolock as a job does not kill this.
            .process_group(0)
            .spawn();
        let failed = |error| Failed::new(SYSTEM, format!("no new process: {error}"));
        guard.map(Guard).map_err(failed)
    }
}

impl Drop for Guard {
    /// Not by a word to it: when the group is gone its number may be given to another one.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is this process one? Then it does its part, and returns its exit code.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == GUARD)?;
    let group = arguments.next()?.to_str()?.parse().ok()?;
    // The other end is closed with zoolock, however that ends.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let _ = killpg(Pid::from_raw(group), SIGKILL);
    Some(0)
}
