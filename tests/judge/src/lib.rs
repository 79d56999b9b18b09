//! Judges histories of locks. It depends on nothing of zoolock, so that a bug there is no bug here.

// As the integration tests and the bench name it, which share `made_up`.
#[cfg(test)]
extern crate self as zoolock_judge;

mod checks;
mod event;
mod history;
mod linear;
mod lock;
#[cfg(test)]
#[path = "../tests/made_up/mod.rs"]
mod made_up;
mod operations;
mod rules;
mod time;

pub use checks::{Findings, Guarded, Judge, Leading, Tally};
pub use event::{
    Act, Answer, Call, Carried, Commit, Doubt, Fault, Grant, HoldId, InFlight, Incarnation, Loss,
    Missed, Nap, Overtaken, QueueSnapshot, Unlocked, WorkerId, Write,
};
pub use history::{History, OpenCall, Record};
pub use linear::{Linear, Linearized};
pub use lock::{Kind, Lock, LockIndex, Mode, Use};
pub use rules::{Margins, Outage, Rules};
pub use time::{Nanos, after, difference, millis};
