//! What every user may rely on while the servers are healthy. Each file covers one subject.

mod below;
mod connecting;
mod contenders;
mod counting;
mod directories;
mod ephemeral;
mod every;
mod guarding;
mod handoffs;
mod in_process;
mod leadership;
mod multi;
mod revocation;
mod rwlock;
mod semaphore;
mod verifying;
