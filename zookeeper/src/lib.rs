//! A blocking client of [Apache ZooKeeper](https://zookeeper.apache.org) that keeps its session.
//!
//! - **Every call has a deadline** and is answered by then, whatever servers and networks do.
//! - **Sessions are resumed.** When a connection breaks, the client goes on with the same session on
//!   another one: ephemeral nodes stay, watches are set again, and what happened meanwhile is told.
//! - **Leases are certified.** It can say for how long no server can have ended the session.
//! - Two threads a client, no async runtime, no `unsafe`.
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
//! Each operation of [`ZooKeeper`] sends a request and waits for its answer. By
//! [`submit`](ZooKeeper::submit) several go out in one write, each with a [`Pending`] to wait for, to be
//! told by, or to drop. Those in flight when a connection breaks fail at once with
//! [`ConnectionLoss`](ErrorKind::ConnectionLoss): they may or may not be carried out, and
//! [`Error::is_maybe_done`] says so; only [`delete_eventually`](ZooKeeper::delete_eventually) is sent
//! again. Calls made while there is no connection wait for the next one.
//!
//! # Watches
//!
//! A [`Watcher`] is a channel or a callback. Reads that are given one (`get_data_w`, ...) have it told
//! once of the next change, also over a resume as far as the change still shows then, and before any
//! answer that shows it. The same watcher, path and kind of watch (of the node or of its children) is one
//! watch, however often it is set. If the session ends, it is told
//! [`WatchEnded`](EventType::WatchEnded). The client keeps no watcher alive: hold on to it, or nothing is
//! told.
//!
//! # Sessions
//!
//! A client has one session at a time. [`SessionEvent`]s tell what happens to it: `Suspended` when the
//! connection is lost, `Resumed` when it goes on, `Expired` when the servers have ended it, which they
//! alone can say; then the next one is opened and `Connected`. How long a session lives without a
//! connection is its timeout, by the clock of the servers' leader: an ensemble that is down ends none.
//! [`in_session`](ZooKeeper::in_session) makes calls that must not reach the next session.
//!
//! # Names of servers
//!
//! Names are resolved anew for each connection, each by a thread that ends with the answer: a name that hangs
//! holds up no other. While the resolver fails, or takes longer than a quarter of a second, the addresses that a
//! name had before are tried last, and only to resume the session. They may be another ensemble's by now, so no
//! session is opened there, and none is taken for expired. An address that its name does not have any more is not
//! tried.
//!
//! # Leases
//!
//! Whoever holds something by an ephemeral node must know when to stop believing in it.
//! [`ZooKeeper::lease`] says for how long the session is certain to live, and
//! [`keep_lease`](ZooKeeper::keep_lease) has the client see to it that this does not run out as long as
//! servers answer. A leader, who was found to be the first in the queue, acts like this:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use zoolock_zookeeper::{Result, ZooKeeper};
//! # fn is_first(zk: &ZooKeeper) -> Result<bool> { zk.exists("/first").map(|node| node.is_some()) }
//! # fn act() {}
//! # fn lead(zk: &ZooKeeper) -> Result<()> {
//! let keeper = zk.keep_lease();
//! let granted = zk.renew_lease()?; // before the look, so that it is no newer than what that found
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
//! A session may outlive its lease, for example when the ensemble is down for long. While it lives nobody
//! else has got what it held, but that cannot be known before the lease is renewed
//! ([`LeaseRenewed`](SessionEventKind::LeaseRenewed)). It has another term then: look again.
//!
//! # TLS
//!
//! With the feature `tls`, by rustls: the type `Tls` has the settings, which `Builder::tls` takes.
//!
//! # SASL
//!
//! With the feature `sasl`, by the mechanism DIGEST-MD5, as Java's clients have it with a
//! `DigestLoginModule`: `Builder::sasl` takes a user and a password, which the servers need to know from
//! their JAAS configuration. The password itself is never sent, and a server has to show that it knows it,
//! too. It happens on every connection before anything else, in two more round trips. Nodes can belong to a
//! user by the scheme `sasl` and the user's name, see [`Acl`].
//!
//! DIGEST-MD5 is old: without [TLS](#tls), who reads the connection can try out passwords, and who can change
//! it can change all else. ZooKeeper from 3.10 on has to be told `fips-mode=false`, and before 3.9.3 servers
//! take users they do not know if they have the password of the one who came last. Kerberos (GSSAPI) is left out.
//!
//! # Testing one's own code
//!
//! With the feature `testing`, the module `testing` has a server that runs in the process of the test.
//!
//! # Logs
//!
//! Under the target `zookeeper`: connections and sessions that come and go as `info`, why no server can
//! be used as `warn`. Data and credentials are never in it. Lines are written by a short-lived thread,
//! so that a logger that blocks holds up nobody; those that it does not get to are dropped.
//!
//! # After a fork
//!
//! A child has the socket and none of the threads: it must not use the client, nor drop it.

mod acl;
mod alarm;
mod batch;
mod builder;
mod client;
mod core;
mod dial;
mod diary;
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
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tls")]
mod tls;
mod types;

/// What a [`Listener::channel`] is read from.
pub use crossbeam_channel::Receiver;

pub use acl::{Acl, Permissions};
pub use batch::{Batch, Op, OpResult};
pub use builder::Builder;
pub use client::{Lease, LeaseKeeper, ZooKeeper};
pub use error::{Error, ErrorKind, Result};
pub use listener::Listener;
pub use names::{Names, NamesIter};
pub use pending::Pending;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use types::{
    Counts, CreateMode, EventType, SessionEvent, SessionEventKind, Stat, State, WatchedEvent,
};

pub use core::path::check as check_path;

/// A [`Listener`] for what happens to nodes, once for each watch that is set with it.
pub type Watcher = Listener<WatchedEvent>;

/// Has the example of the README compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
