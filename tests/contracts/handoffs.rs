//! `LockOptions::local_handoffs`: the threads of one object leave the lock to each other without a
//! word to the servers.

mod bounds;
mod endings;
mod giving_up;
mod living;
mod owners;
mod refused;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, Guard, Hold, Lock,
    LockOptions, Result,
};

use common::basics::hold_of;
use common::{SOON, Task};

fn handing_on(times: u32) -> LockOptions {
    LockOptions::new().local_handoffs(times)
}

fn lock_with(client: &Client, path: &str, times: u32) -> DistributedLock {
    DistributedLock::with(client, path, handing_on(times)).unwrap()
}

/// A lock object of every kind that hands on, on paths of their own below `root`.
fn every_lock(client: &Client, root: &str, times: u32) -> Vec<Arc<dyn Lock>> {
    let at = |name: &str| format!("{root}/{name}");
    let options = || handing_on(times);
    let own = DistributedReentrantLock::with(client, at("own"), options()).unwrap();
    let write = DistributedRwLock::with(client, at("write"), options()).unwrap();
    vec![
        Arc::new(lock_with(client, &at("any"), times)),
        Arc::new(own),
        Arc::new(write.write_lock()),
    ]
}

/// Time for the others to queue.
fn a_moment() {
    thread::sleep(Duration::from_millis(1));
}

/// A thread that waits for a lock, and holds it until told to let go.
struct Next {
    holds: Receiver<Hold>,
    let_go: Sender<()>,
    end: Task<Result<()>>,
}

impl Next {
    /// Returns when the thread is asleep, waiting.
    fn waits(lock: &DistributedLock) -> Next {
        let lock = lock.clone();
        Next::waits_by(move || lock.acquire())
    }

    fn waits_by(acquire: impl FnOnce() -> Result<Guard> + Send + 'static) -> Next {
        let ((holding, holds), (let_go, told)) = (bounded(1), bounded(1));
        let end = Task::spawn_blocked(move || {
            let guard = acquire()?;
            let _ = holding.send(guard.hold());
            let _ = told.recv();
            guard.release()
        });
        Next { holds, let_go, end }
    }

    #[track_caller]
    fn holds(&self) -> Hold {
        let hold = self.holds.recv_timeout(SOON);
        hold.unwrap_or_else(|error| panic!("the next thread does not hold: {error}"))
    }

    #[track_caller]
    fn lets_go(self) -> Result<()> {
        let _ = self.let_go.send(());
        self.end.result("the next thread")
    }
}

/// Threads that lock and unlock one object without a pause, so that it is handed on and on, until
/// they are stopped or something is wrong.
struct Passers {
    stop: Arc<AtomicBool>,
    threads: Vec<Task<Result<u32>>>,
}

impl Passers {
    /// Each does `visit` inside, and does not leave before another one has asked for the lock.
    fn start(
        lock: &DistributedLock,
        threads: usize,
        visit: impl Fn(&Hold) + Clone + Send + 'static,
    ) -> Passers {
        let stop = Arc::new(AtomicBool::new(false));
        let asking = Arc::new(AtomicUsize::new(0));
        let passer = |_| {
            let (lock, visit) = (lock.clone(), visit.clone());
            let (stop, asking) = (Arc::clone(&stop), Arc::clone(&asking));
            Task::spawn(move || {
                let mut turns = 0;
                while !stop.load(Ordering::SeqCst) {
                    asking.fetch_add(1, Ordering::SeqCst);
                    let acquired = lock.acquire();
                    asking.fetch_sub(1, Ordering::SeqCst);
                    let guard = acquired?;
                    visit(&guard);
                    let alone = || asking.load(Ordering::SeqCst) == 0;
                    while alone() && guard.is_held() && !stop.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                    guard.release()?;
                    turns += 1;
                }
                Ok(turns)
            })
        };
        let threads = (0..threads).map(passer).collect();
        Passers { stop, threads }
    }

    /// The turns that each has had.
    #[track_caller]
    fn stop(self) -> Vec<Result<u32>> {
        self.stop.store(true, Ordering::SeqCst);
        self.ended()
    }

    /// The same when something else ends them.
    #[track_caller]
    fn ended(self) -> Vec<Result<u32>> {
        let turns = self.threads.iter();
        turns.map(|t| t.result("a thread that passes on")).collect()
    }
}
