//! The guard: a second process that outlives zoolock by a moment. It kills the program and its
//! descendants when zoolock is killed. It does the same when zoolock, stopped or stuck, does not
//! report in time that the lock is still held. A process can ask for a signal at its parent's
//! death, but that signal does not reach its descendants.
//!
//! A guard has one thread. It reports that it is ready when it has everything that it needs to
//! kill. The program starts only then. zoolock replaces a guard that ends.

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

/// The first argument of a guard process. No user would type it.
const GUARD: &str = "--exec-guard";

/// The output of a guard that is ready. Any other output says why it is not.
const READY: &[u8] = b"ready\n";

/// How long a guard may take to get ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// The message, in place of a time, that all processes have ended.
const OVER: Duration = Duration::ZERO;

/// The message, in place of a time, that the group has ended.
const GROUP_OVER: Duration = Duration::from_millis(1);

/// The guard of a family. Its process may be replaced.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    family: Family,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    /// The end of the lease, if [`allow_the_lease`](Guard::allow_the_lease) was called.
    end: Option<Duration>,
}

/// A guard process that is ready.
#[derive(Debug)]
struct Process {
    id: Pid,
    /// The system closes this when zoolock ends, for whatever reason.
    input: OwnedFd,
}

impl Guard {
    /// Returns the guard of a family. It has no process before [`start`](Self::start).
    pub(crate) fn over(family: &Family) -> Guard {
        Guard { family: family.clone(), state: Arc::default() }
    }

    /// Starts a process that replaces the previous one, and waits until it is ready. The process
    /// inherits the blocked signals, so nothing interrupts it.
    pub(crate) fn start(&self) -> Result<(), Failed> {
        let failed = |cause| Failed::to_start("the process that guards the program", cause);
        self.state().process = None;
        let process = self.spawn().map_err(failed)?;
        let mut state = self.state();
        let end = state.end;
        state.process = Some(process);
        // Both may have changed while the process got ready.
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
        // The guard must have these messages when it is ready, because zoolock may be stopped
        // before it sends more. The end of the group comes first. After the end of the lease, the
        // guard would kill a group whose number may belong to others by now.
        let known = [self.family.group_is_over().then_some(GROUP_OVER), self.state().end];
        for message in known.into_iter().flatten() {
            write(&said, &bytes(message))?;
        }
        let mut guard = own_program();
        // A zoolock around this one must not kill the guard, which is needed at that moment. Its
        // name is not zoolock, so that `pkill zoolock` spares it.
        unmark(&mut guard);
        guard.arg0("lock-guard").env_remove(AUTH);
        guard.args([GUARD, &self.family.group.to_string()]).arg(self.family.mark());
        guard.stdin(input).stdout(output.try_clone()?).stderr(output);
        // In its own group, the guard survives a kill of zoolock's group.
        let child = guard.process_group(0).spawn()?;
        // Closes the child's ends of the pipes here.
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

    /// Returns whether the last announced lease has ended. Then a guard can only kill.
    pub(crate) fn is_late(&self) -> bool {
        self.state().end.is_some_and(|end| end <= now())
    }

    /// Continues a guard that was stopped.
    pub(crate) fn let_go_on(&self) {
        self.state().signal(SIGCONT);
    }

    /// Tells the guard that the family may run until the lease ends, as known now. Before the first
    /// call, there is no limit.
    pub(crate) fn allow_the_lease(&self, held: &Held) {
        // Read the clock first: if zoolock is stopped in between, the result is too early, never
        // too late.
        let now = now();
        let end = now + held.hold.valid_for();
        let mut state = self.state();
        state.end = Some(end);
        state.say(end);
    }

    /// Notes that the group has ended, and tells the guard: another group may get its number.
    pub(crate) fn forget_the_group(&self) {
        if self.family.forget_the_group() {
            self.state().say(GROUP_OVER);
        }
    }

    /// Tells the guard that the family has ended. Without this call, the guard kills the family
    /// when zoolock ends.
    pub(crate) fn dismiss(&self) {
        self.state().say(OVER);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Sends a message to the guard, without blocking. If its process has ended, the next process
    /// gets the message when it starts.
    fn say(&self, end: Duration) {
        let Some(process) = &self.process else { return };
        if write(&process.input, &bytes(end)) == Err(Errno::AGAIN) {
            // The pipe is full because this process does not read. Another one has to replace it.
            self.signal(SIGKILL);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            let _ = kill(process.id, signal);
        }
    }
}

/// Encodes a message to a guard.
fn bytes(end: Duration) -> [u8; 8] {
    u64::try_from(end.as_millis()).unwrap_or(u64::MAX).to_ne_bytes()
}

/// Waits until a guard reports that it is ready.
fn await_ready(mut told: PipeReader) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    // Compares only the end: the dynamic loader may have printed a warning before.
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
                return Err(io::Error::other(
                    why.unwrap_or("it ended without a message").to_owned(),
                ));
            }
            length => said.extend_from_slice(&more[..length]),
        }
    }
    Ok(())
}

/// If this process is a guard, does its work and returns its exit code.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == GUARD)?;
    let group = arguments.next()?.to_str()?.parse().ok()?;
    let family = Family::new(Pid::from_raw(group), arguments.next()?);
    let Err(error) = guard(&family) else { return Some(0) };
    let _ = writeln!(io::stderr(), "{error}");
    Some(SYSTEM)
}

/// Returns when the family has ended or was killed. Fails if it cannot get ready.
fn guard(family: &Family) -> io::Result<()> {
    // A first look for members, so that its memory and files are there when it matters.
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

/// Returns zoolock's next message, or `None` if zoolock has ended or sends nothing within this
/// time.
fn next_message(within: Duration) -> Option<Duration> {
    if !is_readable(io::stdin(), within).unwrap_or(false) {
        return None;
    }
    let mut message = [0; 8];
    // Writes of so few bytes to a pipe are atomic.
    let length = read(io::stdin(), &mut message).ok()?;
    (length == message.len()).then(|| Duration::from_millis(u64::from_ne_bytes(message)))
}

/// Returns the monotonic time, which all processes of this machine share. Changes of the system
/// clock do not affect it.
fn now() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.unwrap_or_default()
}
