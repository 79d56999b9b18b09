//! All processes that run under the lock: the program's group, and descendants that have moved to
//! their own groups. timeout(1) moves itself so, and a shell with job control its jobs. They are
//! recognized by a mark in the environment that they inherited, because their parents may have
//! ended. A process that has moved to its own session is not a member any more. Without procfs,
//! only the group is known.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::errno::Errno;
use nix::sys::signal::{SIGKILL, Signal, kill, killpg};
use nix::unistd::{Pid, getpid, getsid};

/// The environment variable with the mark of this lock, after those of the locks around it.
const MARKS: &str = "ZOOLOCK_NODES";

/// How long to look again at processes with empty environments. An environment is also empty while
/// a process becomes another program. The limit is for all processes together, since some
/// environments stay empty.
const EXEC_TAKES: Duration = Duration::from_millis(50);
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) group: Pid,
    /// Whether all processes of the group have ended. Then another group may get its number.
    group_is_over: Arc<AtomicBool>,
    mark: OsString,
}

/// Gives the mark to the process of this command, and so to its descendants.
pub(crate) fn mark(command: &mut Command, mark: &str) {
    let mut marks = env::var_os(MARKS).unwrap_or_default().into_vec();
    if !marks.is_empty() {
        marks.push(b' ');
    }
    marks.extend_from_slice(mark.as_bytes());
    command.env(MARKS, OsString::from_vec(marks));
}

/// Removes all marks from the process of this command.
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

    /// Notes that the group has ended. Returns whether that is new.
    pub(crate) fn forget_the_group(&self) -> bool {
        !self.group_is_over.swap(true, Ordering::SeqCst)
    }

    /// Signals the group, because the program decides about its other descendants. Signals those
    /// when the group has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        match self.group_is_over() {
            false => self.signal_group(signal),
            true => send(&self.others().unwrap_or_default(), signal),
        }
    }

    pub(crate) fn signal_all(&self, signal: Signal) {
        self.signal_group(signal);
        send(&self.others().unwrap_or_default(), signal);
    }

    /// Kills all members. If it cannot look for the [others](Self::others), kills the group and
    /// fails.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let mut told = HashSet::new();
        loop {
            self.signal_group(SIGKILL);
            let others = self.others()?;
            send(&others, SIGKILL);
            let before = told.len();
            told.extend(others);
            if told.len() == before {
                return Ok(());
            }
        }
    }

    pub(crate) fn group_is_over(&self) -> bool {
        self.group_is_over.load(Ordering::SeqCst)
    }

    fn signal_group(&self, signal: Signal) {
        if !self.group_is_over() {
            let _ = killpg(self.group, signal);
        }
    }

    /// Returns the living members that have left the group, but not the session. Fails if the
    /// system has no files or no memory left for the search.
    pub(crate) fn others(&self) -> io::Result<Vec<Pid>> {
        let (session, patience) = (getsid(None)?, Instant::now() + EXEC_TAKES);
        let mut others = Vec::new();
        for entry in unless_refused(fs::read_dir("/proc"))?.into_iter().flatten() {
            let name = unless_refused(entry)?.map(|entry| entry.file_name());
            let process = name.and_then(|name| name.to_str()?.parse().ok()).map(Pid::from_raw);
            if let Some(process) = process
                && process != getpid()
                && getsid(Some(process)) == Ok(session)
                && unless_refused(self.has(process, patience))? == Some(true)
            {
                others.push(process);
            }
        }
        Ok(others)
    }

    fn has(&self, process: Pid, patience: Instant) -> io::Result<bool> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let lives = || {
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?;
            let group = fields.nth(1)?.parse().ok().map(Pid::from_raw)?;
            Some(!matches!(state, "Z" | "X") && (group != self.group || self.group_is_over()))
        };
        Ok(lives() == Some(true) && self.is_marked(process, patience)?)
    }

    fn is_marked(&self, process: Pid, patience: Instant) -> io::Result<bool> {
        let marks = marks(process, patience)?;
        let mut marks = marks.split(|byte| *byte == b' ');
        Ok(marks.any(|mark| mark == self.mark.as_bytes()))
    }
}

/// Returns the marks in a process's environment. Keeps nothing else of the environment, which may
/// be megabytes: there may be no memory for it.
fn marks(process: Pid, patience: Instant) -> io::Result<Vec<u8>> {
    let wanted = format!("{MARKS}=");
    let mut name = Vec::with_capacity(wanted.len());
    loop {
        let mut environment = BufReader::new(File::open(format!("/proc/{process}/environ"))?);
        let mut is_empty = true;
        loop {
            name.clear();
            let longest = wanted.len() as u64;
            if environment.by_ref().take(longest).read_until(0, &mut name)? == 0 {
                break;
            }
            is_empty = false;
            if name == wanted.as_bytes() {
                let mut marks = Vec::new();
                environment.read_until(0, &mut marks)?;
                marks.pop_if(|last| *last == 0);
                return Ok(marks);
            }
            if name.last() != Some(&0) {
                environment.skip_until(0)?;
            }
        }
        if !is_empty || Instant::now() >= patience {
            return Ok(Vec::new());
        }
        thread::sleep(PAUSE);
    }
}

/// Returns `None` for a process that has ended meanwhile, or that belongs to another user. Fails if
/// the system has no files or no memory left.
fn unless_refused<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    let is_refused = |error: &io::Error| {
        let files = [Errno::EMFILE, Errno::ENFILE].map(|errno| Some(errno as i32));
        error.kind() == ErrorKind::OutOfMemory || files.contains(&error.raw_os_error())
    };
    match looked {
        Err(error) if is_refused(&error) => Err(error),
        looked => Ok(looked.ok()),
    }
}

fn send(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill(*process, signal);
    }
}
