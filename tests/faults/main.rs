//! What networks, servers and operators do to locks that are held or waited for: one server behind proxies.

mod client;
mod directories;
mod every;
mod garbled;
mod late;
mod leadership;
mod places;
mod pressed;
mod reading;
mod schedules;
mod semaphore;
mod turns;
mod waiting;
