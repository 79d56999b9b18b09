//! How much one client may have on the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The most bytes that the paths of a client's nodes may take in the transaction that closes its session: that
/// lists them all, and a server or a follower that cannot read it does not start again (ZOOKEEPER-4306). From 3.6
/// on they read `jute.maxbuffer` and `zookeeper.jute.maxbuffer.extrasize` together: 2,097,150 bytes unless set,
/// and 1,049,599 at the least if only the second is; those before do not list them. A header of 48 bytes is
/// beside them. The eighth that is left is for nodes that are not counted: those whose deletion, or whose create
/// without an answer, is still under way, 1,500 at paths of 20 bytes.
const MAX_PATH_BYTES: usize = 896 * 1024;
/// What the name of a node with a number adds to its directory's path at most: `/_c_`, 36 characters of id, a
/// marker such as `-__WRIT__`, and eleven for the number.
const NAME_BYTES: usize = 60;
/// Before each path stands its length.
const LENGTH_BYTES: usize = 4;

/// A part of what a client may have in node paths, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Room {
    /// For so many nodes, of what is left, whose directory's path or whose own has so many bytes.
    pub(super) fn take(of: &Arc<AtomicUsize>, path: (usize, usize), count: usize) -> Result<Room> {
        let each = (path.0 + NAME_BYTES).max(path.1) + LENGTH_BYTES;
        let bytes = each.saturating_mul(count);
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
