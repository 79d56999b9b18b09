//! The tools of the interoperability tests, in which this library and other implementations, running in separate
//! processes, acquire the same lock on the same ZooKeeper.
//!
//! - [`Implementation`]: another implementation, and whether it is installed. If it is not, the test prints that and
//!   passes, or fails if `ZOOLOCK_INTEROP` is `required`.
//! - [`Peer`]: a process of an implementation. It reads commands from its standard input, and writes its answers.
//! - [`Monitor`]: detects two holders at the same time. It uses files and not ZooKeeper.
//! - [`Stage`]: a path, a monitor, and queries to the server. The test always starts this server itself, because it
//!   needs the server's list of watches.
//! - [`scenarios`]: the tests that run with every implementation that has a suitable lock.

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
