//! Ends the sessions of processes that have died: from a thread or a daemon that listens for them
//! (`listener`), to which a client has a `line`, or by whoever has a client's `registration`.

#[cfg(not(zoolock_simulation))]
mod line;
#[cfg(not(zoolock_simulation))]
mod listener;
mod registration;

#[cfg(not(zoolock_simulation))]
pub use listener::Reaper;
pub use registration::Registration;
