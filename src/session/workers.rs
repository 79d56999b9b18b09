//! The threads that make the blocking calls of one connection, so that no caller has to: the
//! crate below has no timeout, and a silent server would hold its caller for ever.
//!
//! A job goes straight to the thread that has been idle for the shortest time: it may still be awake,
//! the stacks of a few threads stay warm, and those that are not needed come to their end.

use std::collections::VecDeque;
use std::mem;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

/// The most threads of one connection. A silent one can starve itself, never the next.
const MOST: usize = 64;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A pool that grows with the jobs waiting and shrinks when it has been idle.
pub(crate) struct Workers {
    state: Mutex<State>,
    /// How long a thread without work stays.
    patience: Duration,
}

#[derive(Default)]
struct State {
    /// What no thread was free for.
    jobs: VecDeque<Job>,
    /// The ways to idle threads, the latest one last. Whoever takes one out sends it a job, or
    /// nothing to end it.
    idle: Vec<Sender<Option<Job>>>,
    /// Those that will look for work again.
    threads: usize,
    stopped: bool,
}

impl Workers {
    pub(crate) fn new() -> Workers {
        Workers::with_patience(IDLE)
    }

    fn with_patience(patience: Duration) -> Workers {
        Workers { state: Mutex::default(), patience }
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
        if let Some(worker) = state.idle.pop() {
            drop(state);
            hand(&worker, Some(job));
            return false;
        }
        state.jobs.push_back(job);
        let grow = state.threads < MOST;
        if grow {
            state.threads += 1;
        }
        grow
    }

    /// The life of one worker thread.
    pub(crate) fn work(&self) {
        let (way, handed) = bounded(1);
        while let Some(job) = self.next(&way, &handed) {
            job();
        }
    }

    fn next(&self, way: &Sender<Option<Job>>, handed: &Receiver<Option<Job>>) -> Option<Job> {
        let mut state = self.state.lock();
        if let Some(job) = state.jobs.pop_front() {
            return Some(job);
        }
        if state.stopped {
            return None;
        }
        state.idle.push(way.clone());
        drop(state);
        if let Ok(job) = handed.recv_timeout(self.patience) {
            return job;
        }
        let mut state = self.state.lock();
        let place = state.idle.iter().position(|idle| idle.same_channel(way));
        if let Some(place) = place {
            state.idle.remove(place);
            state.threads -= 1;
            return None;
        }
        drop(state);
        // Somebody took it out just now, and is about to send.
        handed.recv().ok().flatten()
    }

    /// Drops what is queued and lets the threads end.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let jobs = mem::take(&mut state.jobs);
        let idle = mem::take(&mut state.idle);
        drop(state);
        for worker in idle {
            hand(&worker, None);
        }
        drop(jobs);
    }
}

/// There is room for one, and nobody else has this way: it neither blocks nor fails.
fn hand(worker: &Sender<Option<Job>>, job: Option<Job>) {
    let _ = worker.send(job);
}

/// Starts a named background thread of the library.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(format!("zoolock-{name}")).spawn(body).map(drop)
}

#[cfg(test)]
mod tests;
