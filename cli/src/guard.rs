//! A second process that outlives zoolock by a moment: when zoolock is killed, or does not say in
//! time that the lock is still held because it is stopped or stuck, it kills the program's group.
//! What the program has started is of that group, too, and the signal that a process can ask for
//! when its parent dies reaches none of that.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use zoolock::crossbeam_channel::unbounded;

use crate::args::AUTH;
use crate::exit::{Failed, SYSTEM};
use crate::family::{Family, unmark};
use crate::holder::Held;
use crate::step::own_program;

/// The first argument of a process that is one. Nothing that a user would type.
const GUARD: &str = "--exec-guard";

/// What is said instead of a time when there is nothing left to kill.
const OVER: Duration = Duration::ZERO;

/// What is said instead of a time when nothing is left of the group.
const GROUP_OVER: Duration = Duration::from_millis(1);

/// One of them, for as long as this is kept.
pub(crate) struct Guard(Child);

impl Guard {
    /// Of the program and all that it starts. It is not interrupted: the signals that are blocked
    /// here are blocked there.
    pub(crate) fn over(family: &Family) -> Result<Guard, Failed> {
        let mut guard = own_program();
        // A zoolock around this one must not kill it: it has something to do then. And whoever kills
        // all that is called zoolock does not mean it.
        unmark(&mut guard);
        guard.arg0("lock-guard").env_remove(AUTH);
        let guard = guard
            .args([GUARD, &family.group.to_string()])
            .arg(family.mark())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Whoever kills zoolock as a job does not kill this.
            .process_group(0)
            .spawn();
        let failed = |error| Failed::new(SYSTEM, format!("no new process: {error}"));
        guard.map(Guard).map_err(failed)
    }

    /// The group may run until the lease ends as it is known now. Until this is called for the first
    /// time there is no end.
    pub(crate) fn allow_the_lease(&mut self, held: &Held) {
        // In this order: zoolock may be stopped in between.
        let now = now();
        let end = now + held.hold.valid_for();
        self.say(end);
    }

    /// Its number may be given to another one.
    pub(crate) fn forget_the_group(&mut self) {
        self.say(GROUP_OVER);
    }

    fn say(&mut self, end: Duration) {
        if let Some(guard) = &mut self.0.stdin {
            // If it was killed, the program still dies with zoolock.
            let _ = guard.write_all(format!("{}\n", end.as_millis()).as_bytes());
        }
    }
}

impl Drop for Guard {
    /// All of it is gone. Unless something went wrong:
    /// then it is to end with zoolock.
    fn drop(&mut self) {
        if !thread::panicking() {
            self.say(OVER);
        }
    }
}

/// Is this process one? Then it does its part, and returns its exit code.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == GUARD)?;
    let group = arguments.next()?.to_str()?.parse().ok()?;
    let family = Family::new(Pid::from_raw(group), arguments.next()?);
    let (tell, told) = unbounded();
    // The other end is closed with zoolock, however that ends.
    thread::spawn(move || {
        let ends = io::stdin().lines().map_while(Result::ok);
        for end in ends.map_while(|end| end.parse().ok()) {
            let _ = tell.send(Duration::from_millis(end));
        }
    });
    let mut end = Duration::MAX;
    while let Ok(later) = told.recv_timeout(end.saturating_sub(now())) {
        match later {
            OVER => return Some(0),
            GROUP_OVER => family.forget_the_group(),
            later => end = later,
        }
    }
    family.kill();
    Some(0)
}

/// The same for all processes of this machine. What the system clock is set to does not count.
fn now() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.unwrap_or_default()
}
