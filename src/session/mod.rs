//! One client: its requests, what it holds, and what is to be done about that when time passes or
//! something breaks. It knows nodes, leases and grants, nothing of queues.

mod events;
mod failure;
mod guarded;
mod holding;
mod nodes;
mod orphans;
mod registry;
mod releasing;
mod room;
mod shared;
mod vacancies;

pub use events::{ClientState, ConnectionEvent, Stats};
pub(crate) use failure::{Failure, may_be_done};
pub(crate) use guarded::{What, Write};
pub(crate) use holding::Granted;
pub use nodes::HoldState;
pub(crate) use nodes::{Claim, Grant, Node, Nodes};
pub(crate) use registry::Orphan;
pub(crate) use releasing::Departure;
pub(crate) use room::Room;
pub(crate) use shared::{Session, Waiting};
