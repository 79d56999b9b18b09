//! Many at once, with a witness that does not trust the lock.

mod contenders;
mod cycles;
mod keeping;
mod rwlock;
