//! What every kind of lock promises, whatever networks, servers and operators do.

mod cuts;
mod losing;
mod outages;
