//! The program as a process in a group of its own, and all that it leaves in that group.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signal};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, getpgid, wait, waitpgid};
use zoolock::crossbeam_channel::{
    Receiver, RecvTimeoutError, Sender, after, select_biased, unbounded,
};

use crate::exit::{Failed, SYSTEM, by_signal, start_thread};
use crate::family::{Family, mark};
use crate::guard::Guard;
use crate::holder::Held;

/// How often to look what is left of the group when the program itself has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The same when nobody is left of the group, but some that it has started: it takes longer to look.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(200);

/// What became of it.
#[derive(Debug)]
pub(crate) enum Event {
    Stopped(Signal),
    /// It and all of its group, but not all that it has started.
    GroupEnded,
    /// There is no guard, for this reason, so the program must not go on.
    Unguarded(Failed),
    /// It and all that runs under the lock. With this exit code of its own, as shells have it.
    Ended(u8),
}

pub(crate) struct Child {
    /// Its process, and its group.
    pub(crate) id: Pid,
    family: Family,
    guard: Guard,
    events: Receiver<Event>,
}

impl Child {
    /// Starts it, with a mark that nothing else has. To be called on a thread that lives as long as
    /// the process: on Linux the child dies with the thread that has made it.
    pub(crate) fn start(mut command: Command, its_mark: &str) -> Result<Child, Failed> {
        // What the program leaves behind when it ends is waited for like the program itself.
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
        // The program has not started, so there is nobody else to kill.
        start_thread("zoolock-program", move || watch(&watched, &guarding, &sender))
            .inspect_err(|_| family.signal(SIGKILL))?;
        Ok(Child { id, family, guard, events })
    }

    /// What becomes of it, from when it is guarded. Nothing comes after its end.
    pub(crate) fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// To its group, or to what is left when it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        self.family.signal(signal);
    }

    /// It may run for as long as the lock is held for certain, whatever becomes of zoolock.
    pub(crate) fn allow_the_lease(&self, held: &Held) {
        self.guard.allow_the_lease(held);
    }

    pub(crate) fn kill(&self) {
        loop {
            // The end is told only when nobody is left for certain.
            let _ = self.family.kill();
            match self.events.recv_timeout(LOOK_FOR_OTHERS) {
                Ok(Event::Ended(_)) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends it, and all that it has started, before anybody else can be given the lock: it is asked
    /// to end, and killed when the certified lease runs out, which is a margin before the servers
    /// can let the next one in.
    pub(crate) fn end_before_the_lease(&self, held: &Held) {
        let end = Instant::now() + held.hold.valid_for();
        self.family.signal_all(SIGTERM);
        // A stopped one could not act on it.
        self.family.signal_all(SIGCONT);
        loop {
            select_biased! {
                recv(self.events) -> event => match event {
                    Ok(Event::Stopped(_) | Event::GroupEnded) => {}
                    Ok(Event::Unguarded(_)) => break,
                    Ok(Event::Ended(_)) | Err(_) => return,
                },
                recv(held.hold.lost()) -> _ => break,
                recv(after(end.saturating_duration_since(Instant::now()))) -> _ => break,
            }
        }
        self.kill();
    }
}

/// Says what becomes of a program and its group until nobody of it is left. Takes note of the end of
/// others, too: what has left the group is nobody else's child when its parent ends. Has it guarded all the while.
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
    let mut code = None;
    let mut pause = LOOK_AGAIN;
    loop {
        // Nothing tells when a process leaves the group, so who is left in it is looked at again.
        let options = match code {
            None => WaitOptions::UNTRACED,
            Some(_) => WaitOptions::UNTRACED | WaitOptions::NOHANG,
        };
        match wait(options) {
            Ok(Some((process, status))) if guard.is(Pid::from_raw(process.as_raw_pid())) => {
                match status.stopped() {
                    true => guard.let_go_on(),
                    false => {
                        // It has done its part, and somebody cannot be killed: the next one will end as soon.
                        if guard.is_late() {
                            thread::sleep(LOOK_FOR_OTHERS);
                        }
                        start_guard();
                    }
                }
            }
            Ok(Some((process, status))) => match status.stopping_signal() {
                // What else is in the group stops with the program, while there is one.
                Some(by) if process == group || code.is_some() && is_in(group, process) => {
                    let by = Signal::try_from(by).unwrap_or(SIGSTOP);
                    let _ = say.send(Event::Stopped(by));
                }
                None if process == group => code = code_of(status),
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
