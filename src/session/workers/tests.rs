//! Threads that come with the work and go without it.

use std::sync::Arc;
use std::thread::ThreadId;

use crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock_test_support::wait_until;

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// A pool, and what its jobs say.
struct Pool {
    workers: Arc<Workers>,
    said: Sender<(usize, ThreadId)>,
    hear: Receiver<(usize, ThreadId)>,
}

impl Pool {
    fn new(patience: Duration) -> Pool {
        let (said, hear) = unbounded();
        Pool { workers: Arc::new(Workers::with_patience(patience)), said, hear }
    }

    fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let workers = Arc::clone(&self.workers);
        if self.workers.submit(Box::new(job)) {
            spawn("test", move || workers.work()).expect("a thread");
        }
    }

    /// A job that says its number, and which thread does it.
    fn say(&self, number: usize) {
        let said = self.said.clone();
        self.submit(move || said.send((number, thread::current().id())).expect("heard"));
    }

    fn hear(&self) -> (usize, ThreadId) {
        self.hear.recv_timeout(SOON).expect("a job is done")
    }

    /// Jobs that last until what is returned is dropped.
    fn busy(&self, jobs: usize) -> Sender<()> {
        let (busy, end) = unbounded();
        for _ in 0..jobs {
            let end: Receiver<()> = end.clone();
            self.submit(move || end.recv().unwrap_or_default());
        }
        busy
    }

    /// How many threads there are, and how many of them are idle.
    fn threads(&self) -> (usize, usize) {
        let state = self.workers.state.lock();
        (state.threads, state.idle.len())
    }

    fn wait_for(&self, threads: (usize, usize)) {
        let what = format!("{} threads, {} of them idle", threads.0, threads.1);
        wait_until(&what, SOON, || self.threads() == threads);
    }
}

#[test]
fn a_busy_pool_grows_to_its_most_and_the_next_jobs_wait_in_turn() {
    let pool = Pool::new(IDLE);
    let busy = pool.busy(MOST);
    (0..10).for_each(|number| pool.say(number));
    assert_eq!(pool.threads(), (MOST, 0));
    assert!(pool.hear.is_empty(), "no thread is free");
    drop(busy);
    let mut done: Vec<usize> = (0..10).map(|_| pool.hear().0).collect();
    println!("done: {done:?}");
    done.sort_unstable();
    assert_eq!(done, (0..10).collect::<Vec<_>>());
    pool.wait_for((MOST, MOST));
}

#[test]
fn work_for_one_thread_is_done_by_one_thread() {
    let pool = Pool::new(IDLE);
    drop(pool.busy(8));
    pool.wait_for((8, 8));
    let mut threads: Vec<ThreadId> = Vec::new();
    for number in 0..100 {
        pool.say(number);
        threads.push(pool.hear().1);
        pool.wait_for((8, 8));
    }
    threads.dedup();
    println!("{threads:?}");
    assert_eq!(threads.len(), 1, "the others could end");
}

#[test]
fn threads_without_work_end() {
    let pool = Pool::new(Duration::from_millis(50));
    drop(pool.busy(8));
    pool.wait_for((0, 0));
}

#[test]
fn a_job_that_comes_when_its_thread_gives_up_is_done() {
    let patience = Duration::from_millis(50);
    let pool = Pool::new(patience);
    drop(pool.busy(1));
    let mut state = loop {
        let state = pool.workers.state.lock();
        match state.idle.is_empty() {
            true => drop(state),
            false => break state,
        }
        thread::yield_now();
    };
    let worker = state.idle.pop().expect("it is idle");
    // Meanwhile it gives up, and comes for the mutex to say so.
    thread::sleep(patience * 2);
    drop(state);
    let said = pool.said.clone();
    let job = move || said.send((1, thread::current().id())).expect("heard");
    hand(&worker, Some(Box::new(job)));
    println!("done: {:?}", pool.hear());
    pool.wait_for((0, 0));
}

#[test]
fn a_stopped_pool_drops_what_is_queued_and_its_threads_end() {
    let pool = Pool::new(IDLE);
    drop(pool.busy(MOST / 2));
    pool.wait_for((MOST / 2, MOST / 2));
    let busy = pool.busy(MOST);
    pool.say(1);
    pool.workers.stop();
    pool.say(2);
    drop(busy);
    let workers = &pool.workers;
    wait_until("the threads' ends", SOON, || Arc::strong_count(workers) == 1);
    assert!(pool.hear.is_empty(), "nothing is done after the stop");
}
