//! One client: its requests, what it holds, and what is to be done about that when time passes or
//! something breaks. It knows nodes by their names and directories, leases and grants. Of queues it knows
//! whether anybody else is in a directory, not who waits for whom.

mod events;
mod failure;
mod guarded;
mod holding;
mod nodes;
mod orphans;
mod quota;
mod registry;
mod releasing;
mod shared;
mod vacancies;

pub use events::{ClientState, ConnectionEvent, Stats, Subscription};
pub(crate) use failure::{Failure, may_be_done};
pub(crate) use guarded::{What, Write};
pub(crate) use holding::Granted;
pub use nodes::HoldState;
pub(crate) use nodes::{Claim, Grant, Node, Nodes};
pub(crate) use orphans::{Busy, Orphan};
pub(crate) use quota::Charge;
pub(crate) use releasing::Departure;
pub(crate) use shared::{Session, Waiting};
