//! The quota of a client: how many bytes of paths it may have on the servers.
//!
//! A charge is taken before a create is sent. It is given back when the servers are known not to
//! have the node: the create was refused, the node was deleted, or its session is over. Until then
//! the owner of the node has the charge: a call, a hold, a search for a lost create, a deletion, or
//! the list of nodes that stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::sys;

/// The most bytes that the paths of a client's nodes may take. The transaction that closes a
/// session lists all of them, and a server that cannot read this transaction does not start again
/// (ZOOKEEPER-4306). Servers from 3.6 on read `jute.maxbuffer` and
/// `zookeeper.jute.maxbuffer.extrasize` together: 2,097,150 bytes by default, and at least
/// 1,049,599 if only the second is set. Earlier servers do not list the paths. The transaction also
/// has a header of 48 bytes. An eighth of the limit is left as a reserve.
const MAX_PATH_BYTES: usize = 896 * 1024;
/// The most bytes that the name of a numbered node adds to the path of its directory: `/_c_`, 36
/// characters of id, a marker such as `-__WRIT__`, and eleven for the number.
const NAME_BYTES: usize = 60;
/// The length field before each path.
const LENGTH_BYTES: usize = 4;

/// The bytes of paths that a client has taken.
#[derive(Debug, Default)]
pub(super) struct Quota(Arc<AtomicUsize>);

impl Quota {
    /// Takes a charge for `count` nodes. The first length is that of their directory's path, the
    /// second that of a single node's path.
    pub(super) fn take(&self, path: (usize, usize), count: usize) -> Result<Charge> {
        let each = (path.0 + NAME_BYTES).max(path.1) + LENGTH_BYTES;
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

    /// Moves the whole charge to the next owner of the node.
    pub(super) fn hand_over(&self) -> Charge {
        self.moved(self.bytes.swap(0, Ordering::Relaxed))
    }

    /// Gives the charge back early, before the last owner is dropped.
    pub(super) fn give_back(&self) {
        drop(self.hand_over());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_counts_once_wherever_it_goes() {
        let quota = Quota::default();
        let taken = || quota.0.load(Ordering::Relaxed);
        let charge = quota.take((36, 0), 5).unwrap();
        assert_eq!(taken(), 500);
        let mut parts = charge.split(5);
        let first = parts.next().unwrap();
        assert_eq!(taken(), 500);
        drop(parts);
        assert_eq!(taken(), 100, "parts that nobody wants are given back");
        let moved = first.hand_over();
        drop(first);
        assert_eq!(taken(), 100);
        moved.give_back();
        assert_eq!(taken(), 0);
        drop(moved);
        assert_eq!(taken(), 0);
    }
}
