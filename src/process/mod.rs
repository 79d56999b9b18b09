//! A lock object: the threads of this process first, the nodes on the servers second, released in
//! reverse order. The first level is that of all objects of the client at this path.

mod raw;
mod readers;
mod site;
mod two_level;

pub(crate) use raw::RawLock;
pub(crate) use readers::Readers;
pub(crate) use site::Site;
pub(crate) use two_level::TwoLevel;
