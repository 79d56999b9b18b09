//! The threads that make the blocking calls of one connection, so that no caller has to: the
//! crate below has no timeout, and a silent server would hold its caller for ever.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The most threads of one connection. A silent one can starve itself, never the next.
const MOST: usize = 64;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A pool that grows with the jobs waiting and shrinks when it has been idle.
pub(crate) struct Workers {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    stopped: bool,
}

impl Workers {
    pub(crate) fn new() -> Workers {
        Workers {
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Queues a job. Returns true if the caller must start one more thread, which calls
    /// [`Workers::work`]. After [`Workers::stop`] the job is dropped.
    #[must_use]
    pub(crate) fn submit(&self, job: Job) -> bool {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            drop(job);
            return false;
        }
        state.jobs.push_back(job);
        let grow = state.jobs.len() > state.idle && state.threads < MOST;
        if grow {
            state.threads += 1;
        } else {
            self.wake.notify_one();
        }
        grow
    }

    /// The life of one worker thread.
    pub(crate) fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.stopped {
                break;
            }
            state.idle += 1;
            let timed_out = self.wake.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }

    /// Drops what is queued and lets the threads end.
    pub(crate) fn stop(&self) {
        let jobs = {
            let mut state = self.state.lock();
            state.stopped = true;
            std::mem::take(&mut state.jobs)
        };
        self.wake.notify_all();
        drop(jobs);
    }
}

/// Starts a named background thread of the library.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new()
        .name(format!("zoolock-{name}"))
        .spawn(body)
        .map(drop)
}
