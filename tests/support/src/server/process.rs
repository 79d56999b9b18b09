//! A Java process that ends with this process, for whatever reason this one ends.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::poll;

/// The shell is the parent of Java, and its watcher holds the read end of a pipe from this process.
/// The kernel closes the pipe at any end of this process, including abort and SIGKILL. If the pipe
/// closes without a message that all is well, the watcher kills Java and removes its directory; no
/// destructor has to run for that. The file `ended` keeps the watcher from a process number that
/// may be in use again. The watcher ignores signals that a terminal or a supervisor sends to all
/// processes of a test run.
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

/// How long a signal may take to show its effect before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running Java process. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Process {
    wrapper: Child,
    java: Pid,
    paused: bool,
}

impl Process {
    /// Starts `command` (program and arguments) with its output appended to `log`.
    pub(crate) fn spawn(
        command: Vec<std::ffi::OsString>,
        folder: &Path,
        log: &Path,
    ) -> io::Result<Self> {
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
            Ok(java) => Ok(Self { wrapper, java, paused: false }),
            Err(error) => {
                // Waiting closes the pipe first, which ends the processes that were started.
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

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Asks Java to shut down, and waits. Kills it if it does not end.
    pub(crate) fn terminate(mut self) -> io::Result<()> {
        // If the signal fails, the process has ended by itself, and the wait returns.
        let _ = self.signal(Signal::TERM);
        // A paused process acts on the request only when it runs again.
        let _ = self.signal(Signal::CONT);
        self.wait().or_else(|_| self.kill_and_wait())
    }

    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.kill_and_wait()
    }

    /// Returns when every thread has stopped, so that nothing is answered afterwards.
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
        // While the shell has not been reaped, Java's number may at worst be free, hardly reused.
        if self.has_exited() {
            return Err(io::Error::other("the server has exited by itself"));
        }
        Ok(kill_process(self.java, signal)?)
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        if self.has_exited() {
            return Ok(());
        }
        let _ = kill_process(self.java, Signal::KILL);
        self.wait()
    }

    fn wait(&mut self) -> io::Result<()> {
        poll(PATIENCE, || self.has_exited().then_some(()))
            .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "the server does not end"))
    }

    fn is_stopped(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.id());
        let Ok(tasks) = fs::read_dir(tasks) else {
            return true;
        };
        tasks.flatten().all(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses; a thread that ended has none.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill_and_wait();
        // Tells the watcher that nothing is left to do. The server removes the directory.
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
