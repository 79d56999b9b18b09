//! An exhaustive check of the library's own pure code, in every possible order of requests, answers, broken and resumed
//! connections, and users' calls, within small bounds:
//! - `table.rs` runs `src/session/table.rs`: which nodes a client may have on the servers, and whether all of them are
//!   deleted in the end. Random histories go beyond the bounds;
//! - `opens.rs` runs `src/base/stay.rs`: when the deletion of the node ahead proves that a waiter is first, so that it
//!   is granted without another list. Sessions of holders do not expire there: a hold ends earlier, with its lease.
//!
//! The simulation checks everything else, on the real code: who waits for whom, leases, and what happens to creates,
//! deletions and watches when a connection breaks.
//!
//! With all rules, the models are sound (`sound.rs`). Breaking each rule shows that the rule is needed (`broken.rs`).
//!
//! These assumptions are not checked here:
//! - ZooKeeper applies a session's creates and deletes once, numbers the creates of a directory in the order in which
//!   they are applied, and never shows a session an older state than before;
//! - it sends a session's events and answers in one order. When watches are set again, the missed events precede every
//!   later answer. It does not send an event for a node that is unreadable at that time, which `opens.rs` checks;
//! - a create in flight on a broken connection is applied within a time T after the connection broke, or never, and a
//!   server that is queried after that shows it;
//! - no one else deletes a client's nodes, except the operator in `opens.rs`, and directories are only deleted when
//!   empty.
//!
//! Left out, because a hold may begin or end without them: kinds of locks other than the exclusive one (`opens.rs` has
//! reads and writes), the in-process queue, and sequence numbers that overflow.
//!
//! The bounds are small by default, for unoptimised builds. `ZOOLOCK_MODEL=large` selects the large ones:
//! two million states, in a few seconds with `--release`:
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

/// A stand-in for the module with which that code reports rare paths.
mod base {
    pub(crate) mod sys {
        pub(crate) fn reached(_: &str) {}
        pub(crate) fn reached_if(is: bool, _: &str) -> bool {
            is
        }
    }
}
