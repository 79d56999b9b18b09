//! Many clients at once, and long runs.

mod contenders;
mod cycles;
mod holding;
mod leadership;
mod leftovers;
