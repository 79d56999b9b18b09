//! What the interoperability tests are made of: one lock, taken by this library and by other
//! implementations, which run as processes of their own on the same ZooKeeper.
//!
//! - [`Implementation`]: another implementation, and whether its tools are installed; a test whose
//!   tools are missing says so and passes, or fails when `ZOOLOCK_INTEROP` is `required`.
//! - [`Peer`]: a process of one, driven by lines on its standard input and output.
//! - [`Witness`]: who was inside together, by the file system and without any ZooKeeper.
//! - [`Stage`]: a path and a witness, and what has to be seen on the server.
//!   The server is always the test's own, which shows who watches what.
//! - [`mutex`] and [`read_write`]: what is asked of every implementation with such a lock.

mod built;
mod implementation;
mod lines;
pub mod mutex;
mod peer;
pub mod read_write;
mod stage;
mod witness;

pub use common::{SOON, Task};
pub use implementation::Implementation;
pub use lines::read_lines;
pub use peer::Peer;
pub use stage::{Stage, client};
pub use witness::{Kind, Stay, Visit, Witness, visit};
