//! Locks for the tasks of an asynchronous program: the part to copy.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use zoolock::{CancelToken, Client, DistributedLock, Error, Guard, Hold, LockOptions, Wait};

/// The locks of a process for its tasks. Clones share the queues of tasks.
#[derive(Clone)]
pub(crate) struct TaskLocks {
    client: Client,
    /// By path: those in use, and some that were in use.
    queues: Arc<Mutex<HashMap<String, Weak<Queue>>>>,
}

/// A lock for tasks. The tasks of a path wait for each other without a thread. Only the first of
/// them has a thread, which waits for other processes.
#[derive(Clone)]
pub(crate) struct TaskLock {
    lock: DistributedLock,
    queue: Arc<Queue>,
}

type Queue = tokio::sync::Mutex<()>;

/// A held lock. Dropping it does not block. Its fields are dropped in this order.
pub(crate) struct TaskGuard {
    guard: Guard,
    _turn: OwnedMutexGuard<()>,
}

impl TaskLocks {
    pub(crate) fn new(client: &Client) -> TaskLocks {
        TaskLocks { client: client.clone(), queues: Arc::default() }
    }

    /// Returns the lock at a path. Sends no request.
    pub(crate) fn at(&self, path: &str) -> zoolock::Result<TaskLock> {
        let options = LockOptions::new().background_release(true);
        let lock = DistributedLock::with_options(&self.client, path, options)?;
        Ok(TaskLock { lock, queue: self.queue(path) })
    }

    fn queue(&self, path: &str) -> Arc<Queue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(path).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() == queues.capacity() {
            queues.retain(|_, queue| queue.strong_count() > 0); // before the map grows
        }
        let queue = Arc::default();
        queues.insert(path.to_owned(), Arc::downgrade(&queue));
        queue
    }
}

impl TaskLock {
    /// Acquires the lock. Returns `None` if it is busy until the end of `wait`, which is never the
    /// case for [`Wait::FOREVER`]. Dropping the future leaves neither a node nor a waiting thread
    /// behind. A token of `wait` has no effect.
    pub(crate) async fn acquire(&self, wait: Wait) -> zoolock::Result<Option<TaskGuard>> {
        let queue = Arc::clone(&self.queue);
        let turn = match wait.deadline() {
            _ if wait.is_try() => queue.try_lock_owned().ok(),
            Some(deadline) => timeout_at(deadline.into(), queue.lock_owned()).await.ok(),
            None => Some(queue.lock_owned().await),
        };
        let Some(turn) = turn else { return Ok(None) };
        let (lock, cancel) = (self.lock.clone(), CancelOnDrop(CancelToken::new()));
        let wait = wait.cancelled_by(&cancel.0);
        let acquire = move || {
            let guard = lock.acquire_within(wait)?;
            Ok(guard.map(|guard| TaskGuard { guard, _turn: turn }))
        };
        match spawn_blocking(acquire).await.map_err(|error| error.try_into_panic()) {
            Ok(acquired) => acquired,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_)) => Err(Error::Closed), // the runtime ends
        }
    }
}

struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl TaskGuard {
    /// Returns the hold, for its state and its fencing token. Neither blocks.
    pub(crate) fn hold(&self) -> &Hold {
        &self.guard
    }

    /// Returns when the hold is over. Call it once.
    pub(crate) async fn ended(&self) {
        let (end, ended) = oneshot::channel::<()>();
        self.guard.on_end(move || drop(end));
        let _ = ended.await; // its sender is dropped
    }
}
