//! Tests against real ZooKeeper servers, a file a subject.

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
mod keeping;
mod lock;
mod moving;
mod multi;
mod past_the_end;
mod programs;
mod reentrant;
mod releasing;
mod requests;
mod revocation;
mod rwlock;
mod schedules;
mod semaphore;
mod threads;
mod util;
mod waiting;
