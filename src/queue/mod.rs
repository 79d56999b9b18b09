//! From a call to a grant, over connections and sessions. Queueing calls run one loop, and a
//! [`Recipe`] decides which nodes are granted and which to wait for. The single node has a
//! separate, small loop.

mod attempt;
mod making;
mod permits;
mod rule;
mod single;
mod waiting;

use std::sync::Arc;

use crate::base::error::Result;
use crate::session::{Grant, Replaceable};
pub(crate) use attempt::Attempt;
pub(crate) use permits::{Limit, PermitRequest};
pub(crate) use rule::Recipe;

/// Takes what the recipe says, or the single node. The call replaces the node `replaceable`, which
/// the previous thread has released.
pub(crate) fn acquire(
    attempt: Attempt<'_>,
    recipe: Recipe<'_>,
    replaceable: Option<Replaceable>,
) -> Result<Option<Arc<Grant>>> {
    match attempt.facts.kind.is_single_node() {
        true => single::acquire(attempt),
        false => waiting::acquire(attempt, recipe, replaceable),
    }
}
