//! Many contenders at once, and for long.

mod contenders;
mod cycles;
mod holding;
mod leadership;
mod leftovers;
