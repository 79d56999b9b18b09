//! The witness of a hold: advisory locks of the operating system on files, which know nothing of
//! ZooKeeper and are taken back by themselves from a process that is killed.
//!
//! Each look opens the files anew: these locks exclude open files, so that threads of one process
//! conflict like processes.
//!
//! - One who must be alone takes all files of the place, of which a lock has one.
//! - A read-write lock has two. Readers share the first and do not look at the second. A writer that
//!   goes on as a reader lets go of the first and keeps the second: readers come in, writers do
//!   not, and there is no instant in between. Turning an exclusive file lock into a shared one
//!   would make one, in which the file is free.
//! - A semaphore has a file per permit, and each permit takes the first one that is free. If no more
//!   are out than there are files, there is one, however their takers meet: whoever passes a file
//!   leaves its holder behind, so fewer are ahead than there are files left.

use std::fs::{File, TryLockError};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::places::{self, Share};

#[derive(Debug)]
pub(crate) struct Witness {
    files: Mutex<Vec<File>>,
    complete: bool,
}

impl Witness {
    /// Makes the files of a place.
    pub(crate) fn prepare(folder: &Path, path: usize) -> io::Result<()> {
        let mut numbers = 0..places::at(path).witnesses();
        numbers.try_for_each(|number| File::create(file(folder, path, number)).map(drop))
    }

    pub(crate) fn take(folder: &Path, path: usize, share: Share) -> io::Result<Witness> {
        let all = places::at(path).witnesses();
        let (wanted, numbers) = match share {
            Share::Alone => (all, 0..all),
            Share::Reading => (1, 0..1),
            Share::Permits(count) => (count, 0..all),
        };
        let mut files = Vec::new();
        for number in numbers {
            if files.len() == wanted as usize {
                break;
            }
            files.extend(try_lock(&file(folder, path, number), share)?);
        }
        let complete = files.len() == wanted as usize;
        if !complete && share == Share::Alone {
            files.clear();
        }
        let files = Mutex::new(files);
        Ok(Witness { files, complete })
    }

    /// Of the read that a writer has taken as well: what writers alone look at.
    pub(crate) fn inherit(&self) -> Witness {
        let heirloom = self.files().pop();
        Witness {
            files: Mutex::new(heirloom.into_iter().collect()),
            // What is missing was reported as the writer's.
            complete: true,
        }
    }

    /// Everything could be had that should have been free.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The last close of an open file frees its lock.
    pub(crate) fn let_go(&self) {
        drop(mem::take(&mut *self.files()));
    }

    fn files(&self) -> MutexGuard<'_, Vec<File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file(folder: &Path, path: usize, number: u32) -> PathBuf {
    let name = places::at(path).name();
    folder.join(format!("witness-{name}-{number}"))
}

fn try_lock(path: &Path, share: Share) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    let locked = match share {
        Share::Reading => file.try_lock_shared(),
        Share::Alone | Share::Permits(_) => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
