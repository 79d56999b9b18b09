//! The tools of the interoperability tests. In these, this library and other implementations, in separate processes,
//! acquire the same lock on the same ZooKeeper.
//!
//! - [`Implementation`]: another implementation, and whether its tools are installed; a test whose tools are missing
//!   reports that and passes, or fails if `ZOOLOCK_INTEROP` is `required`.
//! - [`Peer`]: a process of an implementation, controlled by lines on its standard input and output.
//! - [`Monitor`]: detects holders that hold the lock at the same time, through the file system and without ZooKeeper.
//! - [`Stage`]: a path, a monitor, and queries to the server. The test always starts this server itself, because it
//!   needs the server's list of watches.
//! - [`scenarios`]: the tests for every implementation with such a lock.

mod built;
mod implementation;
mod monitor;
mod peer;
pub mod scenarios;
mod stage;

pub use common::{SOON, Task};
pub use implementation::Implementation;
pub use monitor::{Kind, Monitor, Stay, Visit, visit};
pub use peer::{Peer, read_lines};
pub use stage::{Stage, client};
