//! The descendants of this process, and the clock that decides when they have to end.
//!
//! A process may change everything by which it could be recognized: its group, session, user,
//! environment and name. It cannot change its parent. When the parent ends, the process becomes a
//! child of the nearest ancestor that has set PR_SET_CHILD_SUBREAPER. Every descendant of a program
//! therefore becomes, sooner or later, a child of the process that supervises it. Only children are
//! signalled: their numbers cannot belong to other processes, because the system reuses a number only
//! after the parent has waited for the child.

use std::time::Duration;
use std::{fs, io, thread};

use nix::sys::signal::{SIGCONT, SIGKILL, SigEvent, SigevNotify, kill};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Interval between checks for children, where there is no event for them.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// The first such interval after children were killed, because most of them end at once.
const SHORTEST: Duration = Duration::from_micros(500);

/// Returns the children of this process. Those that have ended are included until this process waits
/// for them, because a process whose first thread has ended looks the same.
pub(crate) fn children() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let listed = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        let numbers = listed.split_whitespace().filter_map(|number| number.parse().ok());
        children.extend(numbers.map(Pid::from_raw));
    }
    Ok(children)
}

/// Kills and reaps all children except these, including new ones, until none are left.
pub(crate) fn kill_all_but(mut strangers: Vec<Pid>) {
    let mut pause = SHORTEST;
    while !bury(None, &mut strangers) {
        if let Ok(mut children) = children() {
            children.retain(|child| !strangers.contains(child));
            if children.is_empty() {
                return;
            }
            for child in children {
                let _ = kill(child, SIGKILL);
            }
        }
        // Each generation of descendants takes one more round.
        thread::sleep(pause);
        pause = PAUSE.min(2 * pause);
    }
}

/// Waits for children that have ended, and continues the `awaited` one if it is stopped. Returns
/// whether that one or all children have ended. Removes children that have ended from the
/// strangers, because another process may reuse their numbers.
pub(crate) fn bury(awaited: Option<Pid>, strangers: &mut Vec<Pid>) -> bool {
    loop {
        let (process, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((process, status))) => (Pid::from_raw(process.as_raw_pid()), status),
            Err(Errno::INTR) => continue,
            over => return over.is_err(),
        };
        match (awaited == Some(process), status.stopped()) {
            (true, true) => drop(kill(process, SIGCONT)),
            (true, false) => return true,
            (false, true) => {}
            (false, false) => strangers.retain(|stranger| *stranger != process),
        }
    }
}

/// Continues this process at a given time, and periodically afterwards, even if it is stopped.
pub(crate) struct Alarm(Timer);

impl Alarm {
    pub(crate) fn new() -> nix::Result<Alarm> {
        let signal = SigevNotify::SigevSignal { signal: SIGCONT, si_value: 0 };
        Ok(Alarm(Timer::new(ClockId::CLOCK_BOOTTIME, SigEvent::new(signal))?))
    }

    pub(crate) fn set(&mut self, at: Duration) -> nix::Result<()> {
        let [at, again] = [at, PAUSE].map(TimeSpec::from_duration);
        self.0.set(Expiration::IntervalDelayed(at, again), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
    }
}

/// Returns the time since the machine was booted, which is the same for all its processes and includes
/// the time that the machine was suspended.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    // Without a clock, assume the latest time, which is on the safe side: all processes are killed.
    now.unwrap_or(Duration::MAX)
}
