//! Malicious servers. A client survives them, reports the problem, and continues at a good one.

mod answers;
mod attacked;
mod bytes;
mod handshakes;
mod logging;
mod mutated;
mod silence;
