//! The command `zoolock`, run as people run it: real processes, real terminals, a real server.

mod codes;
mod counter;
mod looks;
mod loss;
mod running;
mod util;
mod waiting;
