//! What users, networks and other programs get wrong.

mod calls;
mod connecting;
mod foreign;
mod paths;
