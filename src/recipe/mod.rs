//! The one waiting loop: from a claim to a grant. It knows how nodes are made, listed, watched and
//! given up, over connections and sessions; who is granted, and whom to wait for, is told by a
//! [`Recipe`].

mod permits;
mod place;
mod queue;
mod rule;
mod single;
mod under;
mod waiter;

pub(crate) use permits::{Limit, Permits};
pub(crate) use place::OnPosition;
pub use place::QueuePosition;
pub(crate) use queue::Queue;
pub(crate) use rule::Recipe;
pub(crate) use single::Single;
pub(crate) use under::Under;
pub(crate) use waiter::Want;
