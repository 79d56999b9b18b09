//! The program as a process in a group of its own.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SIGCONT, SIGKILL, SIGTERM, Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use zoolock::crossbeam_channel::{Receiver, RecvError, after, select_biased, unbounded};

use crate::exit::{Failed, SYSTEM, by_signal};
use crate::guard::Guard;
use crate::holder::Held;

/// How often to look whether a group has ended, of which nothing tells.
const GROUP_CHECK: Duration = Duration::from_millis(10);

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Stopped(Signal),
    /// With this exit code, as shells have it.
    Ended(u8),
}

pub(crate) struct Child {
    /// Its process, and its group.
    pub(crate) id: Pid,
    /// Kept for as long as there is something to kill.
    guard: Option<Guard>,
    pub(crate) events: Receiver<Event>,
}

impl Child {
    /// Starts it. To be called on a thread that lives as long as the process: on Linux the child
    /// dies with the thread that has made it.
    pub(crate) fn start(mut command: Command) -> Result<Child, Failed> {
        let started = command.process_group(0).spawn();
        let started =
            started.map_err(|error| Failed::new(SYSTEM, format!("no new process: {error}")))?;
        let id = Pid::from_raw(started.id().cast_signed());
        let (sender, events) = unbounded();
        thread::spawn(move || {
            while let Ok(status) = waitpid(id, Some(WaitPidFlag::WUNTRACED)) {
                let event = match status {
                    WaitStatus::Stopped(_, signal) => Event::Stopped(signal),
                    WaitStatus::Exited(_, code) => Event::Ended(code as u8),
                    WaitStatus::Signaled(_, signal, _) => Event::Ended(by_signal(signal)),
                    _ => continue,
                };
                let _ = sender.send(event);
                if matches!(event, Event::Ended(_)) {
                    return;
                }
            }
        });
        let guard = None;
        let mut child = Child { id, guard, events };
        match Guard::over(id) {
            Ok(guard) => child.guard = Some(guard),
            Err(failed) => {
                child.kill();
                return Err(failed);
            }
        }
        Ok(child)
    }

    /// To all of its group. It may have ended meanwhile.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = killpg(self.id, signal);
    }

    pub(crate) fn kill(&self) {
        self.signal(SIGKILL);
        self.ended();
    }

    /// Waits for its end.
    fn ended(&self) {
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
        let ended = loop {
            select_biased! {
                recv(self.events) -> event => match event {
                    Ok(Event::Stopped(_)) => {}
                    Ok(Event::Ended(_)) | Err(RecvError) => break true,
                },
                recv(held.hold.lost()) -> _ => break false,
                recv(after(end.saturating_duration_since(Instant::now()))) -> _ => break false,
            }
        };
        // It may have left others of its group behind.
        while ended && killpg(self.id, None).is_ok() && held.hold.is_held() && Instant::now() < end
        {
            thread::sleep(GROUP_CHECK);
        }
        self.signal(SIGKILL);
        if !ended {
            self.ended();
        }
    }
}
