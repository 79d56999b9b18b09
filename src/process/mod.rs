//! A lock object has two levels. A call first waits in the in-process queue, behind the other
//! threads of this process, and then in the ZooKeeper queue, with its nodes on the servers. It
//! leaves the two queues in reverse order. All objects of a client at one path share one in-process
//! queue.

mod raw;
mod readers;
mod site;
mod two_level;

pub(crate) use raw::RawLock;
pub(crate) use readers::Readers;
pub(crate) use site::Site;
pub(crate) use two_level::TwoLevel;
