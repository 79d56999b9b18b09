//! Writes to standard error, on a thread of its own: the reader may be slow, because a pipe is full
//! or a terminal is stopped, and this must not delay the work for the lock. Lines that do not fit into
//! the queue are dropped and counted. If the system refuses the thread, the queue is written when the
//! process ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::table::{clip, plain};

/// How many lines may wait for a reader.
const LONGEST: usize = 100;

/// How long the process waits before it ends until all lines are read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Goes to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

static STDERR: OnceLock<Output> = OnceLock::new();

enum Said {
    Line(String),
    /// A line of the terminal that the next text overwrites.
    Status(String),
    /// How many lines were dropped here.
    Dropped(u64),
}

impl Said {
    /// Writes this over the status on the line, if there is one. Returns whether it leaves a status
    /// there.
    fn write_to(self, stderr: &mut (impl Write + AsFd), has_status: bool) -> bool {
        let clear = if has_status { CLEAR } else { "" };
        let has_status = matches!(&self, Said::Status(text) if !text.is_empty());
        let text = match self {
            Said::Line(text) => format!("{clear}{text}\n"),
            Said::Dropped(number) => format!("{clear}zoolock: {number} lines were dropped here\n"),
            Said::Status(text) if text.is_empty() => clear.to_owned(),
            Said::Status(text) => format!("{CLEAR}{}", clip(&text, stderr)),
        };
        // An error does not matter: standard error may be closed.
        let _ = stderr.write_all(text.as_bytes());
        has_status
    }
}

#[derive(Default)]
struct Output {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Whether there is no thread to write the lines.
    is_unattended: bool,
}

#[derive(Default)]
struct Queue {
    said: VecDeque<Said>,
    /// Whether the thread is writing a text that it has taken from the queue.
    busy: bool,
}

/// Shows the library's warnings about wrong use. The command has its own messages for everything else
/// that the library logs, except for the reports of a reaper, which [`show_reports`] adds.
pub(crate) fn show_warnings() {
    if log::set_logger(&Warnings).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// Also shows what the library reports about its work. Later, there may be no room for the thread
/// that writes the lines, so it is started now.
pub(crate) fn show_reports() {
    stderr();
    log::set_max_level(LevelFilter::Info);
}

struct Warnings;

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() >= Level::Warn && metadata.target() == "zoolock"
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            say(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Writes a line that begins with the name of the command.
pub(crate) fn say(text: &str) {
    line(&format!("zoolock: {text}"));
}

/// Writes a line. Escapes control characters, because other users may have chosen parts of the line.
pub(crate) fn line(text: &str) {
    stderr().push(Said::Line(plain(text)));
}

/// Writes a status, for a terminal only. It overwrites the previous status.
pub(crate) fn status(text: &str) {
    stderr().push(Said::Status(plain(&format!("zoolock: {text}"))));
}

/// Waits until all lines are written, for at most this long.
pub(crate) fn flush(patience: Duration) {
    if let Some(output) = STDERR.get() {
        output.flush(patience);
    }
}

/// Clears the status and waits until all lines are written, for a limited time. Call this before the
/// process ends.
pub(crate) fn finish() {
    if let Some(output) = STDERR.get() {
        output.push(Said::Status(String::new()));
        output.flush(PATIENCE);
    }
}

fn stderr() -> &'static Output {
    STDERR.get_or_init(|| {
        // A duplicate of the file, because Rust's own `Stderr` has a mutex on which a panic would wait.
        let own = io::stderr().as_fd().try_clone_to_owned();
        let write = |own| move || STDERR.wait().write_to(File::from(own));
        // Without a thread, the command still works, but writes all lines when it ends.
        let writing = own.and_then(|own| thread::Builder::new().spawn(write(own)));
        Output { is_unattended: writing.is_err(), ..Output::default() }
    })
}

impl Output {
    fn push(&self, said: Said) {
        let mut queue = self.queue();
        let is_full = queue.said.len() >= LONGEST;
        match (queue.said.back_mut(), said) {
            (Some(Said::Status(last)), Said::Status(now)) => *last = now,
            (Some(Said::Dropped(number)), _) if is_full => *number += 1,
            (_, said) => queue.said.push_back(if is_full { Said::Dropped(1) } else { said }),
        }
        self.changed.notify_all();
    }

    fn flush(&self, patience: Duration) {
        if self.is_unattended {
            return self.write_now(patience);
        }
        let is_busy = |queue: &mut Queue| queue.busy || !queue.said.is_empty();
        drop(self.changed.wait_timeout_while(self.queue(), patience, is_busy));
    }

    fn write_to(&self, mut stderr: File) {
        let mut has_status = false;
        loop {
            has_status = self.next().write_to(&mut stderr, has_status);
        }
    }

    /// Writes the queue on this thread, for at most this long.
    fn write_now(&self, patience: Duration) {
        let (mut stderr, end) = (io::stderr(), Instant::now() + patience);
        let mut has_status = false;
        while is_writable(&stderr, end) {
            let Some(said) = self.queue().said.pop_front() else { return };
            has_status = said.write_to(&mut stderr, has_status);
        }
    }

    /// Returns the next text, and marks the one before as written.
    fn next(&self) -> Said {
        let mut queue = self.queue();
        queue.busy = false;
        self.changed.notify_all();
        loop {
            if let Some(said) = queue.said.pop_front() {
                queue.busy = true;
                return said;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until there is room for a line. Returns false if there is none before `end`.
fn is_writable(file: impl AsFd, end: Instant) -> bool {
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(&file, PollFlags::OUT)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use super::*;

    #[test]
    fn overflowing_lines_are_counted_where_they_were_dropped() {
        static OUTPUT: OnceLock<Output> = OnceLock::new();
        let output = OUTPUT.get_or_init(Output::default);
        let (reader, mut writer) = io::pipe().expect("a pipe");
        // This does not fit into the buffer of any pipe, so writing blocks until the reader reads.
        let long = "x".repeat(4 << 20);
        writer.write_all(b"begin\n").expect("written");
        output.push(Said::Line(long.clone()));
        let file = File::from(OwnedFd::from(writer));
        thread::spawn(move || output.write_to(file));
        let queue = output.queue();
        drop(output.changed.wait_while(queue, |queue| !queue.busy));

        let begun = Instant::now();
        for number in 0..LONGEST + 7 {
            output.push(Said::Line(number.to_string()));
        }
        output.flush(Duration::from_millis(10));
        println!("pushed after {:?}", begun.elapsed());
        let mut lines = BufReader::new(reader).lines().map(|line| line.expect("text"));
        assert_eq!(lines.next().as_deref(), Some("begin"));
        assert!(lines.next() == Some(long));
        for number in 0..LONGEST {
            assert_eq!(lines.next(), Some(number.to_string()));
        }
        assert_eq!(lines.next().as_deref(), Some("zoolock: 7 lines were dropped here"));
        output.push(Said::Line("on".to_owned()));
        assert_eq!(lines.next().as_deref(), Some("on"), "it goes on");
    }
}
