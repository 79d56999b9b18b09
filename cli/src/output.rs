//! What is said on the standard error, by a thread of its own: whoever should read it may not, for a
//! pipe is full or a terminal stopped, and there is a lock to take care of meanwhile. What does not
//! fit into the queue is dropped, and counted. Where the system gives no thread, the queue is written
//! when the process ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ready::is_writable;
use crate::table::{clip, plain};

/// How many lines wait for a reader.
const LONGEST: usize = 100;

/// For how long the end is put off until all is read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Goes to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

static STDERR: OnceLock<Output> = OnceLock::new();

enum Said {
    Line(String),
    /// On a line of the terminal that the next one is written over.
    Status(String),
    /// So many came here, and found no room.
    Dropped(u64),
}

impl Said {
    /// Writes this over the status on the line, if there is one. Returns whether it is a status itself.
    fn write_to(self, stderr: &mut (impl Write + AsFd), has_status: bool) -> bool {
        let clear = if has_status { CLEAR } else { "" };
        let has_status = matches!(&self, Said::Status(text) if !text.is_empty());
        let text = match self {
            Said::Line(text) => format!("{clear}{text}\n"),
            Said::Dropped(number) => format!("{clear}zoolock: {number} lines left out here\n"),
            Said::Status(text) if text.is_empty() => clear.to_owned(),
            Said::Status(text) => format!("{CLEAR}{}", clip(&text, stderr)),
        };
        // Nobody has to listen: it may be closed.
        let _ = stderr.write_all(text.as_bytes());
        has_status
    }
}

#[derive(Default)]
struct Output {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Whether there is no thread that writes.
    is_unattended: bool,
}

#[derive(Default)]
struct Queue {
    said: VecDeque<Said>,
    /// Is something on its way that is not in the queue any more?
    busy: bool,
}

/// Says something as this command.
pub(crate) fn say(text: &str) {
    line(&format!("zoolock: {text}"));
}

/// Others may have written what is in it, so it is kept from a terminal as it is.
pub(crate) fn line(text: &str) {
    stderr().push(Said::Line(plain(text)));
}

/// Only for a terminal: written again where it was written before, until there is something else.
pub(crate) fn status(text: &str) {
    stderr().push(Said::Status(plain(&format!("zoolock: {text}"))));
}

/// Comes back when all is written, but soon.
pub(crate) fn flush(patience: Duration) {
    if let Some(output) = STDERR.get() {
        output.flush(patience);
    }
}

/// Before the process ends.
pub(crate) fn finish() {
    if let Some(output) = STDERR.get() {
        output.push(Said::Status(String::new()));
        output.flush(PATIENCE);
    }
}

fn stderr() -> &'static Output {
    STDERR.get_or_init(|| {
        // Not through Rust's own, whose mutex a panic would wait for.
        let own = io::stderr().as_fd().try_clone_to_owned();
        let write = |own| move || STDERR.wait().write_to(File::from(own));
        // Without a thread the command still does its work, and says at the end what there was to say.
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

    /// Writes what waits, as long as there is room for it.
    fn write_now(&self, patience: Duration) {
        let (mut stderr, end) = (io::stderr(), Instant::now() + patience);
        let mut has_status = false;
        let left = || end.saturating_duration_since(Instant::now());
        while is_writable(&stderr, left()).unwrap_or(false) {
            let Some(said) = self.queue().said.pop_front() else { return };
            has_status = said.write_to(&mut stderr, has_status);
        }
    }

    /// To be called when the one before is written.
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
        // Longer than any pipe, so that it is on its way until it is read.
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
        assert_eq!(lines.next().as_deref(), Some("zoolock: 7 lines left out here"));
        output.push(Said::Line("on".to_owned()));
        assert_eq!(lines.next().as_deref(), Some("on"), "it goes on");
    }
}
