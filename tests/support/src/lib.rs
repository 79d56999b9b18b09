//! Real ZooKeeper servers, an independent observer and a fault-injecting proxy for tests.
//!
//! - [`Server`]: a ZooKeeper server of its own in a temporary directory, on a free loopback
//!   port; it never outlives the process that started it.
//! - [`CountingServer`]: a server whose sequence numbers can be set to their end.
//! - [`shared_server`], [`connect_string`], [`fresh_path`]: one server for a whole test binary.
//! - [`Probe`]: a small blocking client with wire code of its own, to look at what is really
//!   on the server.
//! - [`Ensemble`]: several servers that elect a leader, of which each can be stopped, killed,
//!   paused and cut off from the others.
//! - [`FaultProxy`]: a TCP proxy that understands ZooKeeper frames and can cut, silence, delay,
//!   drop and hold them, and end the sessions that were opened through it.
//! - [`crowd`]: a contended run at a lock of any implementation, and a witness.
//! - [`wait_until`]: waits for a condition with a deadline.
//!
//! # Examples
//!
//! ```no_run
//! use zoolock_test_support::{FaultProxy, Op, Probe, Server, Then};
//!
//! # fn main() -> std::io::Result<()> {
//! let server = Server::start()?;
//! let proxy = FaultProxy::start(server.address())?;
//! let lost = proxy.drop_answer(Op::Create, 1, Then::Cut);
//!
//! let client = Probe::connect(proxy.address())?;
//! assert!(client.create("/made", b"", false, false).is_err());
//! assert!(lost.fired());
//! assert!(Probe::connect(server.address())?.exists("/made")?);
//! # Ok(())
//! # }
//! ```

mod counting;
pub mod crowd;
mod ensemble;
mod port;
mod probe;
mod proxy;
mod server;
mod shared;
mod wait;

pub use counting::CountingServer;
pub use ensemble::{Ensemble, EnsembleBuilder};
pub use probe::{OPEN_ACL, Probe, Stat, error_code};
pub use proxy::{Direction, FaultProxy, Hold, Op, Rule, RuleBuilder, Then};
pub use server::{Server, ServerBuilder};
pub use shared::{connect_string, fresh_path, shared_probe, shared_server};
pub use wait::wait_until;
