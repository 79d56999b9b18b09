//! Locks of a client that connects with TLS and SASL, with settings from the environment and from a file. Its secrets
//! must never be printed.

mod locks;
mod secrets;
mod settings;
