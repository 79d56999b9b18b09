//! Locks of a client that connects by SASL and TLS, with settings from the environment and a file. None of
//! its secrets may ever appear.

mod locks;
mod secrets;
mod settings;
