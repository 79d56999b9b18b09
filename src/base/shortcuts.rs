//! Conclusions that save a request: the end of the only node ahead is a grant (`stay`), the nodes of
//! a directory may be read and a node that was created with its directory is alone
//! (`session/directories`), and the next thread may replace a released node in one transaction.
//! Without shortcuts, every grant in a queue follows a list, except hand-offs, and every watch of a
//! node ahead a read. The simulation and the tests run with them and without.

use crate::base::sys;

/// Returns whether shortcuts are taken. `--cfg zoolock_without_shortcuts` switches all of them off.
pub(crate) fn are_on() -> bool {
    sys::shortcuts()
}
