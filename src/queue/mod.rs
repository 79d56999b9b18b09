//! Carries a call from its start to the grant, even if connections and sessions end in between. All
//! calls that queue run the same loop. A [`Recipe`] decides which nodes are granted and which nodes
//! to wait for. The single node has a separate, small loop.

mod attempt;
mod making;
mod permits;
mod rule;
mod single;
mod waiting;

pub(crate) use attempt::Attempt;
pub(crate) use permits::{Limit, PermitRequest};
pub(crate) use rule::Recipe;
pub(crate) use single::acquire as acquire_single;
pub(crate) use waiting::acquire;
