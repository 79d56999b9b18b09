//! What networks, servers and operators do to a lock while it is held or waited for: one server, and
//! proxies before it.

mod attacked;
mod background;
mod client;
mod directories;
mod ephemeral;
mod every;
mod garbled;
mod holding;
mod interrupted;
mod joining;
mod places;
mod pressed;
mod processes;
mod releasing;
mod restarts;
mod resuming;
mod rwlock;
mod schedules;
mod semaphore;
mod tokens;
mod waiting;
