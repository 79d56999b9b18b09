//! Directories in which this client has read a node of another one. It may well read the others, so
//! it need not ask before it waits for one.
//!
//! What the conclusion rests on, and who could break it:
//! - *All nodes of a directory may be read*: clients that share a lock need READ on each other's
//!   nodes. A client can break this by taking READ of its node from this one. Then the server sends
//!   no event of it, and a waiter only looks (`Requests::next_look`). From such a look on, the
//!   directory is not known any more, so that the next wait reads first.

use std::collections::HashSet;

use super::are_on;
use crate::path::LockPath;
use crate::sys::Mutex;

/// The most directories that a client knows. If there are more, it begins anew.
const MOST: usize = 1024;

/// Directories whose nodes may be read.
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
