//! Shortcuts are conclusions that save a request. When the only node ahead ends, the node behind it
//! is granted (`stay`). The nodes of a directory may be read, and a node that was created with its
//! directory is alone (`session/directories`). The next thread may replace a released node in one
//! transaction. Without shortcuts, every grant in a queue requires a list, except hand-offs, and
//! every watch of a node ahead requires a read. The simulation and the tests run with shortcuts and
//! without.

use crate::base::sys;

/// Returns whether shortcuts are used. `--cfg zoolock_without_shortcuts` switches all of them off.
pub(crate) fn are_on() -> bool {
    sys::shortcuts()
}
