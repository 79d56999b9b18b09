//! Locks of a client with SASL and TLS, and settings from the environment and a file. Their secrets
//! must never appear anywhere.

mod locks;
mod secrets;
mod settings;
