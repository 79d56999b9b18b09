//! All that is not a function of its inputs: time, threads, mutexes that somebody waits for, waits, sockets, names
//! of hosts and randomness. Everything else in this crate and in `zoolock` asks for them here, so that a simulation
//! can take the place of the operating system and decide all of it by a seed. It knows no other file.
//!
//! What is here has the names and the meaning of `std`, `parking_lot` and `crossbeam-channel`, and without
//! `--cfg zoolock_simulation` it is those.

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
