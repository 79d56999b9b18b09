//! Many at once, with a witness that does not trust the lock.

mod contenders;
mod cycles;
mod holding;
mod leadership;
mod leftovers;
