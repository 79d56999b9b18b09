//! Log lines, written by a short-lived thread of their own: a logger may block, and those who have
//! something to say must not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use log::{Level, log, log_enabled};
use parking_lot::Mutex;

/// Lines beyond so many that nobody has written yet are dropped.
const MOST: usize = 100;

/// What is still to be written.
#[derive(Debug, Default)]
pub(crate) struct Diary(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<(Level, &'static str, String)>,
    is_written: bool,
}

impl Diary {
    /// Has a line written, if there is a thread to be had.
    pub(crate) fn note(
        self: &Arc<Self>,
        target: &'static str,
        level: Level,
        line: impl FnOnce() -> String,
    ) {
        if !log_enabled!(target: target, level) {
            return;
        }
        let mut lines = self.0.lock();
        if lines.waiting.len() < MOST {
            lines.waiting.push_back((level, target, line()));
        }
        if !lines.is_written {
            let diary = Arc::clone(self);
            let thread = thread::Builder::new().name("zookeeper-log".into());
            lines.is_written = thread.spawn(move || diary.write()).is_ok();
        }
    }

    fn write(&self) {
        while let Some((level, target, line)) = self.next() {
            log!(target: target, level, "{line}");
        }
    }

    fn next(&self) -> Option<(Level, &'static str, String)> {
        let mut lines = self.0.lock();
        let next = lines.waiting.pop_front();
        lines.is_written = next.is_some();
        next
    }
}
