//! The state that all users of one client share: requests, nodes, holds, the in-process queues of
//! locks, and the client's state. This layer handles the names and directories of nodes, leases and
//! grants. Of the queues on the servers, it only tracks whether a directory has other nodes, and
//! not which contender waits for which.

mod directories;
mod events;
mod facts;
mod guarded;
mod holds;
mod later;
mod levels;
mod local;
mod nodes;
mod own;
mod registrar;
mod registry;
mod releasing;
mod requests;
mod shared;
mod table;

pub(crate) use directories::{creations, deletions};
pub use events::{ClientState, Stats, Subscription};
pub(crate) use facts::{Facts, Node};
pub(crate) use guarded::{What, Write, commit};
pub(crate) use holds::Holds;
pub(crate) use levels::{Handed, Level, Replaceable};
pub(crate) use local::{Exit, Refused, Turn};
pub(crate) use nodes::Grant;
pub use nodes::HoldState;
pub(crate) use own::Place;
pub(crate) use registrar::Registrar;
pub(crate) use releasing::{release, release_to};
pub(crate) use requests::{Failure, Requests, is_outcome_unknown};
pub(crate) use shared::Inner;
pub(crate) use table::{Key, Unanswered};
