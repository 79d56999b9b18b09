//! Distributed locks on Apache ZooKeeper, for blocking, threaded programs. With a lock, processes
//! on different machines make sure that only one of them, or a limited number, does a piece of work
//! at a time.
//!
//! | type | what it does | who may unlock |
//! |---|---|---|
//! | [`DistributedLock`] | fair exclusive lock | any thread |
//! | [`DistributedReentrantLock`] | fair exclusive lock that its owner may lock again | the owning thread |
//! | [`DistributedRwLock`] | fair lock for many readers or one writer | the owning thread |
//! | [`DistributedSemaphore`] | fair semaphore with a limit of permits | any thread |
//! | [`MultiLock`] | several locks together, all or none; semaphores cannot be members | whoever may unlock its members |
//! | [`EphemeralLock`] | exclusive lock that is a single node, without a queue | any thread |
//! | [`Leadership`] | runs a function in one process at a time | itself, after each term |
//!
//! All calls block and may be made from any thread. No async runtime is needed. This page is a tour
//! of the crate, in the order in which a program needs its parts. The [guide] has pages for
//! [operators](guide::operating), [services](guide::services) and [asynchronous
//! programs](guide::asynchronous), and for users of [Curator](guide::from_curator),
//! [kazoo](guide::from_kazoo) and [`parking_lot`](guide::from_parking_lot).
//!
//! # Connect
//!
//! A [`Client`] is one connection to a ZooKeeper ensemble, shared by all its clones and locks. It
//! reconnects by itself until it is closed.
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
//! from which they receive nothing. If a process crashes, others wait this long for its locks. A
//! longer timeout survives longer network faults. It should be at least four server ticks, which is
//! 8 s with ZooKeeper's defaults. The path after the hosts is the *chroot*: all paths of this
//! client are relative to it. [`Client::builder`] accepts credentials and ACLs.
//! [`Client::from_env`] reads all settings from the environment, as the command-line tool does.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tls` | `ClientBuilder::tls`: TLS 1.2 and 1.3, with rustls |
//! | `sasl` | `ClientBuilder::sasl`: a user and a password that is not sent (DIGEST-MD5) |
//! | `metrics` | `metrics::MetricsObserver`: an [`observer`] for the crate `metrics` 0.24, which exports to Prometheus, for example |
//! | `tracing` | `tracing::TracingObserver`: an [`observer`] that writes events of the crate `tracing` |
//! | `testing` | the module `testing`: a ZooKeeper server that runs in the test's own process |
//!
//! All features are off by default.
//!
//! # Lock
//!
//! A lock is identified by its path. [`DistributedLock`] is the basic type: it is fair among all
//! clients, and any thread may unlock it. `acquire()` returns a [`Guard`], which releases the lock
//! when it is dropped:
//!
//! ```no_run
//! # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
//! use std::time::Duration;
//! use zoolock::DistributedLock;
//!
//! let lock = DistributedLock::new(client, "/locks/nightly-report")?; // sends no request
//! let guard = lock.acquire()?;
//! guard.release()?; // or drop it
//! if let Some(guard) = lock.acquire_within(Duration::from_secs(5))? {
//!     guard.release()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The calls differ in how long they wait, and in whether they return a guard:
//!
//! | waits | with a guard | without a guard |
//! |---|---|---|
//! | without a limit | `acquire()` | `lock()` |
//! | for a time, or until an instant | `acquire_within(..)` | `lock_within(..)` |
//! | only for the servers' answers | `try_acquire()` | `try_lock()` |
//! | to release: only for the servers' answers | `release()`, or drop | `unlock()` |
//!
//! `lock()` acquires the lock without a guard. After that, nothing but `unlock()` releases the
//! lock, not even a panic.
//!
//! `Ok(None)` and `Ok(false)` mean that another contender was ahead. If the client cannot find out
//! whether there is one, because it has no connection, the call returns [`Error::Disconnected`].
//!
//! # Re-entry
//!
//! Each hold of a [`DistributedReentrantLock`] belongs to a thread. That thread can lock again
//! without a request to the servers, and must unlock as many times as it locked.
//!
//! This lock and [`DistributedLock`] have two queues. The threads that use a path through one
//! client first wait in a queue inside the process, first come, first served, whichever lock
//! objects they use. Only the thread at the front of that queue also waits in the queue in
//! ZooKeeper. An acquisition therefore costs at most two requests however many threads wait. A
//! release works in the reverse order.
//!
//! A clone of a lock is the same object. Two objects at one path exclude each other: each has its
//! own hold, which the other object can neither detect nor unlock. A request handler may therefore
//! create a lock for each request: this costs no more than sharing one.
//!
//! ```text
//!  threads of a process          ZooKeeper, one node per process at a time
//!   t1  t2  t3 --> [ front ] --> /locks/report/_c_..-lock-0000000007   holds
//!                                /locks/report/_c_..-lock-0000000008   next: watches ..07
//!                                /locks/report/_c_..-lock-0000000009   watches ..08
//! ```
//!
//! [`LockOptions`] can save requests if the threads of one process acquire the lock many times in a
//! row.
//!
//! # Guards
//!
//! `acquire` and its variants return a guard that releases the lock when it is dropped. It derefs
//! to its [`Hold`]. Dropping it waits like an unlock, for at most a third of the session timeout,
//! and only logs a failure. [`Guard::release`] returns the failure.
//!
//! | guard | returned by | where it can go |
//! |---|---|---|
//! | [`Guard`] | [`DistributedLock`], [`EphemeralLock`], [`DistributedSemaphore`] | owned: into a struct, to any thread |
//! | [`ReentrantGuard`] | [`DistributedReentrantLock`], [`ReadLock`], [`WriteLock`] | owned: into a struct, stays with its thread |
//! | [`MultiGuard`] | [`MultiLock`] | owned: into a struct, to any thread that may unlock all members |
//! | [`LockGuard`] | any [`dyn Lock`](Lock) | borrows its lock |
//!
//! ```no_run
//! use zoolock::{DistributedLock, Guard};
//!
//! /// A service that holds its lock for its whole lifetime.
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
//! All locks except the semaphore implement the trait [`Lock`], for code that accepts any of them.
//! Most lock types are aliases of [`LockHandle`], which has their methods.
//!
//! # Deadlines
//!
//! One deadline covers a whole call: the wait for a connection, for other threads of this process
//! and for other clients. `try_acquire`, `try_lock`, `unlock` and dropping a guard wait only for
//! answers, for at most a third of the session timeout. `acquire` and `lock` wait without a limit.
//! Another thread can end them with [`Client::close`], or with a [`CancelToken`] in their [`Wait`].
//!
//! ```no_run
//! # fn f(lock: &zoolock::DistributedLock) -> zoolock::Result<()> {
//! use std::time::{Duration, Instant};
//!
//! let deadline = Instant::now() + Duration::from_secs(5);
//! match lock.acquire_within(deadline) {
//!     Ok(Some(guard)) => guard.release()?,
//!     Ok(None) => println!("another contender was ahead the whole time"),
//!     Err(error) if error.is_retryable() => println!("could not find out, try again: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! All calls return [`Error`], whose page explains what to do about each variant. Finding the lock
//! taken is not an error.
//!
//! # Loss
//!
//! A distributed lock can end without being released: if the servers receive nothing from its
//! holder for a session timeout, they grant it to the next contender. A hold is therefore a
//! *lease*. The lease is counted from the last heartbeat or other message that the leader of the
//! ensemble certainly received. It ends shortly before the servers can end the session. Heartbeats
//! renew it while the connection lives. With the session timeout T:
//!
//! ```text
//!  last message                                              lease   servers may
//!  certainly received                                        ends    end the session
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
//! - A *Suspended* hold is still yours: no other client can have the lock. [`Hold::valid_for`]
//!   returns what is left of the lease. When a connection breaks, between about half of T and all
//!   of T is left. When packets are lost silently, the client notices later, and as little as a
//!   quarter of T is left. The client reconnects and resumes its session, usually within
//!   milliseconds. The nodes belong to the session, which is why the hold is then *Held* again.
//! - A hold is also *Lost* when an operator deletes its node, or when its client is closed. A lost
//!   hold stays lost. [`Hold::is_held`] returns false from the exact end of the lease on.
//!   [`Hold::ended`] wakes its receivers within 100 ms, which may be just after the next holder
//!   begins.
//! - Unlocking a lost hold returns [`Error::Lost`], does not touch the next holder's node, and
//!   makes the object usable again. Until then the object counts as in use, because the code that
//!   lost the lock may still be running. A reentrant lock also refuses re-entry with
//!   [`Error::Lost`].
//! - A session may outlive its lease if all servers are down for a long time. The holds are then
//!   lost, and their nodes are deleted when a server is back. Waiting calls keep their queue
//!   positions.
//! - A broken connection does not end a waiting call. The call keeps its queue position. If the
//!   servers have ended the session, it queues again, behind the contenders that are already there.
//!
//! Long-running work should do one of three things: check its hold from time to time, pass a
//! function that stops it to [`Hold::on_end`], or wait on [`Hold::ended`] together with its other
//! channels. A program that has no other way to stop its work can abort its own process when the
//! lock is lost; the example `batch` does this, with an [`observer`] of all holds.
//!
//! ```no_run
//! # fn step(_part: u32) {}
//! use zoolock::crossbeam_channel::{Receiver, select};
//!
//! fn work(lock: &zoolock::DistributedLock, parts: &Receiver<u32>) -> zoolock::Result<()> {
//!     let guard = lock.acquire()?;
//!     loop {
//!         select! {
//!             recv(guard.ended()) -> _ => break,
//!             recv(parts) -> part => match part {
//!                 // Both may be ready, and `select!` picks either.
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
//! A lease cannot stop a process that was paused between its last check and its write. If that
//! matters, the resource has to refuse the late write. It can do so with the [fencing
//! token](Hold::fencing_token), a number that increases from one hold to the next. This works only
//! if the next holder has registered its higher token with the resource *before it reads*. A holder
//! therefore registers its token, then reads, then writes:
//!
//! ```no_run
//! # struct Table;
//! # impl Table {
//! #     fn register(&self, _token: u64) -> bool { true }
//! #     fn read(&self, _key: &str) -> u32 { 7 }
//! #     fn write(&self, _key: &str, _value: u32, _token: u64) -> bool { true }
//! # }
//! # fn f(lock: &zoolock::DistributedLock, table: &Table) -> zoolock::Result<()> {
//! let guard = lock.acquire()?;
//! let token = guard.fencing_token();
//! if table.register(token) { // from now on the table refuses every lower token
//!     let balance = table.read("balance");
//!     table.write("balance", balance + 1, token); // refused if a later holder has registered
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A database can do this with a table `fence`, which has one row for each lock:
//!
//! ```sql
//! -- 1. Register, and commit. If that changes no row, a later holder has registered: stop.
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
//! Comparing tokens only in the write is not enough. [The
//! guide](guide::guarded_writes#what-lives-elsewhere) explains why.
//!
//! Data in nodes of the same ZooKeeper ensemble needs no token: the servers carry out the writes of
//! a [`Hold::transaction`] only while the lock is held. [Guarded writes](guide::guarded_writes)
//! explains when to use which.
//!
//! # Leadership
//!
//! [`Leadership`] starts a thread that runs a function whenever this process leads. After each term
//! the thread contends again, whatever ended the term. A `Leadership` can also return the current
//! leader. At shutdown, it lets the function return before the next process leads.
//!
//! # Readers and writers
//!
//! A [`DistributedRwLock`] has a reading and a writing side, and each of them is a [`Lock`].
//! Readers share the lock, a writer has it alone, and all of them are served in the order of their
//! calls. A thread that holds the write lock may also take the read lock, and may continue to read
//! after it unlocks the write lock.
//!
//! # Semaphores
//!
//! A [`DistributedSemaphore`] grants up to a limit of permits. A call takes any number of
//! permits at once, all or none.
//!
//! # Several locks
//!
//! A [`MultiLock`] takes several locks together, all or none. It takes them in an order that
//! prevents deadlocks between programs. Semaphores cannot be members.
//!
//! An [`EphemeralLock`] is the simplest lock: a single node, for few contenders.
//!
//! # Observability
//!
//! - [`Client::contenders`] lists the holders and waiters of a lock in order, including the queue
//!   position of a waiting call. [`Client::paths_below`] returns the paths at which there may be
//!   more locks.
//! - [`Client::revoke`] asks a holder to release the lock. The holder receives the request through
//!   [`Hold::revocation`].
//! - [`Client::verify_token`] checks whether a fencing token belongs to the current holder.
//! - [`Client::state`], [`Client::subscribe`] and [`Client::stats`] report on the connection.
//! - An [`observer`] is notified of each call and each hold: how long it lasted, and how it ended.
//!   The feature `metrics` has one for Prometheus.
//! - [Operating](guide::operating) explains what to monitor, what log lines mean, and what to do
//!   when a lock is stuck.
//!
//! The command-line tool `zoolock`, in the package `zoolock-cli`, offers all this to scripts and
//! also runs programs under a lock.
//!
//! # Other clients
//!
//! The [nodes](guide::names) are those of Curator's recipes. Java programs can therefore use the
//! same locks. With some care, so can programs that use kazoo, go-zookeeper and zookeeper-client.
//! [With other clients](guide::other_clients) has a table of the combinations that work, those that
//! are not safe, and the tests that demonstrate this.
//!
//! # Testing your own code
//!
//! With the feature `testing`, the module `testing` has a ZooKeeper server that runs in the test's
//! own process, without Java. The locks on it are real ones. A test can suspend, lose or revoke
//! each hold within milliseconds. It is for tests only:
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
//! always busy: [`Lock`] has five required methods.
//!
//! The crate `zoolock-test-support` in the same repository (`tests/support`) is for tests with real
//! ensembles. It starts real servers, stops them, and runs a proxy that causes network faults. On
//! other servers, a `tickTime` of 500 ms allows sessions that are short enough for tests.
//!
//! # Limits
//!
//! - **Clocks.** A machine that is paused, or whose clock is changed, needs care: see [machines and
//!   clocks](guide::operating#machines-and-clocks).
//! - **Followers that lag.** A server that is behind its leader delays acquisitions, but never
//!   admits two holders. The reason is that a queue position is a write, and that a lease is
//!   renewed only by messages that the leader certainly received. The list of
//!   [`Client::contenders`], however, may be outdated by as much as its server lags.
//! - **No Kerberos.** The only SASL mechanism is DIGEST-MD5. Without TLS, the credentials of
//!   [`ClientBuilder::auth`], such as `digest`, are sent as plain text:
//!   [operating](guide::operating#credentials-and-tls) explains what that means.
//! - **Sessions** must not be shorter than four ticks, and the servers of an ensemble must agree on
//!   some [settings](guide::operating#what-to-set).
//! - **Round trips** must be much shorter than the session timeout. A hold survives round trips of
//!   up to an eighth of it. If they take a sixth of it or more, the lease ends before a heartbeat
//!   can renew it.
//! - **Old servers.** Servers before 3.5.3 are not supported. Servers before 3.6 do not keep
//!   contenders in order after 2,147,483,647 acquisitions in one directory. [Names](guide::names)
//!   has more.
//! - **Quota.** A client may have 896 KiB of node paths at a time. This is enough for 10,000 locks,
//!   held or waited for, at paths of 20 bytes. A node counts until it is certain that the servers
//!   do not have it. This includes nodes that are being deleted, nodes that the servers refuse to
//!   delete, and nodes whose create requests were not answered. Beyond the quota, calls return
//!   [`Error::LimitExceeded`].
//! - **Threads and forks.** A client has two threads and one connection. After a fork, the child
//!   sends nothing. In the child, each [`Hold`] is over. The child may drop a guard; if it makes
//!   other calls or drops the client, it may wait forever.

mod base;
mod client;
mod contenders;
pub mod guide;
mod held;
mod locks;
/// The parameters of [`LockHandle`] and [`Guard`]. Programs use the aliases, such as
/// [`DistributedLock`]: these types only distinguish the aliases.
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

/// The crate whose `Receiver` is part of this API.
pub use crossbeam_channel;

pub use base::acl::Acl;
pub use base::contender::Contender;
pub use base::error::{ConflictReason, Error, ErrorKind, LossReason, Result};
pub use base::kind::LockKind;
pub use base::options::LockOptions;
pub use base::version::Version;
pub use base::wait::{CancelToken, Wait};
pub use client::{Client, ClientBuilder};
pub use held::guard::{Guard, ReentrantGuard};
pub use held::hold::Hold;
pub use held::transaction::Transaction;
pub use locks::any::{Lock, LockGuard, LockId};
pub use locks::handle::LockHandle;
pub use locks::leadership::{Leadership, Term};
pub use locks::lock::{DistributedLock, DistributedReentrantLock, EphemeralLock};
pub use locks::multi::{Busy, MultiGuard, MultiLock};
pub use locks::rwlock::{DistributedRwLock, ReadLock, WriteLock};
pub use locks::semaphore::DistributedSemaphore;
#[cfg(not(zoolock_simulation))]
pub use reaper::Reaper;
pub use reaper::Registration;
pub use session::{ClientState, HoldState, Stats, Subscription};
#[cfg(feature = "tls")]
pub use zookeeper::Tls;
pub use zookeeper::{ConnectFailure, Permissions};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
