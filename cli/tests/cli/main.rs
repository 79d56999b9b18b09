//! The command `zoolock`, as users run it: with real processes, terminals and servers.

mod asking;
mod codes;
mod connecting;
mod controls;
mod doctor;
mod first;
mod group;
mod helps;
mod leading;
mod limits;
mod looks;
mod loss;
mod nightly;
mod notifying;
mod reaping;
mod running;
mod secrets;
mod settings;
mod stalled;
mod stops;
mod supervising;
mod util;
mod waiting;
mod walking;
mod watching;
