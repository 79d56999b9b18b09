//! Runs the sources of the library, locks and client, on simulated machines against simulated servers. A seed
//! determines the whole schedule, and a monitor observes all events.

// The manifest renames this crate, because features that are set for the real crate must not apply to it.
extern crate simulated_zoolock as zoolock;

mod client;
mod coverage;
mod describe;
mod histories;
mod monitor;
mod network;
#[allow(missing_docs, reason = "the variants of plans say what they are")]
pub mod plan;
mod raw;
mod recording;
mod shrink;
mod world;

pub use coverage::{ENOUGH, gaps, named};
pub use describe::{operations, request as in_words};
pub use histories::{lock, locks};
pub use monitor::{DATA, READ, SECOND, identity, limit};
pub use plan::Plan;
pub use recording::{Act, Moment, record, unfit};
pub use shrink::shrink;
pub use world::{Outcome, run};
pub use zookeeper_testing::ReadRules;
pub use zookeeper_testing::ensemble::{ChangeKind, Committed, Outgoing};
