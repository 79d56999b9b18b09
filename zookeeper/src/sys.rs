//! The abstraction layer over the operating system: time, threads, contended mutexes, waits, sockets,
//! host names and randomness. The rest of this crate and `zoolock` use these only through this module,
//! so that a simulation can replace the operating system and decide everything by a seed. This module
//! does not depend on others.
//!
//! The items have the names and the meaning of `std`, `parking_lot` and `crossbeam-channel`.
//! Without `--cfg zoolock_simulation` they are the same items.

#[cfg(not(zoolock_simulation))]
mod bell;
#[cfg(not(zoolock_simulation))]
mod os;
#[cfg(not(zoolock_simulation))]
mod stream;

#[cfg(not(zoolock_simulation))]
pub use os::*;

#[cfg(zoolock_simulation)]
pub use kernel::*;
