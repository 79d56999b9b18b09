//! The command `zoolock`, run as people run it: real processes, real terminals, a real server.

mod codes;
mod controls;
mod counter;
mod first;
mod group;
mod helps;
mod leading;
mod looks;
mod loss;
mod notifying;
mod running;
mod secrets;
mod stalled;
mod stops;
mod util;
mod waiting;
