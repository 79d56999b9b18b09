//! Checks histories of locks: compares what the locks promise with what happened. The torture run uses it for real
//! servers, processes and wall clocks, and the simulator for clients in memory with exact times. It does not depend on
//! zoolock, and therefore does not share its bugs.
//!
//! There are two checkers. The first, [`check`], examines times: exclusion, losses, guarded writes, deadlines. The
//! second, [`Linear`], passes the same history to stateright's `LinearizabilityTester`. It also shows whether tokens
//! increase, and therefore whether locks are granted in order.
//!
//! # How to use it
//!
//! List the locks; events refer to a lock by its index. Add each event to a [`History`] when it happens. Events of
//! different threads may be added in any order, because each one contains its times. At the end, run both checkers.
//!
//! | what happens | what is reported |
//! |---|---|
//! | a call is made, and returns | [`History::began`], [`History::called`]; with [`Missed`] if it returns without the lock |
//! | a lock is granted | [`History::granted`]; for re-entries, only the first one |
//! | `is_held()` becomes false | [`History::lost`] |
//! | the last unlock begins, and returns | [`History::left`], [`History::unlocked`] |
//! | a guarded write returns; servers have applied it | [`History::committed`]; [`History::carried_out`] |
//! | a client dies | [`History::died`] |
//! | an operator deletes a node, a session is ended from outside | [`History::doubts`]: the client cannot know in time |
//! | the run ends, and open calls should be checked | [`History::over`] |
//!
//! # Times
//!
//! Take the time of a grant after its call has returned, and the time of an unlock before its call, because the lock
//! makes its promise for the time in between. Events at one instant count as unordered, so give events whose order is
//! known different instants if the clock allows it.

mod checks;
mod event;
mod history;
mod linear;
mod lock;
#[cfg(test)]
mod notation;
mod operations;
mod rules;
mod time;

pub use checks::{Findings, Guarded, check};
pub use event::{
    Answer, Call, Carried, Commit, Doubt, Grant, HoldId, Loss, Missed, Overtaken, Unlocked,
    WorkerId,
};
pub use history::{History, OpenCall, Record};
pub use linear::{Linear, Linearized};
pub use lock::{Lock, LockIndex, Mode, Use};
pub use rules::{Margins, Outage, Rules};
pub use time::{Nanos, after, difference, millis};
