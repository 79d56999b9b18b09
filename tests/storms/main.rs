//! Many clients at once, and long runs.

mod cycles;
mod holding;
mod leftovers;
