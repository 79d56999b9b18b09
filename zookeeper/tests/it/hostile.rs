//! Malicious servers. A client survives them, reports the problem, and continues at a good one. Only these
//! tests use artificial servers.

mod answers;
mod attacked;
mod bytes;
mod door;
mod handshakes;
mod logging;
mod mutated;
mod settings;
mod silence;
