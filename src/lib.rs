//! Distributed locks on Apache ZooKeeper.
//!
//! # Loss

mod acl;
mod client;
mod clock;
mod error;
mod exclusive;
mod guard;
mod hold;
mod hosts;
mod local;
mod lock;
mod locker;
mod node;
mod path;
mod queue;
mod reentrant;
mod session;
mod signal;
mod two_level;
mod watch;

/// The crate whose `Receiver` is part of this API.
pub use crossbeam_channel;

pub use acl::{Acl, Permissions};
pub use client::{Client, ClientBuilder};
pub use error::{Error, LossReason, Result};
pub use guard::{AnyThread, Guard, ReentrantGuard, ThisThread};
pub use hold::{Hold, HoldState};
pub use lock::DistributedLock;
pub use locker::{Lock, Locker};
pub use reentrant::DistributedReentrantLock;
pub use session::{ClientState, ConnectionEvent, Stats};
