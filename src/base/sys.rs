//! Time, threads and sockets. They go through the client's abstraction layer over the system, so
//! that a simulation can replace them.

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
