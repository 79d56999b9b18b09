//! Tests against real ZooKeeper servers, a file a subject.

mod util;

mod bad_input;
mod client;
mod creating;
mod ensemble;
mod faults;
mod holding;
mod lock;
mod moving;
mod multi;
mod programs;
mod reentrant;
mod releasing;
mod requests;
mod threads;
mod waiting;
