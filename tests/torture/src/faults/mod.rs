//! The scripts of the phases. Each leaves everything as it found it.

pub(crate) mod client;
pub(crate) mod network;
pub(crate) mod server;
pub(crate) mod tree;
