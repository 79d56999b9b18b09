//! Locks for the tasks of an asynchronous program: the part to copy.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use zoolock::{CancelToken, Client, DistributedLock, Error, Guard, Hold, LockOptions, Wait};

/// A lock for tasks. Its tasks wait for each other without a thread. Only the first of them has a
/// thread, which waits at the servers.
#[derive(Clone)]
pub(crate) struct TaskLock {
    lock: DistributedLock,
    turn: Arc<Mutex<()>>,
}

/// A held lock. Its drop does not block. Fields are dropped in this order.
pub(crate) struct TaskGuard {
    guard: Guard,
    ended: watch::Receiver<()>,
    _turn: OwnedMutexGuard<()>,
}

impl TaskLock {
    /// Creates a lock at a path. No I/O.
    pub(crate) fn new(client: &Client, path: &str) -> zoolock::Result<TaskLock> {
        let options = LockOptions::new().background_release(true);
        let lock = DistributedLock::with_options(client, path, options)?;
        Ok(TaskLock { lock, turn: Arc::default() })
    }

    /// Acquires the lock. A dropped future leaves no node, and no thread that waits.
    pub(crate) async fn acquire(&self) -> zoolock::Result<TaskGuard> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (lock, token) = (self.lock.clone(), CancelToken::new());
        let wait = Wait::FOREVER.cancelled_by(&token);
        let acquire = move || {
            let guard = lock.acquire_within(wait)?.expect("it waits without a limit");
            let (end, ended) = watch::channel(());
            guard.on_end(move || drop(end));
            Ok(TaskGuard { guard, ended, _turn: turn })
        };
        let mut call = Call { token, thread: spawn_blocking(acquire) };
        match (&mut call.thread).await.map_err(|error| error.try_into_panic()) {
            Ok(acquired) => acquired,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_)) => Err(Error::Closed), // the runtime ends
        }
    }
}

struct Call {
    token: CancelToken,
    thread: JoinHandle<zoolock::Result<TaskGuard>>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.thread.abort(); // in case that it has not begun
        self.token.cancel();
    }
}

impl TaskGuard {
    /// Returns the hold, for its state and its fencing token. Neither blocks.
    pub(crate) fn hold(&self) -> &Hold {
        &self.guard
    }

    /// Returns when the hold is over.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.clone().changed().await; // its sender is dropped
    }
}
