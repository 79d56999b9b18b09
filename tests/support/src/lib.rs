//! Real ZooKeeper servers, an independent client for checks, and a proxy that injects faults, for tests of code that
//! uses ZooKeeper with any client.
//!
//! - [`Server`]: a private ZooKeeper server in a temporary directory, on a free loopback port. It never outlives the
//!   process that started it. It can listen for TLS, and authenticate users with SASL.
//! - [`CountingServer`]: a server whose sequence numbers can be set, for example to the largest one.
//! - [`shared_server`], [`connect_string`], [`fresh_path`]: one server for a whole test binary.
//! - [`Probe`]: a small blocking client with its own wire code, which shows the actual state of the server.
//! - [`Ensemble`]: several servers that elect a leader. Each can be stopped, killed, paused and cut off.
//! - [`FaultProxy`]: a TCP proxy that understands ZooKeeper frames and can cut, silence, delay,
//!   drop and hold them, and end the sessions that were opened through it.
//! - [`wait_until`]: waits for a condition with a deadline.
//!
//! # A first test
//!
//! What happens to a lock if its connection breaks or the network falls silent? The locks in this example are those of
//! the crate `zoolock`.
//!
//! ```
//! use std::time::Duration;
//!
//! use zoolock::{Client, DistributedLock, HoldState};
//! use zoolock_test_support::{Direction, FaultProxy, Server, wait_until};
//!
//! const SOON: Duration = Duration::from_secs(30);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let proxy = FaultProxy::start(server.address())?;
//! let client = Client::connect(&proxy.connect_string(), Duration::from_secs(5))?;
//! let lock = DistributedLock::new(&client, "/my-app/leader")?;
//! let guard = lock.acquire()?;
//! let token = guard.fencing_token();
//!
//! // A broken connection: the session is resumed on the next one, and the lock is still held.
//! proxy.cut();
//! wait_until("the session is resumed", SOON, || client.stats().resumed == 1);
//! assert_eq!(guard.state(), HoldState::Held);
//! assert_eq!(guard.fencing_token(), token);
//!
//! // A silent network: the hold is lost, and its holder is notified.
//! proxy.black_hole(Direction::Both);
//! wait_until("the hold is lost", SOON, || !guard.is_held());
//! assert!(guard.release().is_err_and(|error| error.is_lost()));
//!
//! // After the network has recovered, the same objects work again.
//! proxy.restore();
//! lock.acquire()?.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! The proxy can also drop a single answer, so that the client does not know the result:
//!
//! ```
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
//!
//! # Requirements
//!
//! ZooKeeper's jars and a Java runtime are required; see the README. [`CountingServer`] also requires a JDK, such as
//! the package `default-jdk-headless`. If something is missing, the first start fails with an error that names it. A
//! server takes about a second to start.
//!
//! # Environment
//!
//! | variable | value |
//! |---|---|
//! | `ZOOKEEPER_HOME` | an unpacked release from which servers are started, instead of Debian's jars in `/usr/share/java` |
//! | `JAVA_HOME` | the Java runtime to use; by default, `java` from `PATH` |
//! | `ZOOKEEPER_CONNECT` | running servers, for example `zk1:2181,zk2:2181/test`, which [`connect_string`] and [`shared_probe`] use instead of starting a server. A [`Server`] or an [`Ensemble`] that a test starts is not affected |
//! | `ZOOLOCK_INTEROP` | `required`: [`CountingServer::shared`] panics without a JDK, instead of skipping the tests |
//!
//! # Faults
//!
//! | fault | how to cause it |
//! |---|---|
//! | a connection breaks | [`FaultProxy::cut`], [`FaultProxy::reset`] |
//! | no server listens, or one closes each new connection | [`FaultProxy::refuse`], [`FaultProxy::accept_and_close`] |
//! | the network falls silent, in one direction or both | [`FaultProxy::black_hole`] |
//! | the network is slow | [`FaultProxy::delay`] |
//! | one request or answer is lost, late, or torn | [`FaultProxy::on`] |
//! | the session ends | [`FaultProxy::expire_sessions`] |
//! | all faults end | [`FaultProxy::restore`] |
//! | a server stops, crashes, is paused | [`Server::stop`], [`Server::kill`], [`Server::pause`] |
//! | a server returns without its data | [`Server::wipe`] |
//! | a member is cut off, the leader dies | [`Ensemble::cut_off`], [`Ensemble::kill_leader`] |
//! | the sequence numbers are used up | [`CountingServer`] |
//!
//! # Good tests
//!
//! - Share one server among the tests of a binary ([`connect_string`]), and use a separate [`fresh_path`] in each test.
//!   A test that stops or pauses a server starts its own. Proxies are cheap, so start one for each test.
//! - Wait for conditions ([`wait_until`]) instead of sleeping, with a deadline long enough for a busy
//!   machine.
//! - Session timeouts may be from 1 s to 60 s. On a busy machine, short sessions expire without a fault. Use 10 s, or a
//!   second or two if the test waits for the session to expire.
//! - Read nodes with a [`Probe`] that bypasses the proxy, not with the client under test.
//! - Print [`FaultProxy::log`] and [`Server::log_tail`] when a test fails.

mod counting;
mod ensemble;
mod late;
mod port;
mod probe;
mod proxy;
mod server;
mod shared;
mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use counting::CountingServer;
pub use ensemble::{Ensemble, EnsembleBuilder};
pub use late::Late;
pub use probe::{Probe, Stat};
pub use proxy::{Direction, FaultProxy, Hold, Op, Rule, RuleBuilder, Then};
pub use server::{Server, ServerBuilder};
pub use shared::{connect_string, fresh_path, shared_probe, shared_server};
pub use wait::{poll, wait_until};

/// Locks a mutex, even if a thread has panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
