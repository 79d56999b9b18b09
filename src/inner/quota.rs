//! The quota of node paths that one client may have on the servers.
//!
//! A call takes a charge before it sends a create. The charge is given back when the servers are
//! known not to have the node: the create was refused, the node was deleted, or its session is over.
//! Until then it goes with the owner of the node: a call, a hold, an orphan, a deletion, or the list
//! of nodes that stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::sys;

/// The most bytes of paths of one client. The transaction that closes its session lists them all,
/// and a server that cannot read it does not start again (ZOOKEEPER-4306). Servers from 3.6 on read
/// as much as `jute.maxbuffer` and `zookeeper.jute.maxbuffer.extrasize` together: 2,097,150 bytes by
/// default, and at least 1,049,599 if only the second is set. Earlier servers do not list the paths.
/// The transaction has a header of 48 bytes. An eighth of a megabyte is a reserve.
const MAX_PATH_BYTES: usize = 896 * 1024;
/// The most bytes that the name of a numbered node adds to its directory's path: `/_c_`, 36
/// characters of id, a marker such as `-__WRIT__`, and eleven for the number.
const NAME_BYTES: usize = 60;
/// The length that stands before each path.
const LENGTH_BYTES: usize = 4;

/// The bytes of paths that a client has taken, of [`MAX_PATH_BYTES`].
#[derive(Debug, Default)]
pub(super) struct Quota(Arc<AtomicUsize>);

impl Quota {
    /// Takes a charge for `count` nodes, from the length of their directory's path and the length of
    /// the lock's path, which is that of a single node.
    pub(super) fn take(&self, directory: usize, lock: usize, count: usize) -> Result<Charge> {
        let each = (directory + NAME_BYTES).max(lock) + LENGTH_BYTES;
        let bytes = each.saturating_mul(count);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= MAX_PATH_BYTES)
        });
        match taken {
            Ok(_) => Ok(Charge { bytes: AtomicUsize::new(bytes), of: Arc::clone(&self.0) }),
            Err(_) => {
                sys::reached("the quota of paths is used up");
                Err(Error::Limit { what: "bytes of node paths of one client", max: MAX_PATH_BYTES })
            }
        }
    }
}

/// A part of a client's quota, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: AtomicUsize,
    of: Arc<AtomicUsize>,
}

impl Charge {
    /// Returns an equal part for each of `count` nodes.
    pub(crate) fn split(self, count: usize) -> impl Iterator<Item = Charge> {
        let each = self.bytes.load(Ordering::Relaxed) / count.max(1);
        (0..count).map(move |_| {
            self.bytes.fetch_sub(each, Ordering::Relaxed);
            self.moved(each)
        })
    }

    /// Takes all of it, for the next owner of the node.
    pub(super) fn take(&self) -> Charge {
        self.moved(self.bytes.swap(0, Ordering::Relaxed))
    }

    /// Gives it back before this is dropped.
    pub(super) fn give_back(&self) {
        drop(self.take());
    }

    fn moved(&self, bytes: usize) -> Charge {
        Charge { bytes: AtomicUsize::new(bytes), of: Arc::clone(&self.of) }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
