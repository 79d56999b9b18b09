//! What every user may rely on, of every kind of lock, on a server that is well: a file a subject.

mod below;
mod connecting;
mod contenders;
mod counting;
mod curator;
mod ephemeral;
mod every;
mod guarding;
mod handoffs;
mod in_process;
mod keeping;
mod leadership;
mod multi;
mod observing;
mod revocation;
mod rwlock;
mod semaphore;
mod verifying;
