//! A second process that outlives zoolock by a moment: when zoolock is killed, or does not say in
//! time that the lock is still held because it is stopped or stuck, it kills the program's group.
//! What the program has started is of that group, too, and the signal that a process can ask for
//! when its parent dies reaches none of that.
//!
//! A guard has one thread, and says that it is ready when it has everything that it needs to kill.
//! The program goes on after that only. A guard that ends is replaced.

use std::env;
use std::io::{self, PipeReader, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SIGCONT, SIGKILL, Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rustix::io::{Errno, ioctl_fionbio, read, write};

use crate::args::AUTH;
use crate::exit::{Failed, SYSTEM};
use crate::family::{Family, PAUSE, unmark};
use crate::holder::Held;
use crate::ready::is_readable;
use crate::step::own_program;

/// The first argument of a process that is one. Nothing that a user would type.
const GUARD: &str = "--exec-guard";

/// What a guard says when it is ready. Anything else is the reason why it is not.
const READY: &[u8] = b"ready\n";

/// How long a guard may take to be ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said instead of a time when there is nothing left to kill.
const OVER: Duration = Duration::ZERO;

/// What is said instead of a time when nothing is left of the group.
const GROUP_OVER: Duration = Duration::from_millis(1);

/// The guard of a family, whichever process that is now.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    family: Family,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    /// When the lease ends, if that was said.
    end: Option<Duration>,
}

/// A process that is ready.
#[derive(Debug)]
struct Process {
    id: Pid,
    /// Closed with zoolock, however that ends.
    input: OwnedFd,
}

impl Guard {
    /// Returns the guard of a program and all that it starts. It has no process before [`start`](Self::start).
    pub(crate) fn over(family: &Family) -> Guard {
        Guard { family: family.clone(), state: Arc::default() }
    }

    /// Starts a process in the place of the one before, and waits until it is ready. The process inherits the blocked
    /// signals, so nothing interrupts it.
    pub(crate) fn start(&self) -> Result<(), Failed> {
        let failed = |cause| Failed::to_start("the process that guards the program", cause);
        self.state().process = None;
        let process = self.spawn().map_err(failed)?;
        let mut state = self.state();
        let end = state.end;
        state.process = Some(process);
        // As they are by now.
        if self.family.group_is_over() {
            state.say(GROUP_OVER);
        }
        end.into_iter().for_each(|end| state.say(end));
        Ok(())
    }

    fn spawn(&self) -> io::Result<Process> {
        let ((input, said), (told, output)) = (pipe()?, pipe()?);
        // A guard that does not read must not block zoolock.
        ioctl_fionbio(&said, true)?;
        // It has all this when it is ready: zoolock may be stopped before it says more. The end of the group is first,
        // since behind the end of the lease it would kill a group that is somebody else's by now.
        let known = [self.family.group_is_over().then_some(GROUP_OVER), self.state().end];
        for message in known.into_iter().flatten() {
            write(&said, &bytes(message))?;
        }
        let mut guard = own_program();
        // A zoolock around this one must not kill it: it has something to do then. And whoever kills
        // all that is called zoolock does not mean it.
        unmark(&mut guard);
        guard.arg0("lock-guard").env_remove(AUTH);
        guard.args([GUARD, &self.family.group.to_string()]).arg(self.family.mark());
        guard.stdin(input).stdout(output.try_clone()?).stderr(output);
        // Whoever kills zoolock as a job does not kill this.
        let child = guard.process_group(0).spawn()?;
        // It has the other ends of the pipes.
        drop(guard);
        let id = Pid::from_raw(child.id().cast_signed());
        await_ready(told).inspect_err(|_| {
            let _ = kill(id, SIGKILL);
        })?;
        Ok(Process { id, input: said.into() })
    }

    /// Returns whether this process is the guard.
    pub(crate) fn is(&self, id: Pid) -> bool {
        self.state().process.as_ref().is_some_and(|process| process.id == id)
    }

    /// Returns whether the end that was said is over. A guard has nothing to do then but to kill.
    pub(crate) fn is_late(&self) -> bool {
        self.state().end.is_some_and(|end| end <= now())
    }

    /// Continues a guard that was stopped.
    pub(crate) fn let_go_on(&self) {
        self.state().signal(SIGCONT);
    }

    /// The group may run until the lease ends as it is known now. Until this is called for the first
    /// time there is no end.
    pub(crate) fn allow_the_lease(&self, held: &Held) {
        // In this order: zoolock may be stopped in between.
        let now = now();
        let end = now + held.hold.valid_for();
        let mut state = self.state();
        state.end = Some(end);
        state.say(end);
    }

    /// Its number may be given to another one.
    pub(crate) fn forget_the_group(&self) {
        if self.family.forget_the_group() {
            self.state().say(GROUP_OVER);
        }
    }

    /// Tells the guard that the family has ended. Without this call it kills the family when zoolock ends.
    pub(crate) fn dismiss(&self) {
        self.state().say(OVER);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Tells the guard, without blocking. If its process has ended, the next one is told.
    fn say(&self, end: Duration) {
        let Some(process) = &self.process else { return };
        if write(&process.input, &bytes(end)) == Err(Errno::AGAIN) {
            // The pipe is full: this process does not read, and another one has to take its place.
            self.signal(SIGKILL);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            let _ = kill(process.id, signal);
        }
    }
}

/// Returns a message to a guard.
fn bytes(end: Duration) -> [u8; 8] {
    u64::try_from(end.as_millis()).unwrap_or(u64::MAX).to_ne_bytes()
}

/// Waits until a guard says that it is ready.
fn await_ready(mut told: PipeReader) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    // The dynamic loader may have printed a warning before.
    while !said.ends_with(READY) {
        let left = end.saturating_duration_since(Instant::now());
        if !is_readable(&told, left)? {
            return Err(io::Error::other(format!("it is not ready after {PATIENCE:?}")));
        }
        let mut more = [0; 256];
        match told.read(&mut more)? {
            0 => {
                let said = String::from_utf8_lossy(&said);
                let why = said.trim().rsplit('\n').next().filter(|line| !line.is_empty());
                return Err(io::Error::other(why.unwrap_or("it was ended").to_owned()));
            }
            length => said.extend_from_slice(&more[..length]),
        }
    }
    Ok(())
}

/// Is this process one? Then it does its part, and returns its exit code.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == GUARD)?;
    let group = arguments.next()?.to_str()?.parse().ok()?;
    let family = Family::new(Pid::from_raw(group), arguments.next()?);
    let Err(error) = guard(&family) else { return Some(0) };
    let _ = writeln!(io::stderr(), "{error}");
    Some(SYSTEM)
}

/// Returns when the family has ended or was killed, and earlier only if it cannot get ready.
fn guard(family: &Family) -> io::Result<()> {
    // The memory and the files that this takes are there when it is done in earnest.
    family.others()?;
    write(io::stdout(), READY)?;
    let mut end = Duration::MAX;
    loop {
        let message = next_message(end.saturating_sub(now()));
        match message {
            Some(OVER) => return Ok(()),
            Some(GROUP_OVER) => drop(family.forget_the_group()),
            Some(later) => end = later,
            None => break,
        }
    }
    while family.kill().is_err() {
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns what zoolock says next, or `None` if it has ended or says nothing within this time.
fn next_message(within: Duration) -> Option<Duration> {
    if !is_readable(io::stdin(), within).unwrap_or(false) {
        return None;
    }
    let mut message = [0; 8];
    // A pipe takes so few bytes as a whole.
    let length = read(io::stdin(), &mut message).ok()?;
    (length == message.len()).then(|| Duration::from_millis(u64::from_ne_bytes(message)))
}

/// The same for all processes of this machine. What the system clock is set to does not count.
fn now() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.unwrap_or_default()
}
