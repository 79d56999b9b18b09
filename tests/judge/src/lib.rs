//! Judges histories of locks: their promises, and what happened. The torture run uses it with real servers,
//! processes and wall clocks, and the simulator in memory with exact times. It does not depend on zoolock, so
//! it shares none of its bugs.
//!
//! There are two judges. The first, [`judge`], looks at times: exclusion, losses, guarded writes, deadlines. The
//! second, [`Linear`], gives the same history to stateright's `LinearizabilityTester`, which also shows whether
//! tokens rise, and so whether locks are granted in their order.
//!
//! # How to use it
//!
//! List the locks. An event names a lock by its index. Feed a [`History`] as things happen, in any
//! order across threads; each event has its own times. Ask both judges at the end.
//!
//! ```
//! use zoolock_judge::*;
//!
//! let locks = vec![Lock::new("/a", Use::Exclusive), Lock::new("/b", Use::Semaphore(3))];
//! let mut history = History::new(0);
//!
//! let worker = WorkerId { process: 0, thread: 2 };
//! let hold = HoldId { by: worker, number: 1 };
//! let (op, path, mode) = ("lock", 0, Mode::Exclusive);
//! // The call is made, and returns with the lock.
//! history.began(
//!     worker,
//!     OpenCall { op: op.into(), path, mode: Some(mode), started: 10, deadline: None },
//! );
//! history.called(
//!     worker,
//!     Call { op: op.into(), path, started: 10, deadline: None, ended: 20, missed: None },
//! );
//! history.granted(Grant {
//!     hold,
//!     under: None,
//!     path,
//!     mode,
//!     op: op.into(),
//!     nodes: vec!["lock-0000000000".into()],
//!     token: Some(7),
//!     started: 10,
//!     at: 20,
//!     witness_free: true,
//! });
//! // It is unlocked.
//! history.left(hold, 30);
//! history.unlocked(hold, Some(35), Unlocked::Fine);
//! history.over = Some(40);
//!
//! let rules = Rules { outage: Outage::Long, ..Rules::STRICT };
//! let found = judge(&locks, &Margins::EXACT, &rules, &history);
//! assert!(found.violations.is_empty());
//! let found = Linear::new(&locks).check(&history);
//! assert!(found.violations.is_empty());
//! ```
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
//! | all is over, and open calls are to be judged | [`History::over`] |
//!
//! # Times
//!
//! Take the time of a grant after the call has returned, and that of an unlock before the call: the
//! lock promises the time between. Events at one instant may have happened in any order, so give
//! ordered events different instants if the clock allows it.

mod checks;
mod event;
mod history;
mod linear;
mod lock;
mod operations;
mod rules;
#[cfg(test)]
mod story;
mod time;

pub use checks::{Findings, Guarded, judge};
pub use event::{
    Answer, Call, Carried, Commit, Doubt, Grant, HoldId, Loss, Missed, Overtaken, Unlocked,
    WorkerId,
};
pub use history::{History, OpenCall, Record};
pub use linear::{Linear, Linearized};
pub use lock::{Lock, LockIndex, Mode, Use};
pub use rules::{Margins, Outage, Rules};
pub use time::{Nanos, after, difference, millis};
