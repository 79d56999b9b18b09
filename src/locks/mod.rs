//! What users create: locks of all kinds, and leadership.

pub(crate) mod any;
pub(crate) mod handle;
pub(crate) mod leadership;
pub(crate) mod lock;
pub(crate) mod multi;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
