//! The witness of a hold: advisory file locks of the operating system. They are independent of ZooKeeper, and
//! end by themselves when a process is killed.
//!
//! Each look opens the files anew: these locks exclude open files, so threads of one process conflict like
//! processes.
//!
//! - An exclusive holder takes all files of the lock.
//! - A read-write lock has two. Readers share the first and ignore the second. A downgraded writer releases
//!   the first and keeps the second: readers enter, and writers do not, without a gap. Turning an exclusive
//!   file lock into a shared one would leave the file free for an instant.
//! - A semaphore has a file per permit, and each permit takes the first free one. While there are no more
//!   permits than files, there is always one: a taker that passes a file leaves its holder behind, so fewer
//!   takers are ahead than files are left.

use std::fs::{File, TryLockError};
use std::io;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zoolock_judge::{Mode, Use};

#[derive(Debug)]
pub(crate) struct Files {
    files: Mutex<Vec<File>>,
    /// Whether all files that should have been free were.
    pub(crate) were_free: bool,
}

impl Files {
    /// Takes the files of the lock with this number.
    pub(crate) fn take(folder: &Path, lock: usize, what: Use, mode: Mode) -> io::Result<Files> {
        let all = match what {
            Use::Exclusive | Use::Ephemeral => 1,
            Use::ReadWrite => 2,
            Use::Semaphore(limit) => limit,
        };
        let (wanted, numbers) = match mode {
            Mode::Exclusive => (all, 0..all),
            Mode::Shared => (1, 0..1),
            Mode::Permits(count) => (count, 0..all),
        };
        let mut files = Vec::new();
        for number in numbers {
            if files.len() < wanted as usize {
                files.extend(try_lock(&folder.join(format!("{lock}-{number}")), mode)?);
            }
        }
        let were_free = files.len() == wanted as usize;
        if !were_free && mode == Mode::Exclusive {
            files.clear();
        }
        Ok(Files { files: Mutex::new(files), were_free })
    }

    /// Returns the witness of the read that goes on behind this write: the file that only writers take.
    pub(crate) fn downgrade(&self) -> Files {
        let kept = self.files().pop();
        // A missing one was reported with the write.
        Files { files: Mutex::new(kept.into_iter().collect()), were_free: true }
    }

    /// Returns a witness that sees nothing, for a read that ends before its write.
    pub(crate) fn none() -> Files {
        Files { files: Mutex::default(), were_free: true }
    }

    /// The last close of an open file ends its lock.
    pub(crate) fn let_go(&self) {
        drop(mem::take(&mut *self.files()));
    }

    fn files(&self) -> MutexGuard<'_, Vec<File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn try_lock(path: &Path, mode: Mode) -> io::Result<Option<File>> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    let locked = match mode {
        Mode::Shared => file.try_lock_shared(),
        Mode::Exclusive | Mode::Permits(_) => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
