//! Conclusions that save a request. Each shortcut is a pure table that answers one question; it sends
//! nothing and reads no clock.
//!
//! | question | table |
//! |---|---|
//! | Is this event my grant? | [`expected`] |
//! | May I read the nodes of this directory? | [`readable`] |
//!
//! Each file states what its conclusion rests on, and who could break it. Without shortcuts, every
//! grant follows a list, and every wait a read. The simulation and the tests run with them and without.

mod expected;
mod readable;

pub(crate) use expected::{Expected, Heard, News, Reaction};
pub(crate) use readable::Readable;

use crate::sys;

/// Returns whether shortcuts are taken. `--cfg zoolock_without_shortcuts` switches all of them off.
pub(crate) fn are_on() -> bool {
    sys::shortcuts()
}
