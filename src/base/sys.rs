//! Time, threads and sockets. They go through the client's abstraction layer over the system, so
//! that a simulation can replace them.
//!
//! Shortcuts are conclusions that save a request. When the only node ahead ends, the node behind it
//! is granted (`stay`). If one node of a directory can be read, so can the others, and a node that
//! was created with its directory is alone there (`session/directories`). The next thread may
//! replace a released node in one transaction. Without shortcuts, every grant in a queue requires a
//! list, except hand-offs, and every watch of a node ahead requires a read. The simulation and the
//! tests run with shortcuts and without (`--cfg zoolock_without_shortcuts`).

#[cfg(zoolock_simulation)]
use uuid::Builder;
use uuid::Uuid;

pub(crate) use zookeeper::sys::*;

/// Returns an id that is never used again.
#[cfg(not(zoolock_simulation))]
pub(crate) fn new_uuid() -> Uuid {
    Uuid::new_v4()
}

#[cfg(zoolock_simulation)]
pub(crate) fn new_uuid() -> Uuid {
    let bytes = u128::from(random()) << 64 | u128::from(random());
    Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid()
}
