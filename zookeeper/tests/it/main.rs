//! Tests against real ZooKeeper servers. Each file covers one topic.

mod callbacks;
mod dialing;
mod ending;
mod hostile;
mod operations;
mod resuming;
#[cfg(feature = "sasl")]
mod sasl;
#[cfg(feature = "tls")]
mod tls;
mod util;
mod watches;
