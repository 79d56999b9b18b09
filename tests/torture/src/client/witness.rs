//! The witness of a hold: advisory file locks of the operating system, which know nothing of
//! ZooKeeper. The system releases those of a killed process.
//!
//! Each look opens the files again. These locks exclude open files, so threads of one process
//! conflict like processes.
//!
//! - An exclusive holder takes all files of the path. A plain lock has one file.
//! - A read-write lock has two. Readers share the first and ignore the second. A writer that
//!   becomes a reader releases the first and keeps the second: readers come in, and writers do not.
//!   Turning an exclusive file lock into a shared one would leave the file free for an instant.
//! - A semaphore has a file for each permit, and each permit takes the first free file. If no more
//!   permits are in use than there are files, a free one is found in any schedule: a thread that
//!   passes a taken file leaves its holder behind, so fewer holders than files remain ahead.

use std::fs::{File, TryLockError};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use zoolock::crossbeam_channel::RecvTimeoutError;

use crate::client::granted::Part;
use crate::clock::now;
use crate::paths::{self, Mode};
use crate::protocol::{Event, HoldId, Reporter};

#[derive(Debug)]
pub(crate) struct Witness {
    files: Mutex<Vec<File>>,
    free: bool,
}

impl Witness {
    /// Makes the files of a path.
    pub(crate) fn prepare(folder: &Path, path: usize) -> io::Result<()> {
        let mut numbers = 0..paths::at(path).witness_files();
        numbers.try_for_each(|number| File::create(file(folder, path, number)).map(drop))
    }

    pub(crate) fn take(folder: &Path, path: usize, mode: Mode) -> io::Result<Witness> {
        let all = paths::at(path).witness_files();
        let (wanted, numbers) = match mode {
            Mode::Exclusive => (all, 0..all),
            Mode::Shared => (1, 0..1),
            Mode::Permits(count) => (count, 0..all),
        };
        let mut files = Vec::new();
        for number in numbers {
            if files.len() == wanted as usize {
                break;
            }
            files.extend(try_lock(&file(folder, path, number), mode)?);
        }
        let free = files.len() == wanted as usize;
        if !free && mode == Mode::Exclusive {
            files.clear();
        }
        let files = Mutex::new(files);
        Ok(Witness { files, free })
    }

    /// Of the read that a writer has taken as well: what writers alone look at.
    pub(crate) fn downgrade(&self) -> Witness {
        let kept = self.files().pop();
        Witness {
            files: Mutex::new(kept.into_iter().collect()),
            // What is missing was reported as the writer's.
            free: true,
        }
    }

    /// Everything could be had that should have been free.
    pub(crate) fn was_free(&self) -> bool {
        self.free
    }

    /// The last close of an open file frees its lock.
    pub(crate) fn let_go(&self) {
        drop(mem::take(&mut *self.files()));
    }

    fn files(&self) -> MutexGuard<'_, Vec<File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread beside a hold that waits for its loss, to report it and let go of the witness: the
/// worker may be busy or blocked.
pub(crate) struct LossWatcher(JoinHandle<()>);

impl LossWatcher {
    pub(crate) fn start(
        hold: HoldId,
        part: &Part,
        witness: &Arc<Witness>,
        reporter: &Reporter,
    ) -> LossWatcher {
        let (part, witness, reporter) = (part.clone(), Arc::clone(witness), reporter.clone());
        LossWatcher(thread::spawn(move || {
            if part.holds.is_empty() {
                return;
            }
            // `lost()` may be up to 100 ms late, `is_held()` is not. So this wakes at the end of
            // the lease as well.
            while part.is_held() {
                let Err(RecvTimeoutError::Timeout) = part.lost().recv_timeout(part.valid_for())
                else {
                    break;
                };
            }
            let at = now();
            if let Some(reason) = part.loss() {
                witness.let_go();
                reporter.report(&Event::Lost { hold, at, reason: reason.to_string() });
            }
        }))
    }

    /// Returns when the hold was seen to end.
    pub(crate) fn wait(self) {
        let _ = self.0.join();
    }
}

fn file(folder: &Path, path: usize, number: u32) -> PathBuf {
    let name = paths::at(path).name;
    folder.join(format!("witness-{name}-{number}"))
}

fn try_lock(path: &Path, mode: Mode) -> io::Result<Option<File>> {
    let file = File::open(path)?;
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
