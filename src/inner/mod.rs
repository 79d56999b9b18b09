//! What all users of one client share: requests, holds, deletions, and the client's state. It knows
//! nodes by their names and directories, leases and grants. Of queues it knows whether a directory
//! has other nodes, not who waits for whom.

mod claim;
mod deletions;
mod directories;
mod events;
mod failure;
mod guarded;
mod holds;
mod nodes;
mod orphans;
mod quota;
mod registry;
mod releasing;
mod requests;
mod shared;
mod timer;
mod watching;

pub(crate) use claim::{Claim, Node};
pub(crate) use directories::make_directories;
pub use events::{ClientState, ConnectionEvent, Stats, Subscription};
pub(crate) use failure::{Failure, is_outcome_unknown};
pub(crate) use guarded::{Guarding, What, Write};
pub(crate) use holds::Holds;
pub use nodes::HoldState;
pub(crate) use nodes::{Grant, Nodes};
pub(crate) use orphans::{Making, Orphan, Orphans};
pub(crate) use quota::Charge;
pub(crate) use releasing::Replaceable;
pub(crate) use requests::{Requests, Waiting};
pub(crate) use shared::Inner;
