//! What every user may rely on, of every kind of lock, on a server that is well: a file a subject.

mod below;
mod connecting;
mod contenders;
mod curator;
mod ephemeral;
mod every;
mod handoffs;
mod keeping;
mod multi;
mod observing;
mod revocation;
mod rwlock;
mod semaphore;
mod verifying;
