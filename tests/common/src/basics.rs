//! The old place of what is in [`crate`] now.

pub use crate::{await_nodes, hold_of};
