//! For those who come from another library: how the names map, and what is different here. Nothing
//! but documentation.
//!
//! - [Curator](from_curator), for Java: the same nodes, so that both can take part in one lock.
//! - [kazoo](from_kazoo), for Python: what it calls alike, and what it takes to share a lock.
//! - [parking_lot](from_parking_lot), for threads of one process: what a lock cannot be any more when
//!   its other users are on other machines.

// What the pages link to by name, since those who read them as files see no definitions of links.
#[cfg(doc)]
use crate::{
    Client, ClientBuilder, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Error, Guard, Hold, LockOptions, MultiLock, Permits,
    ReentrantGuard,
};

#[doc = include_str!("guide/from_curator.md")]
pub mod from_curator {}

#[doc = include_str!("guide/from_kazoo.md")]
pub mod from_kazoo {}

#[doc = include_str!("guide/from_parking_lot.md")]
pub mod from_parking_lot {}
