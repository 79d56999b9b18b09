//! Checks the library's own pure code, exhaustively within small bounds: in every possible order of requests, answers,
//! cut and resumed connections, and calls by users.
//! - `table.rs` runs `src/session/table.rs`: which nodes a client may have on the servers, and whether it deletes all
//!   of them in the end. Random histories exceed the bounds;
//! - `opens.rs` runs `src/base/stay.rs`: when the deletion of the node ahead proves that a waiter is first, so that it
//!   can be granted without another list. Sessions of holders do not expire there: a hold ends earlier, with its lease.
//!
//! The simulation checks everything else, with the real code: who waits for whom, leases, and what happens to creates,
//! deletions and watches when a connection breaks.
//!
//! With all rules, no property fails (`sound.rs`). Breaking any single rule makes a property fail (`broken.rs`).
//!
//! These assumptions are not checked here:
//! - ZooKeeper applies each create and delete of a session once, numbers the creates in a directory in the order in
//!   which they are applied, and never shows a session an older state after a newer one;
//! - it sends the events and answers of a session in one order. When a client sets its watches again, events it missed
//!   arrive before any later answer. Events for a node that is unreadable at that time are not sent (see `opens.rs`);
//! - if a connection breaks while a create is in flight, the create is applied within a time T after that or never, and
//!   a server that is queried after T shows its node;
//! - nobody else deletes a client's nodes, except the operator in `opens.rs`, and only empty directories are deleted.
//!
//! Not modelled, because no hold begins or ends because of them: kinds of locks other than the exclusive one
//! (`opens.rs` has read and write locks), the in-process queue, and the overflow of sequence numbers.
//!
//! The default bounds are small, for unoptimised builds. `ZOOLOCK_MODEL=large` selects large bounds, with two million
//! states, which take a few seconds with `--release`:
//!
//! ```text
//! ZOOLOCK_MODEL=large cargo test --release -p zoolock-model -- --nocapture --test-threads 1
//! ```

mod broken;
mod check;
mod opens;
mod sound;
mod table;

/// The library's code.
#[path = "../../src/session/table.rs"]
mod nodes;
#[path = "../../src/base/stay.rs"]
mod stay;
