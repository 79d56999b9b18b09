//! The lock objects of a client process, shared by its threads.

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, LockOptions, ReadLock, WriteLock,
};

use crate::paths::{self, PATHS, Use, lock_path};

/// The objects at one path. Each path has one of every type, since that costs no request. [`paths`] decides
/// which of them are used.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) plain: DistributedLock,
    pub(crate) reentrant: DistributedReentrantLock,
    pub(crate) read: ReadLock,
    pub(crate) write: WriteLock,
    pub(crate) semaphore: DistributedSemaphore,
    pub(crate) ephemeral: EphemeralLock,
}

impl Locks {
    /// By path, for one of the processes.
    pub(crate) fn all(client: &Client, process: usize) -> zoolock::Result<Vec<Locks>> {
        let options = options(process);
        (0..PATHS).map(|path| Locks::new(client, path, &options)).collect()
    }

    fn new(client: &Client, path: usize, options: &LockOptions) -> zoolock::Result<Locks> {
        let limit = match paths::at(path).what {
            Use::Semaphore(limit) => limit,
            _ => 1,
        };
        let (path, options) = (lock_path(path), || options.clone());
        let both = DistributedRwLock::with_options(client, &path, options())?;
        Ok(Locks {
            plain: DistributedLock::with_options(client, &path, options())?,
            reentrant: DistributedReentrantLock::with_options(client, &path, options())?,
            read: both.read_lock(),
            write: both.write_lock(),
            semaphore: DistributedSemaphore::with_options(client, &path, limit, options())?,
            ephemeral: EphemeralLock::with_options(client, &path, options())?,
        })
    }
}

/// Each process uses other options that save requests.
fn options(process: usize) -> LockOptions {
    let options = LockOptions::new().background_release(process % 2 == 1);
    match process / 2 % 2 {
        0 => options,
        _ => options.local_handoffs(4),
    }
}
