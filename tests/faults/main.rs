//! What networks, servers and operators do to a lock while it is held or waited for: one server, and
//! proxies before it.

mod attacked;
mod background;
mod client;
mod directories;
mod every;
mod garbled;
mod joining;
mod places;
mod pressed;
mod releasing;
mod rwlock;
mod schedules;
mod semaphore;
mod waiting;
