//! A lock object: the threads of this process first, the nodes on the servers second, released in
//! reverse order.

mod local;
mod raw;
mod readers;
mod site;
mod two_level;

pub(crate) use raw::RawLock;
pub(crate) use readers::Readers;
pub(crate) use site::Site;
pub(crate) use two_level::TwoLevel;
