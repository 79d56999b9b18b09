//! Servers that mean no good: a client survives them, says what was wrong with them, and goes on at
//! a good one. Here the servers are made up; elsewhere they never are.

mod answers;
mod attacked;
mod bytes;
mod door;
mod handshakes;
mod logging;
mod settings;
mod silence;
