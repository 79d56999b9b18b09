//! Locks for the tasks of an asynchronous program: the part to copy.

use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use zoolock::crossbeam_channel::{Receiver, Select, Sender, TryRecvError, unbounded};
use zoolock::{Client, DistributedLock, Error, Guard, Hold, LockOptions};

/// A lock for tasks. Its tasks wait for each other without a thread. Only the first of them has a
/// thread, which waits at the servers.
#[derive(Clone)]
pub(crate) struct TaskLock {
    client: Client,
    path: Arc<str>,
    turn: Arc<Mutex<()>>,
}

/// A held lock. Its drop does not block. Fields are dropped in this order.
pub(crate) struct TaskGuard {
    guard: Guard,
    _turn: OwnedMutexGuard<()>,
}

impl TaskLock {
    /// Creates a lock at a path. No I/O.
    pub(crate) fn new(client: &Client, path: &str) -> zoolock::Result<TaskLock> {
        DistributedLock::new(client, path)?; // checks the path
        let (client, path) = (client.clone(), path.into());
        Ok(TaskLock { client, path, turn: Arc::default() })
    }

    /// Acquires the lock. A dropped future leaves no node, and no thread that waits.
    pub(crate) async fn acquire(&self) -> zoolock::Result<TaskGuard> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // An object for each call: its `cancel_waiters` ends this call alone.
        let options = LockOptions::new().background_release(true);
        let lock = DistributedLock::with_options(&self.client, &*self.path, options)?;
        let waiting = lock.clone();
        let acquire = move || waiting.acquire().map(|guard| TaskGuard { guard, _turn: turn });
        let mut call = Call { lock, thread: spawn_blocking(acquire) };
        match (&mut call.thread).await.map_err(|error| error.try_into_panic()) {
            Ok(acquired) => acquired,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_)) => Err(Error::Closed), // the runtime ends
        }
    }
}

struct Call {
    lock: DistributedLock,
    thread: JoinHandle<zoolock::Result<TaskGuard>>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.thread.abort(); // in case that it has not begun
        let (lock, call) = (self.lock.clone(), self.thread.abort_handle());
        if !call.is_finished() {
            // A cancel has no effect before the call waits. No task does this: the runtime may end.
            thread::spawn(move || {
                while !call.is_finished() {
                    lock.cancel_waiters();
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
    }
}

impl TaskGuard {
    /// Returns the hold, for its state and its fencing token. Neither blocks.
    pub(crate) fn hold(&self) -> &Hold {
        &self.guard
    }

    /// Returns when the hold is over. One thread looks at all holds of the process.
    pub(crate) async fn ended(&self) {
        static WATCH: LazyLock<Sender<Watched>> = LazyLock::new(|| {
            let (watch, new) = unbounded();
            thread::spawn(move || watch_holds(&new));
            watch
        });
        let (end, ended) = oneshot::channel();
        let _ = WATCH.send((self.guard.hold(), end));
        let _ = ended.await; // its sender is dropped
    }
}

type Watched = (Hold, oneshot::Sender<()>);

fn watch_holds(new: &Receiver<Watched>) {
    let mut watched: Vec<Watched> = Vec::new();
    loop {
        let mut select = Select::new();
        select.recv(new);
        for (hold, _) in &watched {
            select.recv(hold.lost());
        }
        select.ready();
        watched.extend(new.try_iter());
        let lasts = |hold: &Hold| hold.lost().try_recv() == Err(TryRecvError::Empty);
        watched.retain(|(hold, end)| lasts(hold) && !end.is_closed());
    }
}
