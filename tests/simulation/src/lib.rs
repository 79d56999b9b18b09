//! Runs the library's own sources, locks and client, on simulated machines against simulated servers. A seed decides
//! every schedule, and a witness sees everything.

// The manifest renames this crate, so that features meant for the real one are not turned on here.
extern crate simulated_zoolock as zoolock;

mod client;
mod coverage;
mod histories;
mod network;
mod plan;
mod raw;
mod shrink;
mod story;
mod witness;
mod world;

pub use coverage::{ENOUGH, gaps, named};
pub use plan::Plan;
pub use shrink::shrink;
pub use world::{Outcome, run};
