//! What networks, servers and operators do to a lock while it is held or waited for: one server, and
//! proxies before it.

mod client;
mod directories;
mod downgrade;
mod every;
mod garbled;
mod granting;
mod late;
mod leadership;
mod numbers;
mod places;
mod pressed;
mod schedules;
mod semaphore;
mod turns;
mod useless;
mod waiting;
