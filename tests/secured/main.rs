//! Locks of a client that connects with SASL and TLS, with settings from the environment and a file. None of its
//! secrets may ever be printed.

mod locks;
mod secrets;
mod settings;
