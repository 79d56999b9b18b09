//! What may block, done by a short-lived thread of its own: log lines, and calls of what is not this crate's.
//! Those who have something to say must not wait for it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::thread;

use log::{Level, log_enabled};
use parking_lot::Mutex;

use crate::listener::call_out;

/// Lines behind so many others that nobody has taken yet are dropped.
const MOST: usize = 100;

/// What is still to be done.
#[derive(Default)]
pub(crate) struct Diary(Mutex<Jobs>);

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Box<dyn FnOnce() + Send>>,
    are_done: bool,
}

impl Diary {
    /// Has a line written by this, if anybody wants it and there is a thread to be had.
    pub(crate) fn note(
        self: &Arc<Self>,
        target: &'static str,
        level: Level,
        write: impl FnOnce() + Send + 'static,
    ) {
        if log_enabled!(target: target, level) && self.0.lock().waiting.len() < MOST {
            self.call(Box::new(write));
        }
    }

    /// Has this called, behind all that was to be called before. Without a thread it waits for the next call
    /// of this.
    pub(crate) fn call(self: &Arc<Self>, job: Box<dyn FnOnce() + Send>) {
        let mut jobs = self.0.lock();
        jobs.waiting.push_back(job);
        if !jobs.are_done {
            let diary = Arc::clone(self);
            let thread = thread::Builder::new().name("zookeeper-aside".into());
            jobs.are_done = thread.spawn(move || diary.work()).is_ok();
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            call_out(job);
        }
    }

    fn next(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let mut jobs = self.0.lock();
        let next = jobs.waiting.pop_front();
        jobs.are_done = next.is_some();
        next
    }
}

impl fmt::Debug for Diary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waiting", self.0.lock().waiting.len())
    }
}
