//! The witness of a hold: an advisory lock of the operating system, which knows nothing of
//! ZooKeeper and takes the lock back by itself from a process that is killed.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use zoolock::{Hold, HoldState};

use crate::clock::now;
use crate::message::{HoldId, Said};
use crate::setting::witness_file;
use crate::worker::Mouth;

/// One look at the witness. Each opens the file anew: these locks exclude open files, so that
/// threads of one process conflict like processes.
#[derive(Debug)]
pub(crate) struct Witness(Mutex<Option<File>>);

impl Witness {
    pub(crate) fn take(folder: &Path, path: usize) -> io::Result<Witness> {
        let file = File::open(witness_file(folder, path))?;
        let file = match file.try_lock() {
            Ok(()) => Some(file),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        Ok(Witness(Mutex::new(file)))
    }

    pub(crate) fn is_mine(&self) -> bool {
        self.file().is_some()
    }

    /// The last close of an open file frees its lock.
    pub(crate) fn let_go(&self) {
        self.file().take();
    }

    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread beside a worker that does nothing but wait for the loss of its hold. It notes the
/// loss and lets go of the witness when the worker may be busy or blocked.
#[derive(Debug)]
pub(crate) struct Guardian {
    holds: Sender<(HoldId, Hold, Arc<Witness>)>,
    done: Receiver<()>,
}

impl Guardian {
    pub(crate) fn start(mouth: Mouth) -> Guardian {
        let (holds, incoming) = bounded::<(HoldId, Hold, Arc<Witness>)>(1);
        let (finished, done) = bounded(1);
        thread::spawn(move || {
            for (id, hold, witness) in incoming {
                watch(id, &hold, &witness, &mouth);
                let _ = finished.send(());
            }
        });
        Guardian { holds, done }
    }

    pub(crate) fn watch(&self, id: HoldId, hold: Hold, witness: Arc<Witness>) {
        let _ = self.holds.send((id, hold, witness));
    }

    /// Returns when the hold was seen to end.
    pub(crate) fn wait(&self) {
        let _ = self.done.recv();
    }
}

/// `lost()` may be up to 100 ms late, `is_held()` is not. So this wakes at the end of the lease
/// as well.
fn watch(id: HoldId, hold: &Hold, witness: &Witness, mouth: &Mouth) {
    while let Err(RecvTimeoutError::Timeout) = hold.lost().recv_timeout(hold.valid_for()) {
        if !hold.is_held() {
            break;
        }
    }
    let at = now();
    if let HoldState::Lost(reason) = hold.state() {
        witness.let_go();
        let reason = reason.to_string();
        let hold = id;
        mouth.say(&Said::Lost { hold, at, reason });
    }
}
