//! Tests against real ZooKeeper servers, a file a subject.

mod util;

mod bad_input;
mod client;
mod contenders;
mod creating;
mod curator;
mod directories;
mod ensemble;
mod ephemeral;
mod faults;
mod holding;
mod lock;
mod moving;
mod multi;
mod programs;
mod reentrant;
mod releasing;
mod requests;
mod revocation;
mod rwlock;
mod semaphore;
mod threads;
mod waiting;
