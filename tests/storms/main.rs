//! Many at once, with a witness that does not trust the lock.

mod contenders;
mod cycles;
mod holding;
mod keeping;
mod leadership;
mod leftovers;
mod rwlock;
