//! Checks histories of locks: what the locks promise against what happened. The torture run uses it with real servers,
//! processes and wall clocks, and the simulator uses it in memory with exact times. It does not depend on zoolock, and
//! therefore does not share its bugs.
//!
//! There are two checkers. The first, [`check`], examines times: exclusion, losses, guarded writes, deadlines. The
//! second, [`Linear`], passes the same history to stateright's `LinearizabilityTester`, which also shows whether tokens
//! increase, and therefore whether locks are granted in order.
//!
//! # How to use it
//!
//! List the locks; events refer to a lock by its index. Add events to a [`History`] as they happen, in any order across
//! threads, because each event contains its times. At the end, call both checkers.
//!
//! | what happens | what is reported |
//! |---|---|
//! | a call is made, and returns | [`History::began`], [`History::called`]; with [`Missed`] if it came back without the lock |
//! | a lock is granted | [`History::granted`]; only the first entry of re-entries |
//! | `is_held()` becomes false | [`History::lost`] |
//! | the last unlock begins, and returns | [`History::left`], [`History::unlocked`] |
//! | a guarded write returns; the servers have one | [`History::committed`]; [`History::carried_out`] |
//! | a client dies | [`History::died`] |
//! | an operator deletes a node, a session is ended from outside | [`History::doubts`]: the client cannot know in time |
//! | all is over, and open calls are to be checked | [`History::over`] |
//!
//! # Times
//!
//! Take the time of a grant after the call has returned, and that of an unlock before the call, because the lock
//! promises the time in between. Events at the same instant may have happened in any order, so give events with a known
//! order different instants if the clock allows it.

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
