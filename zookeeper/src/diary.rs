//! What may block, done by a short-lived thread of its own: log lines by one, calls of what is not this
//! crate's by another. Those who have something to say must not wait for it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::listener::call_out;
use crate::sys::{self, Mutex, thread};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// What is still to be done.
pub(crate) struct Diary {
    /// The name of its thread.
    name: &'static str,
    /// Behind so many that nobody has taken yet, jobs are dropped.
    most: usize,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    are_done: bool,
    dropped: u64,
}

impl Diary {
    pub(crate) fn new(name: &'static str, most: usize) -> Arc<Diary> {
        Arc::new(Diary { name, most, jobs: Mutex::default() })
    }

    /// Has this called, behind all that was to be called before. Returns how many were dropped since the
    /// last job that was not. Without a thread it waits for the next call of this, or of `is_stuck`.
    pub(crate) fn call(self: &Arc<Self>, job: Job) -> u64 {
        let mut jobs = self.jobs.lock();
        if jobs.waiting.len() >= self.most {
            jobs.dropped += 1;
            drop(jobs);
            // Its destructor is not this crate's.
            call_out(|| drop(job));
            return 0;
        }
        jobs.waiting.push_back(job);
        self.start(&mut jobs);
        std::mem::take(&mut jobs.dropped)
    }

    /// Tries once more what had no thread. Returns whether there is none still.
    pub(crate) fn is_stuck(self: &Arc<Self>) -> bool {
        let mut jobs = self.jobs.lock();
        if !jobs.waiting.is_empty() {
            self.start(&mut jobs);
        }
        !jobs.waiting.is_empty() && !jobs.are_done
    }

    fn start(self: &Arc<Self>, jobs: &mut Jobs) {
        if !jobs.are_done {
            let diary = Arc::clone(self);
            let thread = thread::Builder::new().name(self.name.into());
            jobs.are_done = thread.spawn(move || diary.work()).is_ok();
            sys::reached_if(|| !jobs.are_done, "there is no thread for a log line or a callback");
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            call_out(job);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        let next = jobs.waiting.pop_front();
        jobs.are_done = next.is_some();
        next
    }
}

impl fmt::Debug for Diary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waiting", self.jobs.lock().waiting.len())
    }
}
