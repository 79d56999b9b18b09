//! A Java process that ends when this process ends, for whatever reason.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::wait::poll;

/// The shell is Java's parent, and starts a watcher, which holds the read end of a pipe from this process. If the pipe
/// is closed (by the kernel after an exit, an abort or SIGKILL) without the message that all is well, the watcher kills
/// Java and removes its directory, so no destructor is needed. The file `ended` protects any process that has been
/// given Java's number since. The watcher ignores signals that a terminal or a supervisor sends to all processes of a
/// test run.
const WRAPPER: &str = r#"
folder=$1 log=$2; shift 2
rm -f "$folder/ended"
exec 3<&0 </dev/null 2>>"$log"
"$@" 3<&- >>"$log" &
java=$!
(
    trap '' HUP INT TERM
    read -r _ <&3 && exit
    [ -e "$folder/ended" ] || kill -9 "$java"
    rm -rf "$folder" || rm -rf "$folder"
) >/dev/null &
exec 3<&-
echo "$java"
exec >&-
wait "$java"
status=$?
: >"$folder/ended"
exit "$status"
"#;

/// How long it may take until a signal has had its effect.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running Java process. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Process {
    wrapper: Child,
    java: Pid,
    /// For signals, because once the shell has reaped Java, its number may be reused. `None` if Java ended at once.
    handle: Option<OwnedFd>,
    pub(crate) paused: bool,
}

impl Process {
    /// Starts `command` (a program and its arguments). Its output is appended to `log`.
    pub(crate) fn spawn(command: Vec<OsString>, folder: &Path, log: &Path) -> io::Result<Self> {
        let mut wrapper = Command::new("/bin/sh")
            .args(["-c", WRAPPER, "sh"])
            .arg(folder)
            .arg(log)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        match first_line(&mut wrapper) {
            Ok(java) => {
                let handle = pidfd_open(java, PidfdFlags::empty()).ok();
                Ok(Self { wrapper, java, handle, paused: false })
            }
            Err(error) => {
                // `wait` closes the pipe first, which ends all processes that were started.
                let _ = wrapper.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.java.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn has_exited(&mut self) -> bool {
        !matches!(self.wrapper.try_wait(), Ok(None))
    }

    /// Shuts Java down, and waits until it has ended. Kills it if it does not end.
    pub(crate) fn terminate(mut self) -> io::Result<()> {
        // If sending a signal fails, Java has already ended, and the wait detects that.
        let _ = self.signal(Signal::TERM);
        // If the process is paused, it must be resumed before it can handle the signal.
        let _ = self.signal(Signal::CONT);
        self.wait().or_else(|_| self.kill_and_wait())
    }

    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.kill_and_wait()
    }

    /// Pauses Java, and returns when all its threads have stopped, so that it sends no more answers.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        self.paused = true;
        poll(PATIENCE, || self.is_stopped().then_some(()))
            .ok_or_else(|| io::Error::other("the paused server still runs"))
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)?;
        self.paused = false;
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        let sent = self.handle.as_ref().map(|java| pidfd_send_signal(java, signal));
        match sent {
            Some(Ok(())) if !self.has_exited() => Ok(()),
            _ => Err(io::Error::other("the server has exited by itself")),
        }
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        if self.has_exited() {
            return Ok(());
        }
        let _ = self.signal(Signal::KILL);
        self.wait()
    }

    fn wait(&mut self) -> io::Result<()> {
        poll(PATIENCE, || self.has_exited().then_some(()))
            .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "the server does not end"))
    }

    fn is_stopped(&self) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.id())) else { return true };
        tasks.flatten().all(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses. If a thread has no state, it has ended.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill_and_wait();
        // Tells the watcher that it has nothing left to do. The `Server` removes the directory.
        if let Some(mut watcher) = self.wrapper.stdin.take() {
            let _ = watcher.write_all(b"ended\n");
        }
    }
}

fn first_line(wrapper: &mut Child) -> io::Result<Pid> {
    let mut line = String::new();
    if let Some(output) = wrapper.stdout.take() {
        BufReader::new(output.take(32)).read_line(&mut line)?;
    }
    let number = line.trim().parse().ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::Error::other("the shell did not say the number of its process"))
}
