//! Conclusions that save a request: the end of the only node ahead is a grant (`stay`), the nodes of
//! a directory may be read, a node that was created with its directory is alone, and the next
//! thread may replace a released node in one transaction. Without shortcuts, every grant in a queue
//! follows a list, except hand-offs, and every watch of a node ahead a read. The simulation and the
//! tests run with them and without.

use std::collections::HashSet;

use crate::base::path::LockPath;
use crate::base::sys::{self, Mutex};

/// Returns whether shortcuts are taken. `--cfg zoolock_without_shortcuts` switches all of them off.
pub(crate) fn are_on() -> bool {
    sys::shortcuts()
}

/// The most directories that a client knows. If there are more, it begins anew.
const MOST: usize = 1024;

/// Directories in which this client has read a node of another one. It may well read the others, so
/// it need not ask before it waits for one.
///
/// What the conclusion rests on, and who could break it:
/// - *All nodes of a directory may be read*: clients that share a lock need READ on each other's
///   nodes. A client can break this by taking READ of its node from this one. Then the server sends
///   no event of it, and a waiter only looks (`Requests::next_look`). From such a look on, the
///   directory is not known any more, so that the next call that watches a node there reads it
///   first.
#[derive(Debug, Default)]
pub(crate) struct Readable(Mutex<HashSet<LockPath>>);

impl Readable {
    pub(crate) fn has(&self, directory: &LockPath) -> bool {
        are_on() && self.0.lock().contains(directory)
    }

    pub(crate) fn add(&self, directory: &LockPath) {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(directory.clone());
    }

    pub(crate) fn remove(&self, directory: &LockPath) {
        self.0.lock().remove(directory);
    }
}
