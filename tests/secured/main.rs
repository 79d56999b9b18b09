//! Locks of a client that comes by SASL and TLS, with settings of the environment and of a file; and what
//! may never be seen of them.

mod locks;
mod secrets;
mod settings;
