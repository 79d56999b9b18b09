//! The command `zoolock`, run as people run it: real processes, real terminals, a real server.

mod codes;
mod counter;
mod group;
mod looks;
mod loss;
mod running;
mod stops;
mod util;
mod waiting;
