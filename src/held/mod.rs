//! What users get from a lock: a hold, the guard that releases it, and the writes that it guards.

pub(crate) mod guard;
pub(crate) mod hold;
pub(crate) mod transaction;
