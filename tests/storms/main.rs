//! Many clients at once, and long runs.

mod holding;
mod leftovers;
