//! All that runs under the lock: the program's group, and what has gone on to a group of its own,
//! as timeout(1) does and what a shell with job control starts. It is found by a mark that it has
//! inherited in its environment, for its parents may have ended. What has gone on to a session of
//! its own does not belong to it any more. Where there is no procfs, only the group is known.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::signal::{SIGKILL, Signal, kill, killpg};
use nix::unistd::{Pid, getpid, getsid};

/// The environment variable with the mark, and those of the locks around this one.
const MARKS: &str = "ZOOLOCK_NODES";

/// For how long to look again at processes with empty environments: they are empty, too, while a
/// process becomes another program. For all of them together, since some stay as they are.
const EXEC_TAKES: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) group: Pid,
    /// Is nobody left of it? Then its number may be given to another one.
    group_is_over: Arc<AtomicBool>,
    mark: OsString,
}

/// Whoever is made by this command has the mark, and whoever that makes.
pub(crate) fn mark(command: &mut Command, mark: &str) {
    let mut marks = env::var_os(MARKS).unwrap_or_default().into_vec();
    if !marks.is_empty() {
        marks.push(b' ');
    }
    marks.extend_from_slice(mark.as_bytes());
    command.env(MARKS, OsString::from_vec(marks));
}

/// Whoever is made by this command belongs to none.
pub(crate) fn unmark(command: &mut Command) {
    command.env_remove(MARKS);
}

impl Family {
    pub(crate) fn new(group: Pid, mark: impl Into<OsString>) -> Family {
        let mark = mark.into();
        Family { group, group_is_over: Arc::default(), mark }
    }

    pub(crate) fn mark(&self) -> &OsString {
        &self.mark
    }

    pub(crate) fn forget_the_group(&self) {
        self.group_is_over.store(true, Ordering::SeqCst);
    }

    /// To the group, for it is up to the program what becomes of the others. To those when nobody is
    /// left of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        match self.group_is_over() {
            false => self.signal_group(signal),
            true => send(&self.others(), signal),
        }
    }

    pub(crate) fn signal_all(&self, signal: Signal) {
        self.signal_group(signal);
        send(&self.others(), signal);
    }

    /// Until there is nobody that was not told.
    pub(crate) fn kill(&self) {
        let mut told = HashSet::new();
        loop {
            self.signal_group(SIGKILL);
            let others = self.others();
            send(&others, SIGKILL);
            let before = told.len();
            told.extend(others);
            if told.len() == before {
                return;
            }
        }
    }

    fn group_is_over(&self) -> bool {
        self.group_is_over.load(Ordering::SeqCst)
    }

    fn signal_group(&self, signal: Signal) {
        if !self.group_is_over() {
            let _ = killpg(self.group, signal);
        }
    }

    /// Those that have left the group, and neither the session nor this world.
    pub(crate) fn others(&self) -> Vec<Pid> {
        let Ok(session) = getsid(None) else {
            return Vec::new();
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let processes = processes.map(Pid::from_raw);
        let patience = Instant::now() + EXEC_TAKES;
        processes
            .filter(|process| *process != getpid() && self.has(*process, session, patience))
            .collect()
    }

    fn has(&self, process: Pid, session: Pid, patience: Instant) -> bool {
        let lives = || {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?;
            let group = fields.nth(1)?.parse().ok().map(Pid::from_raw)?;
            Some(!matches!(state, "Z" | "X") && (group != self.group || self.group_is_over()))
        };
        getsid(Some(process)) == Ok(session)
            && lives() == Some(true)
            && self.is_marked(process, patience)
    }

    fn is_marked(&self, process: Pid, patience: Instant) -> bool {
        let environment = environment(process, patience);
        let marks = environment
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(MARKS.as_bytes())?.strip_prefix(b"="));
        let mut marks = marks.unwrap_or_default().split(|byte| *byte == b' ');
        marks.any(|mark| mark == self.mark.as_bytes())
    }
}

/// Nothing, if it cannot be known.
fn environment(process: Pid, patience: Instant) -> Vec<u8> {
    loop {
        match fs::read(format!("/proc/{process}/environ")) {
            Ok(nothing) if nothing.is_empty() && Instant::now() < patience => thread::sleep(PAUSE),
            environment => return environment.unwrap_or_default(),
        }
    }
}

fn send(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill(*process, signal);
    }
}
