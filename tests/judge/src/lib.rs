//! Judges histories of locks. It depends on nothing of zoolock, so that a bug there is no bug here.

mod checks;
mod event;
mod history;
mod linear;
mod lock;
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
