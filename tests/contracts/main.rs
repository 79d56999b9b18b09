//! What every user may rely on, of every kind of lock, on a server that is well: a file a subject.

mod bad_input;
mod contenders;
mod creating;
mod curator;
mod ephemeral;
mod every;
mod handoffs;
mod keeping;
mod lock;
mod multi;
mod observing;
mod reentrant;
mod requests;
mod revocation;
mod rwlock;
mod semaphore;
mod threads;
mod verifying;
