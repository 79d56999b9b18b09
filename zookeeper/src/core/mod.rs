//! The protocol without threads, sockets or clocks: requests, bytes and instants go in; bytes,
//! answers, events and the next instant come out. The folder above this one transports them.

pub(crate) mod addresses;
pub(crate) mod clock;
pub(crate) mod connection;
pub(crate) mod frames;
mod gathering;
pub(crate) mod hosts;
mod lease;
pub(crate) mod message;
pub(crate) mod path;
#[cfg(feature = "sasl")]
pub(crate) mod sasl;
pub(crate) mod session;
mod tries;
mod vitals;
pub(crate) mod watches;
pub(crate) mod wire;
