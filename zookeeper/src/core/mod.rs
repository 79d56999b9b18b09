//! The protocol without threads, sockets or clocks: requests, bytes and instants go in; bytes,
//! answers, events and the next instant come out. The folder above this one transports them.

pub(crate) mod addresses;
pub(crate) mod clock;
pub(crate) mod connection;
pub(crate) mod frames;
#[cfg(test)]
mod fuzz;
mod gathering;
pub(crate) mod hosts;
mod lease;
pub(crate) mod message;
pub(crate) mod path;
#[cfg(feature = "sasl")]
pub(crate) mod sasl;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "unit tests need less of it"))]
pub(crate) mod server_codec;
pub(crate) mod session;
mod tries;
mod vitals;
pub(crate) mod watches;
pub(crate) mod wire;
