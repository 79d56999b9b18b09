//! Tests against real ZooKeeper servers, a file a subject.

mod bytes;
#[cfg(feature = "tls")]
mod tls;
