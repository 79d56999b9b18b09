//! An exhaustive check of the lock protocol: every order in which requests, answers, deaths of
//! connections, ends of sessions and users' wishes can come, within small bounds.
//!
//! The model states the protocol as it is meant, apart from the library's code: `queue.rs` is how
//! a seat gets its turn, `moving.rs` how it survives its connection, `connections.rs` when a hold is
//! over and a handle may be closed, `server.rs` what ZooKeeper does. What must be true is in
//! `properties.rs`; that each rule is needed is shown by breaking it, in `broken.rs`.
//!
//! Taken as given, and not checked here:
//! - a session does not expire while the lease runs that its client has certified by its own clock;
//! - ZooKeeper applies a session's creates and deletes once, numbers the creates of a directory in
//!   the order in which they are applied, and shows a connection no older state than it saw before;
//! - an own node is deleted by nobody else.
//!
//! Left out, since a hold may begin, end or move without them: kinds of locks other than the
//! exclusive one, local threads, sequences that have overflowed, and time.
//!
//! The bounds are small by default, for unoptimised builds. `ZOOLOCK_MODEL=large` takes the large
//! ones, some 35 million states, which take some minutes and half a gigabyte:
//!
//! ```text
//! ZOOLOCK_MODEL=large cargo test --release --test model -- --nocapture --test-threads 1
//! ```

mod actions;
mod broken;
mod check;
mod connections;
mod moving;
mod names;
mod properties;
mod queue;
mod rules;
mod server;
mod settling;
mod sightings;
mod sound;
mod world;
