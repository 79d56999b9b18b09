//! Every schedule from a seed: the library's own sources, locks and client, on simulated machines, against simulated
//! servers, with a witness that sees everything.

// By another name in the manifest, so that nobody turns on its features who means those of the real one.
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
