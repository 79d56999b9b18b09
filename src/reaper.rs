//! Ends the sessions of processes that have died. A thread or a daemon waits for their death
//! (`listener`); a client registers with it over a Unix socket (`line`). Any program that has a
//! client's `registration` can also end the session.

#[cfg(not(zoolock_simulation))]
mod line;
#[cfg(not(zoolock_simulation))]
mod listener;
mod registration;

#[cfg(not(zoolock_simulation))]
pub use listener::Reaper;
pub use registration::Registration;
