//! What a lock returns to its users: a hold, the guard that releases it, and the writes that it
//! protects.

pub(crate) mod guard;
pub(crate) mod hold;
pub(crate) mod transaction;
