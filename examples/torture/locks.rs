//! The lock objects of a client process, which its threads share.

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, ReadLock, WriteLock,
};

use crate::places::{self, PATHS, Use, lock_path};

/// Those at one path. Each path has one of every type, since that costs no request; which of them
/// are used there is for [`places`] to say.
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
    /// By path.
    pub(crate) fn all(client: &Client) -> zoolock::Result<Vec<Locks>> {
        (0..PATHS).map(|path| Locks::new(client, path)).collect()
    }

    fn new(client: &Client, path: usize) -> zoolock::Result<Locks> {
        let limit = match places::at(path).what {
            Use::Semaphore(limit) => limit,
            _ => 1,
        };
        let path = lock_path(path);
        let both = DistributedRwLock::new(client, &path)?;
        Ok(Locks {
            plain: DistributedLock::new(client, &path)?,
            reentrant: DistributedReentrantLock::new(client, &path)?,
            read: both.read_lock(),
            write: both.write_lock(),
            semaphore: DistributedSemaphore::new(client, &path, limit)?,
            ephemeral: EphemeralLock::new(client, &path)?,
        })
    }
}
