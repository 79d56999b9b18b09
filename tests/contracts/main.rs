//! The contracts on which users of every kind of lock may rely, on a healthy server. One file for
//! each subject.

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
