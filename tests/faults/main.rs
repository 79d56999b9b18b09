//! Faults of networks, servers and operators while a lock is held or waited for, with one server
//! and proxies in front of it.

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
