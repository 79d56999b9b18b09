//! Distributed locks on Apache ZooKeeper, for blocking, threaded programs: processes on different
//! machines take turns at something that only one of them, or only so many, may do at a time.
//!
//! | type | what | who may unlock |
//! |---|---|---|
//! | [`DistributedLock`] | one at a time, fair | any thread |
//! | [`DistributedReentrantLock`] | the same, may be entered again | its thread |
//! | [`DistributedRwLock`] | many readers or one writer, fair | its thread |
//! | [`DistributedSemaphore`] | at most so many permits at a time, fair | any thread |
//! | [`MultiLock`] | several of the others but semaphores, all or none | as they are |
//! | [`EphemeralLock`] | one at a time, a single node, no queue | any thread |
//! | [`Leadership`] | a function that runs in one process at a time | |
//!
//! All calls are blocking and may be made from any thread; no async runtime is needed. This is a
//! tour, in the order in which a program meets these things. The [guide] has pages for
//! [those who run it](guide::operating), and for those who come from [Curator](guide::from_curator),
//! [kazoo](guide::from_kazoo) or [`parking_lot`](guide::from_parking_lot).
//!
//! # Connect
//!
//! A [`Client`] is one connection to an ensemble, shared by all its clones and locks. It reconnects
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
//! The second argument is the *session timeout*: how long the servers keep the locks of a client
//! that they do not hear of, and so how long others wait for a process that crashed. Longer ones
//! forgive longer network troubles. It should be four server ticks or more, 8 s at ZooKeeper's default.
//! The path behind the hosts is the *chroot*, below which all paths of this client are.
//! [`Client::builder`] has credentials and ACLs, and [`Client::from_env`] takes all that from the environment
//! and a file, as the command does.
//!
//! | feature | what |
//! |---|---|
//! | `tls` | `ClientBuilder::tls`: TLS 1.2 and 1.3, by rustls |
//! | `sasl` | `ClientBuilder::sasl`: a user and a password that is not sent (DIGEST-MD5) |
//! | `config` | a TOML file of settings for [`Client::from_env`] |
//! | `metrics` | `metrics::MetricsObserver`: an [`observer`] for the crate `metrics` 0.24, and so for Prometheus |
//! | `testing` | the module `testing`: a ZooKeeper server in the process of a test |
//!
//! None of them is on by default.
//!
//! # Lock
//!
//! A lock is a path. [`DistributedLock`] is the plain one, fair among all clients, and any thread may
//! unlock it. Every call that waits has a variant that does not, and one with a deadline:
//!
//! | waits | without a guard | with a guard |
//! |---|---|---|
//! | for as long as it takes | `lock()` | `acquire()` |
//! | until a deadline | `try_lock_for(..)`, `try_lock_until(..)` | `try_acquire_for(..)`, `try_acquire_until(..)` |
//! | for the servers' answers only | `try_lock()` | `try_acquire()` |
//! | release: for the answer | `unlock()` | `release()`, or drop |
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
//! `Ok(false)` means that somebody else was seen to have the lock. If that could not be found out,
//! because there is no connection, the answer is [`Error::Disconnected`].
//!
//! # Re-entry
//!
//! The hold of a [`DistributedReentrantLock`] belongs to a thread, which may lock again, without a
//! request, and has to unlock as often.
//!
//! This lock and the plain one have two levels. The threads that share an object queue in the process,
//! first come, first served, and only the one at the front queues in ZooKeeper, so that a turn costs
//! two requests however many they are; release goes the other way round. A clone of a lock is the same
//! object. Two objects on one path exclude each other like two processes.
//!
//! ```text
//!  threads of a process         ZooKeeper, one node per process at a time
//!   t1  t2  t3 --> [ turn ] --> /locks/report/_c_..-lock-0000000007   holds
//!                               /locks/report/_c_..-lock-0000000008   next: watches ..07
//!                               /locks/report/_c_..-lock-0000000009   watches ..08
//! ```
//!
//! [`LockOptions`] can spare requests where the threads of one process take many turns in a row.
//!
//! # Guards
//!
//! `acquire` and its variants return a [`Guard`] that releases the lock when it is dropped. It is
//! owned, so it can be stored, and derefs to its [`Hold`]. A drop waits like an unlock, for at most a
//! third of the session timeout, and can only log a failure; [`Guard::release`] returns it. The guard
//! of a lock that belongs to a thread stays with that thread.
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
//! [`Locker`] does the same over any [`Lock`], the trait of all of these but the semaphore.
//!
//! # Deadlines
//!
//! One deadline covers a whole call: waiting for a connection, for the threads of this process and
//! for the other clients. `try_lock` and `try_acquire` wait for answers only, for at most a third of
//! the session timeout, and so do `unlock` and the drop of a guard. `lock` and `acquire` wait for as
//! long as it takes; [`cancel_waiters`](DistributedLock::cancel_waiters) and [`Client::close`] end
//! them from another thread.
//!
//! ```no_run
//! # fn f(lock: &zoolock::DistributedLock) -> zoolock::Result<()> {
//! use std::time::{Duration, Instant};
//!
//! let deadline = Instant::now() + Duration::from_secs(5);
//! match lock.try_acquire_until(deadline) {
//!     Ok(Some(guard)) => guard.release()?,
//!     Ok(None) => println!("somebody else was at it all the time"),
//!     Err(error) if error.is_retryable() => println!("nobody knows: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! All calls return [`Error`], whose page says what to do about each. Being second is not one.
//!
//! # Loss
//!
//! A distributed lock can end without being released: the servers give it to the next in line when
//! they have not heard of its holder for a session timeout. A hold is therefore a *lease*. It is
//! valid for as long as the servers cannot have ended the session, by what this client knows: the
//! session timeout, less a margin, from the last sign of life that the leader of the ensemble
//! certainly took note of. Heartbeats renew it while the connection lives.
//!
//! ```text
//!        connection breaks             lease ends
//! Held -------------------> Suspended ------------> Lost
//!   |  <------------------      |
//!   |    session resumed        |
//!   '--------- unlock ----------'-----------------> Released
//! ```
//!
//! - *Suspended* is still held, by nobody else. [`Hold::valid_for`] is what is left of the lease: at
//!   a break between about half and the whole of the session timeout, and down to a quarter of it
//!   when the network fell silent and that had to be noticed first. The client connects again
//!   meanwhile and resumes its session, usually within milliseconds, to which the nodes belong. Then
//!   the hold is *Held* again.
//! - *Lost* is also a hold whose node was deleted by an operator, or whose client was closed. It
//!   stays lost. [`Hold::is_held`] is false from the very end of the lease, and [`Hold::lost`]
//!   wakes whoever waits for it within 100 ms.
//! - The unlock that ends a lost hold returns [`Error::Lost`], touches nothing of the next holder's,
//!   and makes the object usable again. Until then it counts as in use, because the code that lost
//!   the lock may still be running; a reentrant lock refuses to be entered again, also with
//!   [`Error::Lost`].
//! - A session may outlive its lease, when all servers are down for long. Then holds are lost, and
//!   their nodes are deleted when a server is back, but calls that wait have kept their places.
//! - A call that waits is not ended by a broken connection. It keeps its place; if the servers have
//!   ended the session meanwhile, it queues again behind those who are there by then.
//!
//! Long work should look from time to time, or wait on [`Hold::lost`] beside what it waits for:
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
//!     guard.release() // Error::Lost if it was
//! }
//! ```
//!
//! # Fencing
//!
//! No lease stops a process that was paused between its last look and its write. Where that matters,
//! the resource has to refuse the late write, by [`Hold::fencing_token`], which rises from one hold to the
//! next. It can do that only if the next holder has shown it a higher token *before it read*. So a holder
//! claims, then reads, then writes:
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
//! let token = guard.fencing_token()?;
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
//! -- 1. Claim, and commit. If that updates no row, a later holder has claimed: stop.
//! UPDATE fence SET token = :token WHERE lock = :lock AND token <= :token;
//! -- 2. Read.
//! SELECT balance FROM account WHERE id = :id;
//! -- 3. Write. If the first statement updates no row, roll back and stop.
//! BEGIN;
//! UPDATE fence SET token = :token WHERE lock = :lock AND token = :token;
//! UPDATE account SET balance = :balance WHERE id = :id;
//! COMMIT;
//! ```
//!
//! To compare tokens in the write alone is not enough: [the guide](guide::guarded_writes#what-lives-elsewhere)
//! has why, and the details.
//!
//! What lives in nodes of the same ZooKeeper needs no token: [`Hold::transaction`] has writes carried out only
//! while the lock is held, which the servers see to. [Guarded writes](guide::guarded_writes) says where which of
//! the two is right.
//!
//! # Leadership
//!
//! [`Leadership`] runs a function on a thread of its own whenever this process leads, contends again whatever
//! ends its term, says who leads now, and hands over in order at a shutdown.
//!
//! # Readers and writers
//!
//! A [`DistributedRwLock`] has a reading and a writing side, each a lock of its own. Readers share,
//! a writer is alone, and both come in the order of their calls. A thread that writes may read as
//! well and go on reading when it unlocks the write.
//!
//! # Semaphores
//!
//! A [`DistributedSemaphore`] lets in as many as its limit says. [`Permits`] are taken any number at
//! once, all or nothing.
//!
//! # Several locks
//!
//! A [`MultiLock`] takes several of these locks together, all or none, in an order that keeps programs
//! from waiting for each other in a circle. Semaphores are not among them.
//!
//! An [`EphemeralLock`] is the simplest lock there is, a single node, for few contenders.
//!
//! # Looking from outside
//!
//! [`Client::contenders`] lists who holds a lock and who waits for it, and [`Client::locks_below`]
//! all locks of a tree; [`Client::revoke`] asks a holder to let go, which hears of it through
//! [`Hold::revocation`]; [`Client::verify`] tells whether a fencing token is the current holder's. A call
//! that waits tells its place to the observer of [`LockOptions::observe_queue`].
//!
//! [`Client::state`], [`Client::subscribe`] and [`Client::stats`] tell of the connection, an
//! [`observer`] of how long calls waited, how long locks were held, and what came of both (with the feature
//! `metrics`, for Prometheus too), and [operating](guide::operating) of what to watch, what log lines mean, and what to do when a lock is
//! stuck. Scripts have all this in the command `zoolock`, of the package `zoolock-cli`, which also runs
//! programs under a lock.
//!
//! # Other clients
//!
//! The [nodes](guide::names) are those of Curator's recipes, so that programs in Java can take part in
//! the same locks, and with some care those that use kazoo, go-zookeeper and zookeeper-client.
//! [With other clients](guide::other_clients) has the table of what works with which, what is not safe,
//! and the tests that show it.
//!
//! # Testing one's own code
//!
//! With the feature `testing`, the module `testing` has a ZooKeeper server that runs in the process of the
//! test, without Java. The locks on it are real ones, and a test can have each hold suspended, lost or revoked,
//! in milliseconds. It is for tests only:
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
//! Code that takes a `&dyn Lock` can also be given a lock of the test's own, such as one that is always busy:
//! [`Lock`] has seven methods to write.
//!
//! What ensembles do to locks, with servers that stop and networks that lose things, is shown by the crate
//! `zoolock-test-support` beside this one (`tests/support`): it starts real servers and a proxy that
//! makes network faults. Against other servers, a `tickTime` of 500 ms gives sessions short enough for tests.
//!
//! # Limits
//!
//! - **Machines that stand still**, and clocks that are set: see
//!   [machines and clocks](guide::operating#machines-and-clocks).
//! - **Followers that lag.** A server that is behind its leader makes turns late, never two holders: a
//!   place in the queue is a write, and only what a leader certainly took note of renews a lease. But
//!   what [`Client::contenders`] lists may be out of date by as much as its server is.
//! - **No Kerberos.** SASL is DIGEST-MD5 alone, and the credentials of [`ClientBuilder::auth`], such as
//!   `digest`, are sent as they are: [operating](guide::operating#credentials-and-tls) has what that means.
//! - A session must not be shorter than four ticks, and the servers of an ensemble have to agree on some
//!   [settings](guide::operating#what-to-set).
//! - Round trips must be well below the session timeout. A hold outlives those of up to an eighth of
//!   it; from a sixth on its lease ends before a heartbeat can renew it.
//! - Servers before 3.5 are not supported. Those before 3.5.3 have no containers: there the directories of locks stay. Servers before 3.6 do
//!   not keep the order after 2,147,483,647 turns in one directory. ([Names](guide::names) has more.)
//! - A client may have 896 KiB of node paths at a time: 10,000 locks held or waited for at paths of 20 bytes.
//!   Nodes count until the servers are known not to have them: also those that are being deleted, that the
//!   servers refuse to delete, or whose creates have no answer. Past that, calls return [`Error::Limit`].
//! - A client has two threads and one connection. After a fork, a child must not use it, nor drop it.

mod acl;
mod client;
mod contenders;
mod data;
mod ephemeral;
mod error;
mod exclusive;
mod guard;
pub mod guide;
mod hold;
mod leadership;
mod level;
mod lock;
mod locker;
#[cfg(feature = "metrics")]
pub mod metrics;
mod multi;
mod names;
pub mod observer;
mod options;
mod panics;
mod path;
mod recipe;
mod reentrant;
mod rwlock;
mod semaphore;
mod session;
mod settings;
mod signal;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;

/// The crate whose `Receiver` is part of this API.
pub use crossbeam_channel;

pub use acl::Acl;
pub use client::{Client, ClientBuilder};
pub use contenders::{Contender, Kind};
pub use ephemeral::EphemeralLock;
pub use error::{ConflictReason, Error, LossReason, Result};
pub use guard::{AnyThread, Guard, ReentrantGuard, ThisThread};
pub use hold::Hold;
pub use leadership::{Leadership, Term};
pub use lock::DistributedLock;
pub use locker::{Lock, LockId, Locker};
pub use multi::MultiLock;
pub use options::LockOptions;
pub use recipe::Place;
pub use reentrant::DistributedReentrantLock;
pub use rwlock::{DistributedRwLock, ReadLock, WriteLock};
pub use semaphore::{DistributedSemaphore, Permits};
pub use session::{ClientState, ConnectionEvent, HoldState, Stats, Subscription};
pub use transaction::Transaction;
pub use zookeeper::Permissions;
#[cfg(feature = "tls")]
pub use zookeeper::Tls;

/// Has the examples of the README compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
