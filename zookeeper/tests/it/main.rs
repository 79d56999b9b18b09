//! Tests against real ZooKeeper servers, a file a subject.

mod bytes;
mod operations;
#[cfg(feature = "tls")]
mod tls;
mod util;
mod watches;
