//! An exhaustive check of the lock protocol: every order in which requests, answers, cuts, resumes,
//! expiries and users' wishes can come, within small bounds.
//!
//! The protocol is stated here as it is meant, apart from the library's code, in four models:
//! - `lease.rs`, with time: while the lease runs that a client has certified by its own clock, its
//!   session has not expired, on whatever server it was resumed;
//! - `queue.rs`, without time: who waits for whom, and what becomes of creates, deletes and watches
//!   when a connection breaks. It takes from the first that no session expires while its lease
//!   runs;
//! - `numbers.rs`, without time: when the number of a node proves that it is alone, so that it is
//!   granted without a list. It takes the same from the first, and from the second what becomes of
//!   late creates;
//! - `opens.rs`, without time: when the end of the node ahead proves that a waiter is first, so that
//!   it is granted without another list. It takes the same from both.
//!
//! With all rules they are sound (`sound.rs`). That each rule is needed is shown by breaking it
//! (`broken.rs`).
//!
//! Taken as given, and not checked here:
//! - the clocks of clients and servers run equally fast (the T/50 of the lease is for that), and a
//!   follower reports to its leader every half tick;
//! - ZooKeeper applies a session's creates and deletes once, numbers the creates of a directory in
//!   the order in which they are applied, and shows a session no older state than it saw before;
//! - it sends a session's events and answers in one order, and when watches are set again, the
//!   events that were missed before any answer behind that; it sends no event of a node that may not be read by
//!   then, which is checked in `opens.rs`, and assumed not to happen to the directory in `numbers.rs`;
//! - a create that was under way on a broken connection is applied within a T of the cut, or never,
//!   and shown by the server that is asked for it after that;
//! - a client's nodes are deleted by nobody else, but for the operator in `opens.rs`, and directories
//!   only while they are empty.
//!
//! Left out, since a hold may begin or end without them: kinds of locks other than the exclusive
//! one, but for reads and writes in `opens.rs`; the local level; and sequences that have overflowed.
//!
//! The bounds are small by default, for unoptimised builds. `ZOOLOCK_MODEL=large` takes the large
//! ones, some ten million states, which take about a minute with `--release`:
//!
//! ```text
//! ZOOLOCK_MODEL=large cargo test --release -p zoolock-model -- --nocapture --test-threads 1
//! ```

mod broken;
mod check;
mod lease;
mod numbers;
mod opens;
mod queue;
mod sound;
