//! An exhaustive check of the library's own pure code, in every possible order of requests, answers, cuts,
//! resumes and users' calls, within small bounds:
//! - `table.rs` runs `src/session/table.rs`: which nodes a client may have on the servers, and that all of them
//!   are deleted in the end. Random histories go beyond the bounds;
//! - `opens.rs` runs `src/base/stay.rs`: when the end of the node ahead proves that a waiter is first, so that it is
//!   granted without another list. No session expires there: a hold ends with its lease before.
//!
//! The simulation checks the rest, on the code itself: who waits for whom, leases, and the fate of creates,
//! deletes and watches when a connection breaks.
//!
//! With all rules they are sound (`sound.rs`). Breaking each rule shows that it is needed (`broken.rs`).
//!
//! Assumed here, and not checked:
//! - ZooKeeper applies a session's creates and deletes once, numbers the creates of a directory in
//!   the order in which they are applied, and shows a session no older state than it saw before;
//! - it sends a session's events and answers in one order. When watches are set again, the missed events
//!   precede every later answer. It sends no event of a node that is unreadable by then: `opens.rs` checks
//!   that;
//! - a create under way on a broken connection is applied within a T of the cut or never, and a server asked
//!   after that shows it;
//! - nobody else deletes a client's nodes, except the operator in `opens.rs`, and directories are only
//!   deleted when empty.
//!
//! Left out, since a hold may begin or end without them: kinds of locks other than the exclusive one
//! (`opens.rs` has reads and writes), the local level, and overflowed sequences.
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

/// The code of the library.
#[path = "../../src/session/table.rs"]
mod nodes;
#[path = "../../src/base/stay.rs"]
mod stay;

/// What that code says of rare paths.
mod base {
    pub(crate) mod sys {
        pub(crate) fn reached(_: &str) {}
        pub(crate) fn reached_if(is: bool, _: &str) -> bool {
            is
        }
    }
}
