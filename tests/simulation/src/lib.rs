//! Runs the library's own sources, locks and client, on simulated machines against simulated servers. A seed decides
//! every schedule, and a witness sees everything.

// The manifest renames this crate, so that features meant for the real one are not turned on here.
extern crate simulated_zoolock as zoolock;

mod client;
mod coverage;
mod histories;
mod network;
#[allow(missing_docs, reason = "the variants of plans say what they are")]
pub mod plan;
mod raw;
mod recording;
mod shrink;
mod story;
mod witness;
mod world;

pub use coverage::{ENOUGH, gaps, named};
pub use histories::{lock, locks};
pub use plan::Plan;
pub use recording::{Act, Moment, record, unfit};
pub use shrink::shrink;
pub use story::{operations, request as in_words};
pub use witness::{DATA, READ, SECOND, identity, limit};
pub use world::{Outcome, run};
pub use zookeeper_testing::ReadRules;
pub use zookeeper_testing::ensemble::{ChangeKind, Committed, Outgoing};
