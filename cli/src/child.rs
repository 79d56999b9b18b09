//! Runs the program as a process in its own group, and waits for everything that the program
//! starts.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signal};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpgid, wait, waitpgid};
use zoolock::crossbeam_channel::{
    Receiver, RecvTimeoutError, Sender, after, select_biased, unbounded,
};

use crate::exit::{Failed, SYSTEM, by_signal, start_thread};
use crate::family::{Family, mark};
use crate::guard::Guard;
use crate::holder::Held;

/// Interval between looks at the rest of the group, when the program itself has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Interval between looks when the group has ended, but some descendants have not. Such a look
/// takes longer.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(200);

/// What happened to the program.
#[derive(Debug)]
pub(crate) enum Event {
    Stopped(Signal),
    /// The program and its whole group have ended. Some descendants in other groups have not.
    GroupEnded,
    /// There is no guard, for this reason, so the program must not continue.
    Unguarded(Failed),
    /// The program and all its descendants have ended. Has the program's exit code, as shells
    /// report it, and the signal that ended the program, if one did: a number, because `Signal` does
    /// not have all of them.
    Ended(u8, Option<i32>),
}

pub(crate) struct Child {
    /// The process of the program, and its group.
    pub(crate) id: Pid,
    family: Family,
    guard: Guard,
    events: Receiver<Event>,
}

impl Child {
    /// Starts the program with a unique mark. Call this on a thread that lives as long as the
    /// process: on Linux, the child dies with the thread that created it.
    pub(crate) fn start(mut command: Command, its_mark: &str) -> Result<Child, Failed> {
        // Orphans of the program become children of zoolock, which can then wait for them.
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true)?;
        mark(&mut command, its_mark);
        let failed = |error| Failed::to_start("a process", error);
        let started = command.process_group(0).spawn().map_err(failed)?;
        let id = Pid::from_raw(started.id().cast_signed());
        let family = Family::new(id, its_mark);
        let guard = Guard::over(&family);
        let (sender, events) = unbounded();
        let (watched, guarding) = (family.clone(), guard.clone());
        // The program has not started, so it has no descendants to kill.
        start_thread("zoolock-program", move || watch(&watched, &guarding, &sender))
            .inspect_err(|_| family.signal(SIGKILL))?;
        Ok(Child { id, family, guard, events })
    }

    /// Returns the events of the program, from the time it is guarded. `Ended` is the last one.
    pub(crate) fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Signals the group of the program, or its other descendants if the group has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        self.family.signal(signal);
    }

    /// Tells the guard that the program may run until the lease ends, whatever happens to zoolock.
    pub(crate) fn allow_the_lease(&self, held: &Held) {
        self.guard.allow_the_lease(held);
    }

    pub(crate) fn kill(&self) {
        loop {
            // `Ended` comes only when no process is left for certain.
            let _ = self.family.kill();
            match self.events.recv_timeout(LOOK_FOR_OTHERS) {
                Ok(Event::Ended(..)) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends the program and its descendants before another client can get the lock. They get TERM
    /// at once, and KILL when the certified lease runs out, shortly before the servers can let the
    /// next client in.
    pub(crate) fn end_before_the_lease(&self, held: &Held) {
        let end = Instant::now() + held.hold.valid_for();
        self.family.signal_all(SIGTERM);
        // A stopped process does not handle TERM until it continues.
        self.family.signal_all(SIGCONT);
        loop {
            select_biased! {
                recv(self.events) -> event => match event {
                    Ok(Event::Stopped(_) | Event::GroupEnded) => {}
                    Ok(Event::Unguarded(_)) => break,
                    Ok(Event::Ended(..)) | Err(_) => return,
                },
                recv(held.hold.lost()) -> _ => break,
                recv(after(end.saturating_duration_since(Instant::now()))) -> _ => break,
            }
        }
        self.kill();
    }
}

/// Reports events of a program until all its processes have ended, and keeps a guard over it. Also
/// waits for orphans that have left the group: they are now children of this process.
fn watch(family: &Family, guard: &Guard, say: &Sender<Event>) {
    let Some(group) = rustix::process::Pid::from_raw(family.group.as_raw()) else {
        return;
    };
    let start_guard = || {
        if let Err(failed) = guard.start() {
            let _ = say.send(Event::Unguarded(failed));
        }
    };
    start_guard();
    let (mut code, mut by) = (None, None);
    let mut pause = LOOK_AGAIN;
    loop {
        // No event reports that a process has left the group, so this looks again and again.
        let options = match code {
            None => WaitOptions::UNTRACED,
            Some(_) => WaitOptions::UNTRACED | WaitOptions::NOHANG,
        };
        match wait(options) {
            Ok(Some((process, status))) if guard.is(Pid::from_raw(process.as_raw_pid())) => {
                match status.stopped() {
                    true => guard.let_go_on(),
                    false => {
                        // This guard has killed what it can, and a process survived. The next guard
                        // will end as quickly.
                        if guard.is_late() {
                            thread::sleep(LOOK_FOR_OTHERS);
                        }
                        start_guard();
                    }
                }
            }
            Ok(Some((process, status))) => match status.stopping_signal() {
                // While the program lives, only its own stop counts: the rest of the group stops
                // with it.
                Some(by) if process == group || code.is_some() && is_in(group, process) => {
                    let by = Signal::try_from(by).unwrap_or(SIGSTOP);
                    let _ = say.send(Event::Stopped(by));
                }
                None if process == group => {
                    by = status.terminating_signal();
                    code = status.exit_status().map(|code| code as u8).or(by.map(by_signal));
                }
                _ => {}
            },
            Ok(None) => thread::sleep(pause),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
        if code.is_some() && is_over(group) {
            guard.forget_the_group();
            if family.others().is_ok_and(|others| others.is_empty()) {
                break;
            }
            if pause == LOOK_AGAIN {
                let _ = say.send(Event::GroupEnded);
            }
            pause = LOOK_FOR_OTHERS;
        }
    }
    guard.dismiss();
    let _ = say.send(Event::Ended(code.unwrap_or(SYSTEM), by));
}

fn is_in(group: rustix::process::Pid, process: rustix::process::Pid) -> bool {
    getpgid(Some(process)) == Ok(group)
}

/// Returns whether no process is left in a group whose program has ended.
fn is_over(group: rustix::process::Pid) -> bool {
    loop {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            answer => return answer.is_err(),
        }
    }
}
