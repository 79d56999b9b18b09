//! A blocking client of [Apache ZooKeeper](https://zookeeper.apache.org) that keeps its session.
//!
//! - **Every call has a deadline**, and returns by then, whatever servers and networks do.
//! - **Sessions are resumed.** After a broken connection, the client continues the same session on
//!   another one. Ephemeral nodes stay, watches are set again, and missed changes are reported.
//! - **Leases are certified.** The client can tell how long no server can have ended the session.
//! - Each client has two threads. There is no async runtime and no `unsafe`.
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
//! println!("{:?}", events.recv()); // when a worker comes or goes
//! zk.close()
//! # }
//! ```
//!
//! # Calls
//!
//! Each operation of [`ZooKeeper`] sends a request and waits for its answer.
//! [`submit`](ZooKeeper::submit) sends several in one write and returns a [`Pending`] for each,
//! which can be waited for, called back, or dropped. When a connection breaks, requests in flight
//! fail at once with [`ConnectionLoss`](ErrorKind::ConnectionLoss). They may or may not be carried
//! out, which [`Error::is_maybe_done`] tells. Only
//! [`delete_eventually`](ZooKeeper::delete_eventually) is sent again. Calls made while there is no
//! connection wait for the next one.
//!
//! # Shared transactions
//!
//! Each write costs the servers an entry in the log and a sync. Where many threads of a program
//! write at the same time, [`shared_create`](Batch::shared_create),
//! [`shared_delete`](Batch::shared_delete) and [`shared_multi`](Batch::shared_multi) let these
//! writes share transactions, and so do those of one batch. Nothing waits while fewer than two
//! writes of the client are in flight, so a single thread pays nothing.
//!
//! # Watches
//!
//! A [`Watcher`] is a channel or a callback. A read that takes one (`get_data_w`, ...) sets a
//! watch, which reports the next change once. [`set_watches`](ZooKeeper::set_watches) watches
//! several nodes by one request. A watch also reports a change that happened before a resume, if it
//! still shows by then. The report comes before any answer that shows the change. The same watcher,
//! path and kind of watch (of the node or of its children) is one watch, however often it is set.
//! When the session ends, the watcher gets [`WatchEnded`](EventType::WatchEnded). The client does
//! not keep watchers alive: keep the watcher, or it receives nothing.
//!
//! # Sessions
//!
//! A client has one session at a time. [`SessionEvent`]s report what happens to it. `Suspended`:
//! the connection is lost. `Resumed`: the session continues on another one. `Expired`: the servers
//! have ended the session, which only they can say. The client then opens the next session and
//! reports `Connected`. A session lives for its timeout without a connection, by the clock of the
//! servers' leader, so an ensemble that is down ends none. Calls by
//! [`in_session`](ZooKeeper::in_session) never reach the next session.
//!
//! # Names of servers
//!
//! Names are resolved anew for each connection. A separate thread resolves each name, so a name
//! that hangs delays no other. While the resolver fails, or takes longer than a quarter of a
//! second, the earlier addresses of a name are tried last, and only to resume the session. They may
//! belong to another ensemble by now. So no session is opened there, and an expiry there is not
//! believed. An address that its name no longer has is not tried.
//!
//! # Leases
//!
//! A program that holds something by an ephemeral node must know when to stop relying on it.
//! [`ZooKeeper::lease`] tells how long the session is certain to live.
//! [`keep_lease`](ZooKeeper::keep_lease) makes the client renew the lease in time while servers
//! answer. A leader, which found itself first in the queue, acts like this:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use zoolock_zookeeper::{Result, ZooKeeper};
//! # fn is_first(zk: &ZooKeeper) -> Result<bool> { zk.exists("/first").map(|node| node.is_some()) }
//! # fn act() {}
//! # fn lead(zk: &ZooKeeper) -> Result<()> {
//! let keeper = zk.keep_lease();
//! let granted = zk.renew_lease()?; // before the look, so that the lease is no newer than its result
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
//! A session may outlive its lease, for example when the ensemble is down for long. While the
//! session lives, its nodes exist and no other client has got what it held. But the client cannot
//! know that before the lease is renewed ([`LeaseRenewed`](SessionEventKind::LeaseRenewed)). The
//! lease then has another term: look again.
//!
//! # TLS
//!
//! The feature `tls` adds TLS, by rustls. The type `Tls` has the settings, and `Builder::tls` takes
//! them.
//!
//! # SASL
//!
//! The feature `sasl` adds SASL by the mechanism DIGEST-MD5, as Java's clients have it with a
//! `DigestLoginModule`. `Builder::sasl` takes a user and a password, which the servers need to know
//! from their JAAS configuration. The password itself is never sent, and a server must prove that
//! it knows it, too. This happens on every connection before anything else, in two more round
//! trips. An ACL names a user by the scheme `sasl` and the user's name; see [`Acl`].
//!
//! DIGEST-MD5 is old. Without [TLS](#tls), an attacker who reads the connection can try out
//! passwords, and an attacker who can change it can change all requests and answers. ZooKeeper from
//! 3.10 on needs `fips-mode=false`. Servers before 3.9.3 accept unknown users that have the
//! password of the last known one. Kerberos (GSSAPI) is not supported.
//!
//! # Testing one's own code
//!
//! The crate `zoolock-zookeeper-testing` has a server that runs in the process of the test.
//!
//! # Logs
//!
//! Log lines have the target `zoolock_zookeeper`. Connections and sessions that come and go are `info`;
//! reasons why no server can be used are `warn`. Lines never contain data or credentials. A
//! short-lived thread writes them, so that a logger that blocks delays no call. Lines that it
//! cannot write in time are dropped.
//!
//! # After a fork
//!
//! A child process has the socket, but none of the threads. It must neither use the client nor drop
//! it.

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

// For the locks of zoolock alone, as all that is hidden.
#[doc(hidden)]
pub use core::path::check as check_path;
#[doc(hidden)]
pub use types::SessionKey;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
