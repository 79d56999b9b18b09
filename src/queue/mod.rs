//! From a call to a grant, over connections and sessions. Queueing calls run one loop, and a
//! [`Recipe`] decides which nodes are granted and which to wait for. The single node has a
//! separate, small loop.

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
