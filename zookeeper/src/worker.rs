//! Runs jobs that may block on short-lived threads: one for log lines, one for calls of foreign
//! code. Callers never wait for these threads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::listener::call_out;
use crate::sys::{Mutex, thread};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A queue of jobs for one background thread.
pub(crate) struct Worker {
    /// The name of the thread.
    name: &'static str,
    /// While this many jobs wait, further jobs are dropped.
    most: usize,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// A thread takes the jobs out.
    has_thread: bool,
    dropped: u64,
}

impl Worker {
    pub(crate) fn new(name: &'static str, most: usize) -> Arc<Worker> {
        Arc::new(Worker { name, most, jobs: Mutex::default() })
    }

    /// Queues a job. Returns how many were dropped since the last job that was accepted. If no thread
    /// can be started, the job waits for the next call of this method or of `retry`.
    pub(crate) fn call(self: &Arc<Self>, job: Job) -> u64 {
        let mut jobs = self.jobs.lock();
        if jobs.waiting.len() >= self.most {
            jobs.dropped += 1;
            drop(jobs);
            // The job's destructor is foreign code.
            call_out(|| drop(job));
            return 0;
        }
        jobs.waiting.push_back(job);
        self.start(&mut jobs);
        std::mem::take(&mut jobs.dropped)
    }

    /// Tries again to start a thread for waiting jobs. Returns whether there is still none.
    pub(crate) fn retry(self: &Arc<Self>) -> bool {
        let mut jobs = self.jobs.lock();
        if !jobs.waiting.is_empty() {
            self.start(&mut jobs);
        }
        !jobs.waiting.is_empty() && !jobs.has_thread
    }

    fn start(self: &Arc<Self>, jobs: &mut Jobs) {
        if !jobs.has_thread {
            let worker = Arc::clone(self);
            let thread = thread::Builder::new().name(self.name.into());
            jobs.has_thread = thread.spawn(move || worker.work()).is_ok();
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
        jobs.has_thread = next.is_some();
        next
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waiting", self.jobs.lock().waiting.len())
    }
}
