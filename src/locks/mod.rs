//! What users create: the kinds of locks, and leadership over any of them.

pub(crate) mod any;
pub(crate) mod handle;
pub(crate) mod leadership;
pub(crate) mod lock;
pub(crate) mod multi;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
