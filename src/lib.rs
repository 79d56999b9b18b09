//! Distributed locks on Apache ZooKeeper, for blocking, threaded programs. They let processes on
//! different machines take turns at work that only one of them, or a limited number, may do at a
//! time.
//!
//! | type | what it does | who may unlock |
//! |---|---|---|
//! | [`DistributedLock`] | fair exclusive lock | any thread |
//! | [`DistributedReentrantLock`] | fair exclusive lock that its owner may lock again | the owning thread |
//! | [`DistributedRwLock`] | fair lock for many readers or one writer | the owning thread |
//! | [`DistributedSemaphore`] | fair semaphore with a limit of permits | any thread |
//! | [`MultiLock`] | several locks together, all or none; no semaphores | as its members |
//! | [`EphemeralLock`] | exclusive lock of one node, without a queue | any thread |
//! | [`Leadership`] | runs a function in one process at a time | itself, after each term |
//!
//! All calls block and may be made from any thread. No async runtime is needed. This page is a
//! tour, in the order in which a program needs these things. The [guide] has pages for
//! [operators](guide::operating), [services](guide::services) and [asynchronous
//! programs](guide::asynchronous), and for users of [Curator](guide::from_curator),
//! [kazoo](guide::from_kazoo) and [`parking_lot`](guide::from_parking_lot).
//!
//! # Connect
//!
//! A [`Client`] is one connection to an ensemble. All its clones and locks share it. It reconnects
//! by itself until it is closed.
//!
//! ```no_run
//! use std::time::Duration;
//! use zoolock::Client;
//!
//! # fn main() -> zoolock::Result<()> {
//! let hosts = "zk1:2181,zk2:2181,zk3:2181/my-app";
//! let client = Client::connect(hosts, Duration::from_secs(10))?;
//! # let _ = client;
//! # Ok(())
//! # }
//! ```
//!
//! The second argument is the *session timeout*. The servers keep the locks of a silent client for
//! that long, so it is also how long others wait for a process that crashed. A longer timeout
//! survives longer network trouble. It should be four server ticks or more, which is 8 s at
//! ZooKeeper's default. The path after the hosts is the *chroot*: all paths of this client are
//! below it. [`Client::builder`] takes credentials and ACLs. [`Client::from_env`] reads all
//! settings from the environment, as the command does.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tls` | `ClientBuilder::tls`: TLS 1.2 and 1.3, by rustls |
//! | `sasl` | `ClientBuilder::sasl`: a user and a password that is not sent (DIGEST-MD5) |
//! | `metrics` | `metrics::MetricsObserver`: an [`observer`] for the crate `metrics` 0.24, and so for Prometheus |
//! | `tracing` | `tracing::TracingObserver`: an [`observer`] that writes events of the crate `tracing` |
//! | `testing` | the module `testing`: a ZooKeeper server in the process of a test |
//!
//! All features are off by default.
//!
//! # Lock
//!
//! A lock is identified by its path. [`DistributedLock`] is the plain one: it is fair among all
//! clients, and any thread may unlock it. Its calls differ in how long they wait, and in whether
//! they return a guard:
//!
//! | call | waits | without a guard | with a guard |
//! |---|---|---|---|
//! | lock | without a limit | `lock()` | `acquire()` |
//! | lock | for a time | `try_lock_for(..)` | `try_acquire_for(..)` |
//! | lock | for a time, or until an instant | `lock_within(..)` | `acquire_within(..)` |
//! | lock | for the servers' answers only | `try_lock()` | `try_acquire()` |
//! | unlock | for the servers' answers only | `unlock()` | `release()`, or drop |
//!
//! ```no_run
//! # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
//! use std::time::Duration;
//! use zoolock::DistributedLock;
//!
//! let lock = DistributedLock::new(client, "/locks/nightly-report")?; // no request yet
//! lock.lock()?;
//! lock.unlock()?;
//! if lock.try_lock_for(Duration::from_secs(5))? {
//!     lock.unlock()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `Ok(false)` means that another contender was ahead. If the client cannot find out whether there
//! is one, because it has no connection, the call returns [`Error::Disconnected`].
//!
//! # Re-entry
//!
//! The hold of a [`DistributedReentrantLock`] belongs to a thread. That thread may lock again
//! without a request, and must unlock as often.
//!
//! Both this lock and the plain one have two levels. The threads that use a path through one client
//! queue inside the process, first come, first served, whichever lock objects they use. Only the
//! thread at the front queues in ZooKeeper, so a turn costs no more than two requests however many
//! threads wait. Release works in the reverse order.
//!
//! A clone of a lock is the same object. Two objects at one path exclude each other: each has its
//! own hold, which the other neither sees nor unlocks. So a request handler may create a lock for
//! each request, at the price of a shared one.
//!
//! ```text
//!  threads of a process         ZooKeeper, one node per process at a time
//!   t1  t2  t3 --> [ turn ] --> /locks/report/_c_..-lock-0000000007   holds
//!                               /locks/report/_c_..-lock-0000000008   next: watches ..07
//!                               /locks/report/_c_..-lock-0000000009   watches ..08
//! ```
//!
//! [`LockOptions`] can save requests where the threads of one process take many turns in a row.
//!
//! # Guards
//!
//! `acquire` and its variants return a guard that releases the lock when it is dropped. It derefs
//! to its [`Hold`]. A drop waits like an unlock, for at most a third of the session timeout, and
//! only logs a failure. [`Guard::release`] returns the failure.
//!
//! | guard | returned by | where it can go |
//! |---|---|---|
//! | [`Guard`] | [`DistributedLock`], [`EphemeralLock`] | owned: into a struct, to any thread |
//! | [`ReentrantGuard`] | [`DistributedReentrantLock`], [`ReadLock`], [`WriteLock`] | owned: into a struct, stays with its thread |
//! | [`Permits`] | [`DistributedSemaphore`] | owned: into a struct, to any thread |
//! | [`Locker`] | [`MultiLock`], and any [`dyn Lock`](Lock) | borrows its lock |
//!
//! ```no_run
//! use zoolock::{DistributedLock, Guard};
//!
//! /// A service that has its lock for as long as it lives.
//! struct Scheduler {
//!     leading: Guard,
//! }
//!
//! impl Scheduler {
//!     fn start(lock: &DistributedLock) -> zoolock::Result<Option<Scheduler>> {
//!         let guard = lock.try_acquire()?;
//!         Ok(guard.map(|leading| Scheduler { leading }))
//!     }
//!
//!     fn may_run(&self) -> bool {
//!         self.leading.is_held()
//!     }
//! }
//! ```
//!
//! [`Lock`] is the trait of all locks except the semaphore, for code that takes any of them. The
//! lock types with one hold have their methods from [`LockHandle`], of which they are aliases.
//!
//! # Deadlines
//!
//! One deadline covers a whole call: the wait for a connection, for the threads of this process and
//! for other clients. `try_lock`, `try_acquire`, `unlock` and the drop of a guard wait for answers
//! only, for at most a third of the session timeout. `lock` and `acquire` wait without a limit.
//! Another thread can end them with [`cancel_waiters`](DistributedLock::cancel_waiters) or
//! [`Client::close`].
//!
//! ```no_run
//! # fn f(lock: &zoolock::DistributedLock) -> zoolock::Result<()> {
//! use std::time::{Duration, Instant};
//!
//! let deadline = Instant::now() + Duration::from_secs(5);
//! match lock.acquire_within(deadline) {
//!     Ok(Some(guard)) => guard.release()?,
//!     Ok(None) => println!("another contender was ahead all the time"),
//!     Err(error) if error.is_retryable() => println!("unknown, try again: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! All calls return [`Error`], whose page says what to do about each. Finding the lock taken is not
//! an error.
//!
//! # Loss
//!
//! A distributed lock can end without being released: the servers give it to the next contender
//! when they have not heard from its holder for a session timeout. A hold is therefore a *lease*.
//! The lease runs from the newest sign of life that the leader of the ensemble certainly received.
//! It ends shortly before the servers can end the session. Heartbeats renew it while the connection
//! lives. With the session timeout T:
//!
//! ```text
//!  newest certified                                          lease   servers may
//!  sign of life                                              ends    end the session
//!  0 ----------- T/4 ----------- T/2 ----------- 3/4 T ------ 0.98 T - T
//!                 '--- "now" ----'
//!                   stays in here while heartbeats are answered
//! ```
//!
//! ```text
//!        connection breaks             lease ends
//! Held -------------------> Suspended ------------> Lost
//!   |  <------------------      |
//!   |    session resumed        |
//!   '--------- unlock ----------'-----------------> Released
//! ```
//!
//! - A *Suspended* hold is still yours; nobody else can have the lock. [`Hold::valid_for`] returns
//!   what is left of the lease. When a connection breaks, that is between about half of T and all
//!   of it. When the network falls silent, the client notices later, and as little as a quarter of
//!   T is left. The client reconnects and resumes its session, usually within milliseconds. The
//!   nodes belong to the session, so the hold is then *Held* again.
//! - A hold is also *Lost* when an operator deletes its node, or when its client is closed. It
//!   stays lost. [`Hold::is_held`] is false from the exact end of the lease on. [`Hold::lost`]
//!   wakes its listeners within 100 ms.
//! - The unlock of a lost hold returns [`Error::Lost`], does not touch the next holder's node, and
//!   makes the object usable again. Until then the object counts as in use, because the code that
//!   lost the lock may still be running. A reentrant lock also refuses re-entry with
//!   [`Error::Lost`].
//! - A session may outlive its lease if all servers are down for long. The holds are then lost, and
//!   their nodes are deleted when a server is back. Waiting calls keep their queue positions.
//! - A broken connection does not end a waiting call. The call keeps its queue position. If the
//!   servers have ended the session, it queues again, behind the contenders that are there by then.
//!
//! A program that cannot stop its work otherwise may end itself at a loss: the example `batch` does
//! so, by an [`observer`] of all holds. Long work should check its hold from time to time, or wait
//! on [`Hold::lost`] together with its other channels:
//!
//! ```no_run
//! # fn step(_part: u32) {}
//! use zoolock::crossbeam_channel::{Receiver, select};
//!
//! fn work(lock: &zoolock::DistributedLock, parts: &Receiver<u32>) -> zoolock::Result<()> {
//!     let guard = lock.acquire()?;
//!     loop {
//!         select! {
//!             recv(guard.lost()) -> _ => break,
//!             recv(parts) -> part => match part {
//!                 // Both may be ready, and `select!` takes any of them.
//!                 Ok(part) if guard.is_held() => step(part),
//!                 _ => break,
//!             },
//!         }
//!     }
//!     guard.release() // Error::Lost if the lock was lost
//! }
//! ```
//!
//! # Fencing
//!
//! No lease stops a process that was paused between its last check and its write. If that matters,
//! the resource has to refuse the late write. It can do so by the [fencing
//! token](Hold::fencing_token), which rises from one hold to the next. This works only if the next
//! holder has shown the resource its higher token *before it read*. So a holder claims, then reads,
//! then writes:
//!
//! ```no_run
//! # struct Table;
//! # impl Table {
//! #     fn claim(&self, _token: u64) -> bool { true }
//! #     fn read(&self, _key: &str) -> u32 { 7 }
//! #     fn write(&self, _key: &str, _value: u32, _token: u64) -> bool { true }
//! # }
//! # fn f(lock: &zoolock::DistributedLock, table: &Table) -> zoolock::Result<()> {
//! let guard = lock.acquire()?;
//! let token = guard.fencing_token();
//! if table.claim(token) { // from now on the table refuses every lower token
//!     let balance = table.read("balance");
//!     table.write("balance", balance + 1, token); // refused if a later holder has claimed
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A database does that with one row for each lock, in a table `fence`:
//!
//! ```sql
//! -- 1. Claim, and commit. If that changes no row, a later holder has claimed: stop.
//! INSERT INTO fence (lock, token) VALUES (:lock, :token)
//!   ON CONFLICT (lock) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token;
//! -- 2. Read.
//! SELECT balance FROM account WHERE id = :id;
//! -- 3. Write. If the first statement updates no row, roll back and stop.
//! BEGIN;
//! UPDATE fence SET token = :token WHERE lock = :lock AND token = :token;
//! UPDATE account SET balance = :balance WHERE id = :id;
//! COMMIT;
//! ```
//!
//! Comparing tokens in the write alone is not enough. [The
//! guide](guide::guarded_writes#what-lives-elsewhere) has the reason and the details.
//!
//! Data in nodes of the same ZooKeeper needs no token: the servers carry out the writes of a
//! [`Hold::transaction`] only while the lock is held. [Guarded writes](guide::guarded_writes) says
//! when to use which.
//!
//! # Leadership
//!
//! [`Leadership`] starts a thread that runs a function whenever this process leads. The thread
//! contends again after each term, whatever ended it. A `Leadership` also names the current leader,
//! and hands over in order at a shutdown.
//!
//! # Readers and writers
//!
//! A [`DistributedRwLock`] has a reading and a writing side, and each of them is a [`Lock`].
//! Readers share the lock, a writer has it alone, and both are served in the order of their calls.
//! A thread that holds the write may also take the read, and continue to read after it unlocks the
//! write.
//!
//! # Semaphores
//!
//! A [`DistributedSemaphore`] grants as many [`Permits`] as its limit says. A call takes any number
//! of permits at once, all or none.
//!
//! # Several locks
//!
//! A [`MultiLock`] takes several locks together, all or none. It takes them in an order that keeps
//! programs from waiting for each other in a circle. Semaphores cannot be members.
//!
//! An [`EphemeralLock`] is the simplest lock: a single node, for few contenders.
//!
//! # Looking from outside
//!
//! - [`Client::contenders`] lists the holders and waiters of a lock in their order, which shows the
//!   queue position of a waiting call, and [`Client::locks_below`] all locks of a tree.
//! - [`Client::revoke`] asks a holder to release the lock. The holder learns of the request through
//!   [`Hold::revocation`].
//! - [`Client::verify_token`] tells whether a fencing token is the current holder's.
//! - [`Client::state`], [`Client::subscribe`] and [`Client::stats`] report on the connection.
//! - An [`observer`] receives how long calls waited, how long locks were held, and how both ended.
//!   The feature `metrics` has one for Prometheus.
//! - [Operating](guide::operating) says what to watch, what log lines mean, and what to do when a
//!   lock is stuck.
//!
//! The command `zoolock`, of the package `zoolock-cli`, offers all this to scripts and also runs
//! programs under a lock.
//!
//! # Other clients
//!
//! The [nodes](guide::names) are those of Curator's recipes, so Java programs can take part in the
//! same locks. With some care, so can programs that use kazoo, go-zookeeper and zookeeper-client.
//! [With other clients](guide::other_clients) has a table of the combinations that work, those that
//! are not safe, and the tests that show it.
//!
//! # Testing one's own code
//!
//! With the feature `testing`, the module `testing` has a ZooKeeper server that runs in the process
//! of the test, without Java. The locks on it are real ones. A test can have each hold suspended,
//! lost or revoked, in milliseconds. It is for tests only:
//!
//! ```toml
//! [dev-dependencies]
//! zoolock = { path = "../zoolock", features = ["testing"] }
//! ```
//!
//! ```
//! # #[cfg(feature = "testing")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zoolock::{DistributedLock, HoldState, LossReason, testing::Server};
//!
//! let server = Server::start()?;
//! let client = server.client()?;
//! let guard = DistributedLock::new(&client, "/leader")?.acquire()?;
//! server.suspend(&client);
//! assert_eq!(guard.state(), HoldState::Suspended);
//! server.resume(&client);
//! server.expire(&client);
//! assert_eq!(guard.state(), HoldState::Lost(LossReason::LeaseExpired));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "testing"))]
//! # fn main() {}
//! ```
//!
//! Code that takes a `&dyn Lock` can also be given a lock written for the test, such as one that is
//! always busy: [`Lock`] has five methods to write.
//!
//! The crate `zoolock-test-support` beside this one (`tests/support`) is for tests with real
//! ensembles. It starts real servers, stops them, and runs a proxy that causes network faults. On
//! other servers, a `tickTime` of 500 ms allows sessions that are short enough for tests.
//!
//! # Limits
//!
//! - **Clocks.** A machine that stands still, or whose clock is set, needs care: see [machines and
//!   clocks](guide::operating#machines-and-clocks).
//! - **Followers that lag.** A server that is behind its leader delays turns, but never lets in two
//!   holders: a queue position is a write, and only a sign of life that the leader certainly
//!   received renews a lease. But the list of [`Client::contenders`] may be outdated by as much as
//!   its server lags.
//! - **No Kerberos.** The only mechanism of SASL is DIGEST-MD5. Without TLS, the credentials of
//!   [`ClientBuilder::auth`], such as `digest`, are sent as plain text:
//!   [operating](guide::operating#credentials-and-tls) says what that means.
//! - **Sessions** must not be shorter than four ticks, and the servers of an ensemble must agree on
//!   some [settings](guide::operating#what-to-set).
//! - **Round trips** must be well below the session timeout. A hold survives round trips of up to
//!   an eighth of it. From a sixth on, its lease ends before a heartbeat can renew it.
//! - **Old servers.** Servers before 3.5.3 are not supported. Those before 3.6 do not keep the
//!   order after 2,147,483,647 turns in one directory. [Names](guide::names) has more.
//! - **Quota.** A client may have 896 KiB of node paths at a time: 10,000 locks held or waited for
//!   at paths of 20 bytes. A node counts until the servers are known not to have it. That includes
//!   nodes that are being deleted, that the servers refuse to delete, or whose creates have no
//!   answer. Past the quota, calls return [`Error::LimitExceeded`].
//! - **Threads and forks.** A client has two threads and one connection. After a fork, the child
//!   must neither use nor drop it. There, each [`Hold`] is over; other calls may wait for ever.

mod base;
mod client;
mod contenders;
pub mod guide;
mod held;
mod locks;
/// The parameters of [`LockHandle`] and [`Guard`]. Programs use the aliases, such as
/// [`DistributedLock`]: these types only tell the aliases apart.
pub mod marker {
    pub use crate::held::guard::{AnyThread, ThisThread};
    pub use crate::locks::handle::{Exclusive, Read, SingleNode, Write};
}
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod observer;
mod process;
mod queue;
mod reaper;
mod session;
mod settings;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tracing")]
pub mod tracing;
mod unwind;

/// The crate whose `Receiver` is part of this API.
pub use crossbeam_channel;

pub use base::acl::Acl;
pub use base::contender::{Contender, Kind};
pub use base::error::{ConflictReason, Error, ErrorKind, LossReason, Result};
pub use base::options::LockOptions;
pub use base::version::Version;
pub use base::wait::Wait;
pub use client::{Client, ClientBuilder};
pub use contenders::LocksBelow;
pub use held::guard::{Guard, ReentrantGuard};
pub use held::hold::Hold;
pub use held::transaction::Transaction;
pub use locks::ephemeral::EphemeralLock;
pub use locks::handle::LockHandle;
pub use locks::leadership::{Leadership, Term};
pub use locks::lock::DistributedLock;
pub use locks::locker::{Lock, LockId, Locker};
pub use locks::multi::MultiLock;
pub use locks::reentrant::DistributedReentrantLock;
pub use locks::rwlock::{DistributedRwLock, ReadLock, WriteLock};
pub use locks::semaphore::{DistributedSemaphore, Permits};
#[cfg(not(zoolock_simulation))]
pub use reaper::Reaper;
pub use reaper::Registration;
pub use session::{ClientState, ConnectionEvent, HoldState, Stats, Subscription};
#[cfg(feature = "tls")]
pub use zookeeper::Tls;
pub use zookeeper::{ConnectFailure, Permissions};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
