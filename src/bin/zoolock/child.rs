//! The program as a process in a group of its own, and all that it leaves in that group.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, getpgid, wait, waitpgid};
use zoolock::crossbeam_channel::{Receiver, Sender, after, select_biased, unbounded};

use crate::exit::{Failed, SYSTEM, by_signal};
use crate::guard::Guard;
use crate::holder::Held;

/// How often to look what is left of the group when the program itself has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Stopped(Signal),
    /// It and all of its group. With this exit code of its own, as shells have it.
    Ended(u8),
}

pub(crate) struct Child {
    /// Its process, and its group.
    pub(crate) id: Pid,
    guard: Guard,
    events: Receiver<Event>,
}

impl Child {
    /// Starts it. To be called on a thread that lives as long as the process: on Linux the child
    /// dies with the thread that has made it.
    pub(crate) fn start(mut command: Command) -> Result<Child, Failed> {
        // What the program leaves behind when it ends is waited for like the program itself.
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true)?;
        let started = command.process_group(0).spawn();
        let started =
            started.map_err(|error| Failed::new(SYSTEM, format!("no new process: {error}")))?;
        let id = Pid::from_raw(started.id().cast_signed());
        let guard = Guard::over(id).inspect_err(|_| {
            let _ = killpg(id, SIGKILL);
        })?;
        let (sender, events) = unbounded();
        thread::spawn(move || watch(id, &sender));
        Ok(Child { id, guard, events })
    }

    /// What becomes of it. Nothing comes after its end.
    pub(crate) fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// To all of its group. It may have ended meanwhile.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = killpg(self.id, signal);
    }

    /// It may run for as long as the lock is held for certain, whatever becomes of zoolock.
    pub(crate) fn allow_the_lease(&mut self, held: &Held) {
        self.guard.allow_the_lease(held);
    }

    pub(crate) fn kill(&self) {
        self.signal(SIGKILL);
        while let Ok(Event::Stopped(_)) = self.events.recv() {}
    }

    /// Ends it, and all of its group, before anybody else can be given the lock: it is asked to
    /// end, and killed when the certified lease runs out, which is a margin before the servers can
    /// let the next one in.
    pub(crate) fn end_before_the_lease(&self, held: &Held) {
        let end = Instant::now() + held.hold.valid_for();
        self.signal(SIGTERM);
        // A stopped one could not act on it.
        self.signal(SIGCONT);
        loop {
            select_biased! {
                recv(self.events) -> event => match event {
                    Ok(Event::Stopped(_)) => {}
                    _ => return,
                },
                recv(held.hold.lost()) -> _ => break,
                recv(after(end.saturating_duration_since(Instant::now()))) -> _ => break,
            }
        }
        self.kill();
    }
}

/// Says what becomes of a program and its group until nobody of it is left. Takes note of the end of
/// others, too: what has left the group is nobody else's child when its parent ends.
fn watch(program: Pid, say: &Sender<Event>) {
    let Some(group) = rustix::process::Pid::from_raw(program.as_raw()) else {
        return;
    };
    let mut code = None;
    loop {
        // Nothing tells when a process leaves the group, so who is left in it is looked at again.
        let options = match code {
            None => WaitOptions::UNTRACED,
            Some(_) => WaitOptions::UNTRACED | WaitOptions::NOHANG,
        };
        match wait(options) {
            Ok(Some((process, status))) => match status.stopping_signal() {
                // What else is in the group stops with the program, while there is one.
                Some(by) if process == group || code.is_some() && is_in(group, process) => {
                    let by = Signal::try_from(by).unwrap_or(SIGSTOP);
                    let _ = say.send(Event::Stopped(by));
                }
                None if process == group => code = code_of(status),
                _ => {}
            },
            Ok(None) => thread::sleep(LOOK_AGAIN),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
        if code.is_some() && is_over(group) {
            break;
        }
    }
    let _ = say.send(Event::Ended(code.unwrap_or(SYSTEM)));
}

fn is_in(group: rustix::process::Pid, process: rustix::process::Pid) -> bool {
    getpgid(Some(process)) == Ok(group)
}

/// Is nobody left of a group without its program?
fn is_over(group: rustix::process::Pid) -> bool {
    loop {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            answer => return answer.is_err(),
        }
    }
}

/// What a shell says of a process that has ended. Not all signals that may have ended it have a name.
fn code_of(status: WaitStatus) -> Option<u8> {
    let code = status.exit_status().map(|code| code as u8);
    code.or_else(|| status.terminating_signal().map(by_signal))
}
