//! A blocking client of [Apache ZooKeeper](https://zookeeper.apache.org) that keeps its session.
//!
//! - **Every call has a deadline**, and returns before it passes, whatever servers and networks do.
//! - **Sessions are resumed.** When a connection breaks, the client continues the same session on
//!   another one. Ephemeral nodes stay, watches are set again, and missed changes are reported.
//! - **Leases are certified.** The client reports how long the session is certain to live.
//! - Each client has two threads, and starts short-lived ones to resolve names, write log lines and
//!   call code that may block. There is no async runtime and no `unsafe`.
//!
//! ```no_run
//! use std::time::Duration;
//! use zoolock_zookeeper::{Acl, CreateMode, Watcher, ZooKeeper};
//!
//! # fn main() -> zoolock_zookeeper::Result<()> {
//! let zk = ZooKeeper::connect("zk1:2181,zk2:2181,zk3:2181/app", Duration::from_secs(10))?;
//! zk.create_all("/workers", &Acl::open(), CreateMode::Persistent)?;
//! let (me, _) = zk.create("/workers/w-", b"host-7", &Acl::open(), CreateMode::EphemeralSequential)?;
//!
//! let (watcher, events) = Watcher::channel();
//! let (workers, _) = zk.get_children_w("/workers", &watcher)?;
//! println!("{me} is one of {workers:?}");
//! println!("{:?}", events.recv()); // when a worker is added or removed
//! zk.close()
//! # }
//! ```
//!
//! # Calls
//!
//! Each operation of [`ZooKeeper`] sends a request and waits for its answer.
//! [`submit`](ZooKeeper::submit) sends several requests in one write and returns a [`Pending`] for
//! each. You can wait for it, set a callback, or drop it. When a connection breaks, requests in flight
//! fail at once with [`ConnectionLoss`](ErrorKind::ConnectionLoss), and may or may not have been
//! carried out ([`Error::is_maybe_done`]). The client repeats only
//! [`delete_eventually`](ZooKeeper::delete_eventually). Calls made while there is no connection wait
//! for the next one.
//!
//! # Shared transactions
//!
//! Each write costs the servers an entry in their log and a sync of their disk. If many threads of a
//! program write at the same time, [`shared_create`](Batch::shared_create),
//! [`shared_delete`](Batch::shared_delete) and [`shared_multi`](Batch::shared_multi) combine these
//! writes, and those of one batch, into fewer transactions. A write waits for others only while two
//! writes of the client are in flight, so a single thread is never delayed.
//!
//! # Watches
//!
//! A [`Watcher`] is a channel or a callback. A read that takes a watcher (`get_data_w`, ...) sets a
//! watch, which reports the next change once. [`set_watches`](ZooKeeper::set_watches) watches several
//! nodes by one request. The client restores watches when it resumes the session, and they report
//! changes that happened in between, unless these were undone. A change is reported before any answer
//! that shows it. Setting a watch again with the same watcher, path and kind (of the node or of its
//! children) has no effect. When the session ends, the watcher receives
//! [`WatchEnded`](EventType::WatchEnded). The client does not keep watchers alive: a watcher that you
//! drop receives nothing.
//!
//! # Sessions
//!
//! A client has one session at a time. [`SessionEvent`]s report what happens to it:
//!
//! - `Suspended`: the connection is lost.
//! - `Resumed`: the session continues on another connection.
//! - `Expired`: the servers have ended the session, and the client opens the next one.
//! - `Connected`: a new session has begun.
//!
//! Without a connection, a session lives for its timeout, by the clock of the servers' leader. An
//! ensemble that is down therefore does not end sessions. Calls of a handle from
//! [`in_session`](ZooKeeper::in_session) never reach the next session.
//!
//! # Names of servers
//!
//! Names are resolved again for each connection. Each name is resolved on a separate thread, so that a
//! name that hangs does not delay the others. If the resolver fails, or takes longer than a quarter of
//! a second, the client also tries the addresses to which the name was resolved earlier, after all
//! others. Because these addresses may now belong to another ensemble, the client only resumes its
//! session there: it does not open a new one, and ignores an answer that the session has expired.
//! Addresses that a name no longer resolves to are not tried.
//!
//! # Leases
//!
//! A program that holds something by an ephemeral node must know when to stop relying on it.
//! [`ZooKeeper::lease`] returns how long the session is certain to live.
//! [`keep_lease`](ZooKeeper::keep_lease) makes the client renew the lease in time, as long as servers
//! answer. For example, a client that leads while it is first in a queue:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use zoolock_zookeeper::{Result, ZooKeeper};
//! # fn is_first(zk: &ZooKeeper) -> Result<bool> { zk.exists("/first").map(|node| node.is_some()) }
//! # fn act() {}
//! # fn lead(zk: &ZooKeeper) -> Result<()> {
//! let keeper = zk.keep_lease();
//! let granted = zk.renew_lease()?; // before the check, so that the lease is not newer than its result
//! if is_first(zk)? {
//!     while zk.left_of(&granted) > Duration::from_secs(1) {
//!         act(); // takes less than a second
//!     }
//! }
//! # drop(keeper);
//! # Ok(())
//! # }
//! ```
//!
//! A session may outlive its lease, for example when the ensemble is down for a long time. As long as
//! the session lives, its nodes exist, and no other client can take over what it holds. But the client
//! cannot be certain of this until the lease is renewed
//! ([`LeaseRenewed`](SessionEventKind::LeaseRenewed)). The renewed lease has another term: check again
//! whether you still hold what you held.
//!
//! # TLS
//!
//! The feature `tls` adds TLS, with rustls. Create settings with the type `Tls`, and pass them to
//! `Builder::tls`.
//!
//! # SASL
//!
//! The feature `sasl` adds SASL by the mechanism DIGEST-MD5, like Java's clients with a
//! `DigestLoginModule`. `Builder::sasl` takes a user and a password, which have to be in the JAAS
//! configuration of the servers. The client never sends the password itself, and the server has to
//! prove that it also has the password. This takes two more round trips at the beginning of every
//! connection. An ACL names a user by the scheme `sasl` and the user's name; see [`Acl`].
//!
//! DIGEST-MD5 is old. Without [TLS](#tls), an attacker who can read the connection can try out
//! passwords, and one who can modify it can change all requests and answers. ZooKeeper 3.10 and later
//! need `fips-mode=false`. Servers before 3.9.3 accept unknown users that have the password of the last
//! known one. Kerberos (GSSAPI) is not supported.
//!
//! # Testing your own code
//!
//! The crate `zoolock-zookeeper-testing` has a server that runs in the process of the test.
//!
//! # Logs
//!
//! Log lines have the target `zoolock_zookeeper`. The client logs when connections and sessions begin
//! and end as `info`, and the reasons why it cannot use any server as `warn`. Lines never contain data
//! or credentials. A short-lived thread writes them, so that a logger that blocks does not delay calls.
//! If the logger is too slow, lines are dropped.
//!
//! # After a fork
//!
//! A forked child process inherits the socket, but not the threads. It must neither use the client nor
//! drop it.

mod acl;
mod alarm;
mod batch;
mod builder;
mod client;
mod core;
mod dial;
mod error;
mod link;
mod listener;
mod names;
mod pending;
mod reader;
mod resolver;
mod shared;
#[doc(hidden)]
pub mod sys;
#[cfg(feature = "tls")]
mod tls;
mod types;
mod unwind;
mod worker;

/// The receiver of [`Listener::channel`].
pub use crossbeam_channel::Receiver;

pub use acl::{Acl, Permissions};
pub use batch::{Batch, Op, OpResult};
pub use builder::Builder;
pub use client::{Lease, LeaseKeeper, ZooKeeper};
pub use error::{ConnectFailure, Error, ErrorKind, Result};
pub use listener::{Listener, Watcher};
pub use names::{Names, NamesIter};
pub use pending::Pending;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use types::{
    Counts, CreateMode, EventType, SessionEvent, SessionEventKind, Stat, State, WatchedEvent,
};

// Hidden items such as this one are only for the locks of zoolock.
#[doc(hidden)]
pub use core::path::check as check_path;
#[doc(hidden)]
pub use types::SessionKey;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
