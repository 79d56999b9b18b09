//! How much one client may have on the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The most bytes of node paths a client may have. A session that owns 38,000 nodes, closed, makes
/// one transaction so large that a standalone server cannot restart (ZOOKEEPER-4306).
const MAX_PATH_BYTES: usize = 512 * 1024;
/// What the name of a node with a number adds to its directory's path: `/_c_`, 36 characters of id, a
/// marker and ten digits.
const NAME_BYTES: usize = 64;

/// A part of what a client may have in node paths, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Room {
    /// For so many nodes, of what is left, whose directory's path or whose own has so many bytes.
    pub(super) fn take(of: &Arc<AtomicUsize>, path: (usize, usize), count: usize) -> Result<Room> {
        let bytes = (path.0 + NAME_BYTES).max(path.1).saturating_mul(count);
        let taken = of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= MAX_PATH_BYTES)
        });
        match taken {
            Ok(_) => Ok(Room { bytes, of: Arc::clone(of) }),
            Err(_) => {
                Err(Error::Limit { what: "bytes of node paths of one client", max: MAX_PATH_BYTES })
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
