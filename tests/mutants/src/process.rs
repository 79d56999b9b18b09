//! Processes whose output is read line by line, and work that runs in parallel.

use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A process. Dropping this kills it.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

/// Why no line was received.
pub(crate) enum Silence {
    /// The process has ended, either successfully or not.
    Ended { is_success: bool },
    /// The process has printed nothing for so long that it must hang.
    Stuck,
}

impl Process {
    /// Starts a process, and writes this text to its standard input.
    pub(crate) fn start(command: &mut Command, text: String) -> Process {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        // Both threads end when the process ends.
        thread::spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(text.as_bytes())));
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Process { child, lines }
    }

    /// Returns the next line if it arrives within `patience`.
    pub(crate) fn line(&mut self, patience: Duration) -> Result<String, Silence> {
        self.lines.recv_timeout(patience).map_err(|why| match why {
            RecvTimeoutError::Timeout => Silence::Stuck,
            RecvTimeoutError::Disconnected => Silence::Ended {
                is_success: self.child.wait().is_ok_and(|status| status.success()),
            },
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `work` for each item, up to `jobs` at a time, and returns the results in the order of the items.
pub(crate) fn map_all<T: Sync, R: Send>(
    jobs: usize,
    things: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let left = Mutex::new(things.iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let works = || iter::from_fn(next).map(|(number, thing)| (number, work(thing))).collect();
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(works)).collect();
        let done = workers.into_iter().map(|worker| worker.join());
        done.flat_map(|done: thread::Result<Vec<_>>| done.expect("no work panics")).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
