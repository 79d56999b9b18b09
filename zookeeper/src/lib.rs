//! draft
mod acl;
mod alarm;
mod builder;
mod client;
mod core;
mod dial;
mod error;
mod link;
mod listener;
mod multi;
mod pending;
mod reader;
mod request;
mod shared;
#[cfg(feature = "tls")]
mod tls;
mod types;

pub use acl::{Acl, Permissions};
pub use builder::Builder;
pub use client::{Batch, Lease, LeaseKeeper, ZooKeeper};
pub use error::{Error, ErrorKind, Result};
pub use listener::Listener;
pub use multi::{Op, OpResult};
pub use pending::Pending;
pub use request::Request;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use types::{CreateMode, EventType, SessionEvent, SessionEventKind, Stat, State, WatchedEvent};

/// A [`Listener`] for what happens to nodes, once for each watch that is set with it.
pub type Watcher = Listener<WatchedEvent>;
