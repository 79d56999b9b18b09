//! Malicious servers. A client survives them, reports them, and continues with a good server.

mod answers;
mod attacked;
mod bytes;
mod handshakes;
mod logging;
mod mutated;
mod silence;
