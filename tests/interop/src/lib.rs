//! The tools of the interoperability tests. This library and other implementations, in separate processes, take one
//! lock on the same ZooKeeper.
//!
//! - [`Implementation`]: another implementation, and whether its tools are installed; a test whose
//!   tools are missing says so and passes, or fails when `ZOOLOCK_INTEROP` is `required`.
//! - [`Peer`]: a process of an implementation, driven by lines on its standard input and output.
//! - [`Monitor`]: which holders were inside together, seen through the file system, without
//!   ZooKeeper.
//! - [`Stage`]: a path, a monitor, and looks at the server. The server always belongs to the test,
//!   because it has to show its watches.
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
