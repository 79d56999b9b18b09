//! Conclusions that save a request. Each shortcut is a pure table that answers one question; it sends
//! nothing and reads no clock.
//!
//! | question | table |
//! |---|---|
//! | Does the number of my new node prove that the directory holds nothing else? | [`following`] |
//! | Is this event my grant? | [`expected`] |
//! | Is my node alone because its directory is as new as the node? | [`fresh`] |
//! | Is my node alone after it replaced the node of the thread before? | [`replacing`] |
//! | May I read the nodes of this directory? | [`readable`] |
//!
//! Each file states what its conclusion rests on, and who could break it. Without shortcuts, every
//! grant follows a list, and every wait a read. The simulation and the tests run with them and without.

mod expected;
mod following;
mod fresh;
mod readable;
mod replacing;

pub(crate) use expected::{Expected, Heard, News, Reaction};
pub(crate) use following::{Departing, Following};
pub(crate) use fresh::{Fresh, Known};
pub(crate) use readable::Readable;
pub(crate) use replacing::Replacement;

use crate::sys;

/// Returns whether shortcuts are taken. `--cfg zoolock_without_shortcuts` switches all of them off.
pub(crate) fn are_on() -> bool {
    sys::shortcuts()
}
