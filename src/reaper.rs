//! Ends the sessions of processes that have died. The reaper, a thread or a daemon, waits for their
//! death (`listener`); a client registers with the reaper over a Unix socket (`line`). Any other
//! program that has a client's `registration` can also end that client's session.

#[cfg(not(zoolock_simulation))]
mod clients;
#[cfg(not(zoolock_simulation))]
mod line;
#[cfg(not(zoolock_simulation))]
mod listener;
mod registration;

#[cfg(not(zoolock_simulation))]
pub use listener::Reaper;
pub use registration::Registration;
