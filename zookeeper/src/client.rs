//! The client: its operations, its session and its lease. `builder` creates it.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::Level;

use crate::acl::Acl;
use crate::batch::{Batch, NOTHING, Op, OpResult, check};
use crate::core::clock::{FOREVER, Moment};
use crate::core::connection::{Credential, Effect};
use crate::core::message;
use crate::error::{ErrorKind, Result};
use crate::listener::{Listener, Watcher};
use crate::names::Names;
use crate::pending::Pending;
use crate::shared::Shared;
use crate::sys::thread::{JoinHandle, must_not_wait};
use crate::sys::{self, Mutex};
use crate::types::{Counts, CreateMode, SessionEvent, SessionKey, Stat, State};

/// A client of an ensemble of ZooKeeper servers.
///
/// Clones are cheap handles to the same client, which any number of threads may use at once. A
/// client has one session at a time and two threads. When the last clone is dropped, the session is
/// closed in the background and the threads end. [`close`](Self::close) waits for that.
///
/// # What each call does
///
/// A call sends one request and waits for its answer, until its deadline at most. The deadline
/// comes from the request timeout of the [`Builder`](crate::Builder) or of
/// [`with_timeout`](Self::with_timeout). While there is no connection, the call waits for one.
/// In addition to the errors of each operation, a call may fail with
///
/// - [`ConnectionLoss`](ErrorKind::ConnectionLoss), as soon as the request's connection breaks, and
///   [`Timeout`](ErrorKind::Timeout): the request may have been carried out, or may still be carried
///   out soon afterwards. Reads can be repeated. Before you repeat a write, find out whether it was
///   carried out.
/// - [`NoConnection`](ErrorKind::NoConnection), [`SessionExpired`](ErrorKind::SessionExpired) and
///   [`Closed`](ErrorKind::Closed): the request was not carried out.
/// - [`NoAuth`](ErrorKind::NoAuth) if the ACL denies permission.
/// - [`BadArguments`](ErrorKind::BadArguments) for a path that ZooKeeper does not allow, or for
///   more than a megabyte of data; nothing was sent.
#[derive(Clone)]
#[must_use = "the session ends when the last clone is dropped"]
pub struct ZooKeeper {
    handle: Arc<Handle>,
    timeout: Duration,
    session: Option<i64>,
}

/// The client ends when this is dropped.
struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Disconnected when both threads are about to end.
    ended: Receiver<Infallible>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.change(|core, now| {
            let limit = (core.timeout() / 3).min(Duration::from_secs(1));
            core.close(None, now.monotonic + limit, now);
        });
    }
}

impl ZooKeeper {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        timeout: Duration,
        ended: Receiver<Infallible>,
    ) -> ZooKeeper {
        let (shared, threads) = (Arc::clone(shared), Mutex::default());
        ZooKeeper { handle: Arc::new(Handle { shared, threads, ended }), timeout, session: None }
    }

    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        self.handle.threads.lock().push(thread);
    }

    /// Returns a handle to the same client with this timeout for its calls.
    pub fn with_timeout(&self, timeout: Duration) -> ZooKeeper {
        ZooKeeper { timeout, ..self.clone() }
    }

    /// Returns a handle to the same client that is bound to one session. Once the client has another
    /// session, calls of this handle fail with [`ErrorKind::SessionExpired`], and its
    /// [`lease`](Self::lease) has run out. Requests that belong to an old session are therefore never
    /// carried out in a new one. Closing the handle closes the client.
    pub fn in_session(&self, session_id: i64) -> ZooKeeper {
        ZooKeeper { session: Some(session_id), ..self.clone() }
    }

    pub(crate) fn by(&self, deadline: Instant) -> ZooKeeper {
        self.with_timeout(deadline.saturating_duration_since(sys::now()))
    }

    // ---- operations
    //
    // These methods do the same as those of `Batch`, and then wait. They are not redundant: users
    // expect them in a ZooKeeper client, and their errors name the operation and the path, unlike the
    // errors of `submit`.

    /// Creates a node. Returns its path, which in a sequential mode differs from the given path.
    ///
    /// After a connection loss, a sequential node may exist under a name that the client does not
    /// know: put something unique into the name, by which you can find it. Fails with
    /// [`NodeExists`](ErrorKind::NodeExists), [`NoNode`](ErrorKind::NoNode) if there is no parent,
    /// [`NoChildrenForEphemerals`](ErrorKind::NoChildrenForEphemerals),
    /// [`InvalidAcl`](ErrorKind::InvalidAcl), and [`Unimplemented`](ErrorKind::Unimplemented) for
    /// modes that the server does not support.
    pub fn create(
        &self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
        mode: CreateMode,
    ) -> Result<(String, Stat)> {
        self.ask("create", path, |batch| batch.create(path, data, acl, mode))
    }

    /// Creates a node without data, and all missing parents, including those above the client's root.
    /// `mode` is [`Persistent`](CreateMode::Persistent) or [`Container`](CreateMode::Container). Fails
    /// as [`create`](Self::create) does.
    pub fn create_all(&self, path: &str, acl: &[Acl], mode: CreateMode) -> Result<()> {
        check(path).map_err(|error| error.of("create", path))?;
        let full: String = message::full((self.root(), path)).collect();
        self.create_from_root(&full, acl, mode, sys::now() + self.timeout.min(FOREVER))
    }

    /// Walks up to the nearest node that exists, and no further, because the client may not have
    /// permission to read the nodes above it.
    fn create_from_root(
        &self,
        full: &str,
        acl: &[Acl],
        mode: CreateMode,
        deadline: Instant,
    ) -> Result<()> {
        let create = |batch: &mut Batch<'_>| batch.create_below("", full, b"", acl, mode);
        let created = self.by(deadline).ask("create", full, create);
        match (created.map_err(|error| (error.kind(), error)), full.rfind('/')) {
            (Ok(_) | Err((ErrorKind::NodeExists, _)), _) => Ok(()),
            (Err((ErrorKind::NoNode, _)), Some(end)) if end > 0 => {
                self.create_from_root(&full[..end], acl, mode, deadline)?;
                self.create_from_root(full, acl, mode, deadline)
            }
            (Err((_, error)), _) => Err(error),
        }
    }

    /// Deletes a node. If a version is given, the node must have it. Fails with
    /// [`NoNode`](ErrorKind::NoNode), [`NotEmpty`](ErrorKind::NotEmpty) or
    /// [`BadVersion`](ErrorKind::BadVersion).
    pub fn delete(&self, path: &str, version: Option<i32>) -> Result<()> {
        self.ask("delete", path, |batch| batch.delete(path, version))
    }

    /// Deletes a node of any version in the background, and repeats the request on later connections if
    /// necessary. The result is ready when the node is deleted, the server refuses to delete it, or the
    /// session ends. If the session ends after the request was sent, the result is
    /// [`ConnectionLoss`](ErrorKind::ConnectionLoss).
    pub fn delete_eventually(&self, path: &str) -> Pending<()> {
        self.submit(|batch| batch.delete_eventually(path))
    }

    /// Returns the `Stat` of a node, or `None` if it does not exist. Fails with
    /// [`NoAuth`](ErrorKind::NoAuth) if this client may not read the node; ZooKeeper up to 3.8.3 and
    /// 3.9.1 returns the `Stat` anyway.
    pub fn exists(&self, path: &str) -> Result<Option<Stat>> {
        self.ask("look for", path, |batch| batch.exists(path, None))
    }

    /// Like [`exists`](Self::exists), with a watch: `watcher` receives one event when the node is
    /// created or deleted, or when its data is set, whether or not the node exists now. If this fails,
    /// nothing is watched. The same applies to all calls that set a watch, with one exception: if the
    /// whole process was paused until after the deadline, an event may arrive after
    /// [`Timeout`](ErrorKind::Timeout). Dropping the watcher ends the watch.
    ///
    /// Since the fix of CVE-2024-23944 (ZooKeeper 3.8.4 and 3.9.2, Debian's 3.8.0), servers check
    /// the ACL **when the event happens**. If the client does not have permission to read the node at
    /// that time, it receives no event, and its watch is removed. This also applies to
    /// [`get_data_w`](Self::get_data_w) and [`get_children_w`](Self::get_children_w). If other users may
    /// set the ACL, poll the node from time to time.
    pub fn exists_w(&self, path: &str, watcher: &Watcher) -> Result<Option<Stat>> {
        self.ask("look for", path, |batch| batch.exists(path, Some(watcher)))
    }

    /// Reads the data of a node. Fails with [`NoNode`](ErrorKind::NoNode).
    pub fn get_data(&self, path: &str) -> Result<(Vec<u8>, Stat)> {
        self.ask("read", path, |batch| batch.get_data(path, None))
    }

    /// Like [`get_data`](Self::get_data), with a watch: `watcher` receives one event when the data is
    /// set or the node is deleted. If this fails, nothing is watched.
    pub fn get_data_w(&self, path: &str, watcher: &Watcher) -> Result<(Vec<u8>, Stat)> {
        self.ask("read", path, |batch| batch.get_data(path, Some(watcher)))
    }

    /// Watches the data of all these nodes with one request, which reads nothing. `watcher` receives
    /// one event for each node, when its data is set or it is deleted. If that has already happened
    /// since the transaction `relative_zxid`, or if the node does not exist, `watcher` receives the
    /// event at once. As `relative_zxid`, pass the [`Stat::mzxid`] of the last read or the czxid of a
    /// create. If you pass [`i64::MAX`], only missing nodes cause an event at once. All watchers of a
    /// node receive such an event, because events do not identify the request that they belong to.
    ///
    /// An event may arrive before this returns, even if the call then fails. Apart from that, nothing
    /// is watched if the call fails. It does not fail with [`NoAuth`](ErrorKind::NoAuth): instead, the
    /// server sends no events for a node that this client [may not read](Self::exists_w). To find out,
    /// read the node.
    pub fn set_watches(
        &self,
        relative_zxid: i64,
        paths: &[impl AsRef<str>],
        watcher: &Watcher,
    ) -> Result<()> {
        self.ask("watch", "several nodes", |batch| batch.set_watches(relative_zxid, paths, watcher))
    }

    /// Sets the data of a node. If a version is given, the node must have it. Fails with
    /// [`NoNode`](ErrorKind::NoNode) or [`BadVersion`](ErrorKind::BadVersion).
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<Stat> {
        self.ask("write", path, |batch| batch.set_data(path, data, version))
    }

    /// Lists the names of a node's children, in no particular order. Fails with
    /// [`NoNode`](ErrorKind::NoNode).
    pub fn get_children(&self, path: &str) -> Result<(Names, Stat)> {
        self.ask("list", path, |batch| batch.get_children(path, None))
    }

    /// Like [`get_children`](Self::get_children), with a watch: `watcher` receives one event when a
    /// child is created or deleted, or the node itself is deleted. If this fails, nothing is watched.
    pub fn get_children_w(&self, path: &str, watcher: &Watcher) -> Result<(Names, Stat)> {
        self.ask("list", path, |batch| batch.get_children(path, Some(watcher)))
    }

    /// Reads the ACL of a node. Fails with [`NoNode`](ErrorKind::NoNode).
    pub fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat)> {
        self.ask("read the ACL of", path, |batch| batch.get_acl(path))
    }

    /// Sets the ACL of a node. If a version is given, it must be that of the ACL ([`Stat::aversion`]).
    /// Fails with [`NoNode`](ErrorKind::NoNode), [`BadVersion`](ErrorKind::BadVersion) or
    /// [`InvalidAcl`](ErrorKind::InvalidAcl).
    pub fn set_acl(&self, path: &str, acl: &[Acl], version: Option<i32>) -> Result<Stat> {
        self.ask("set the ACL of", path, |batch| batch.set_acl(path, acl, version))
    }

    /// Returns the identities that the server has authenticated for this client: the scheme and the
    /// user of each, such as `("ip", "10.0.0.7")`. A user of the scheme `digest` is returned without the
    /// hash. Fails with [`Unimplemented`](ErrorKind::Unimplemented) on servers before 3.7.
    pub fn who_am_i(&self) -> Result<Vec<(String, String)>> {
        self.ask("read the identities of", "this client", |batch| batch.who_am_i())
    }

    /// Makes the server catch up with its leader: later reads include all earlier writes of all
    /// clients.
    pub fn sync(&self, path: &str) -> Result<()> {
        self.ask("sync", path, |batch| batch.sync(path))
    }

    /// Carries out all operations in the given order, or none of them. Fails with the error of the
    /// first operation that fails; its index is [`Error::failed_op`](crate::Error::failed_op).
    pub fn multi(&self, ops: &[Op<'_>]) -> Result<Vec<OpResult>> {
        self.wait_for(|batch| batch.multi(ops)).map_err(|error| {
            let failed = error.failed_op().and_then(|index| ops.get(index));
            let (verb, path) = failed.map_or(("carry out", "a multi"), Op::describe);
            error.of(verb, path)
        })
    }

    /// Adds credentials to this connection and, once the server has accepted them, to all later ones.
    /// If the server refuses them, this fails with [`AuthFailed`](ErrorKind::AuthFailed), the server
    /// ends the connection, and the session continues without these credentials.
    pub fn add_auth(&self, scheme: &str, secret: &[u8]) -> Result<()> {
        self.remember(Credential { scheme: scheme.to_owned(), secret: secret.to_owned() })
    }

    pub(crate) fn remember(&self, credential: Credential) -> Result<()> {
        let Credential { scheme, secret } = credential.clone();
        self.ask("add credentials of the scheme", &scheme, |batch| {
            let pending = batch.auth(&scheme, &secret);
            batch
                .calls
                .iter_mut()
                .for_each(|call| call.effect = Effect::Remember(credential.clone()));
            pending
        })
    }

    /// Ends the session. When this returns successfully, the session's ephemeral nodes are deleted and
    /// both threads of the client have ended. Earlier requests are carried out first. All later calls
    /// fail with [`ErrorKind::Closed`]. Closing again does nothing. In a callback, this only begins to
    /// close the client, and fails with [`ErrorKind::WouldBlock`].
    ///
    /// Without a connection, this waits for the next one, but not longer than the session can live
    /// without one. It fails if no server confirms the end of the session in time. In that case the
    /// servers end the session themselves, a session timeout after they last received a request of the
    /// session.
    pub fn close(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let deadline = sys::now() + self.timeout.min(FOREVER);
        let (pending, slot) = Pending::new(self.root(), deadline, NOTHING.into());
        shared.change(|core, now| core.close(Some(slot), deadline, now));
        let result = pending.wait();
        // The threads end at once, unless a callback delays them. This code may itself run in that
        // callback.
        if !must_not_wait()
            && sys::recv_deadline(&self.handle.ended, deadline)
                == Err(RecvTimeoutError::Disconnected)
        {
            for thread in std::mem::take(&mut *self.handle.threads.lock()) {
                // The thread has released everything. If it panicked, the panic has been printed.
                let _ = thread.join();
            }
        }
        result.map_err(|error| error.of("close the session with", &format!("{shared:?}")))
    }

    /// Calls `make`, and then sends all requests that it has created in one write, without waiting for
    /// the answers. The deadlines of the requests run from now on. If you wait for the last request
    /// first, the thread is woken only once, because the other answers have already arrived.
    ///
    /// ```no_run
    /// # fn example(zk: &zoolock_zookeeper::ZooKeeper) -> zoolock_zookeeper::Result<()> {
    /// let (data, names) = zk.submit(|batch| (batch.get_data("/a", None), batch.get_children("/a", None)));
    /// let names = names.wait()?;
    /// println!("{:?} {names:?}", data.wait()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit<T>(&self, make: impl FnOnce(&mut Batch<'_>) -> T) -> T {
        let mut batch = self.batch();
        let made = make(&mut batch);
        self.handle.shared.submit(std::mem::take(&mut batch.calls));
        made
    }

    fn batch(&self) -> Batch<'_> {
        Batch { root: self.root(), timeout: self.timeout, session: self.session, calls: Vec::new() }
    }

    fn ask<T: Send + 'static>(
        &self,
        verb: &'static str,
        path: &str,
        make: impl FnOnce(&mut Batch<'_>) -> Pending<T>,
    ) -> Result<T> {
        self.wait_for(make).map_err(|error| error.of(verb, path))
    }

    /// On a thread that must not wait, nothing is sent.
    fn wait_for<T: Send + 'static>(
        &self,
        make: impl FnOnce(&mut Batch<'_>) -> Pending<T>,
    ) -> Result<T> {
        match must_not_wait() {
            true => Err(ErrorKind::WouldBlock.into()),
            false => self.submit(make).wait(),
        }
    }

    // ---- the client

    /// Returns the servers of this client in normal form: sorted, with their ports, in lower case.
    #[must_use]
    pub fn servers(&self) -> String {
        self.handle.shared.hosts.servers()
    }

    /// Returns the client's chroot: all paths are below it. It is empty if there is none.
    #[must_use]
    pub fn root(&self) -> &str {
        self.handle.shared.root()
    }

    /// Returns what the client has sent and received since it was created.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.handle.shared.look(|core| core.counts())
    }

    /// Calls `callback` at this instant or soon after, on the client's timer thread. The callback
    /// must not block, because the timer waits for it. If the client is closed before that instant, the
    /// callback is not called.
    #[doc(hidden)]
    pub fn call_at(&self, when: Instant, callback: impl FnOnce() + Send + 'static) {
        self.handle.shared.call_at(when, callback);
    }

    /// Calls `callback` soon, on a separate short-lived thread. Callbacks run in the order of these
    /// calls. Use this for code that may block, because other callbacks must not. After a panic, the
    /// thread continues with the next callback. While one blocks, up to ten thousand others wait;
    /// further ones are dropped, and their number is logged.
    #[doc(hidden)]
    pub fn call_aside(&self, callback: impl FnOnce() + Send + 'static) {
        self.handle.shared.call_aside(Box::new(callback));
    }

    /// Calls `write`, which writes a line to the log, on another short-lived thread, because a logger
    /// may block. `write` is not called if the log's [maximum level](log::max_level) is below `level`.
    /// Up to a hundred lines may wait; further ones are dropped, and their number is logged.
    #[doc(hidden)]
    pub fn note(&self, level: Level, write: impl FnOnce() + Send + 'static) {
        self.handle.shared.note_by(level, Box::new(write));
    }

    // ---- the session

    /// Returns the session's id; 0 while there is none.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.handle.shared.look(|core| core.session_id())
    }

    /// Returns the id and the password of the session, or `None` while there is none.
    #[doc(hidden)]
    #[must_use]
    pub fn session_key(&self) -> Option<SessionKey> {
        self.handle.shared.look(|core| core.key())
    }

    /// Returns the session timeout that the servers granted.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.handle.shared.look(|core| core.timeout())
    }

    /// Returns the state of the client, which may change at any moment.
    #[must_use]
    pub fn state(&self) -> State {
        self.handle.shared.look(|core| core.state())
    }

    /// Sends the events of the session to `listener`, from now on and until the listener is dropped.
    /// Keep the listener, or it receives nothing. To receive all events, use
    /// [`Builder::subscribe`](crate::Builder::subscribe).
    pub fn subscribe(&self, listener: &Listener<SessionEvent>) {
        self.handle.shared.subscribe(listener);
    }

    /// Returns how long the session is certain to live. Reads the clocks, and sends nothing.
    ///
    /// Only writes renew a lease, including writes that fail. Without [`keep_lease`](Self::keep_lease),
    /// a lease runs out a session timeout after the last write, even if the session is healthy. With
    /// it, at least two fifths of the timeout are left as long as servers answer quickly.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.handle.shared.look(|core| {
            let (now, session_id) = (Moment::now(), core.session_id());
            let (term, left) = core.look_at_lease(now);
            let is_ours = self.session.is_none_or(|session| session == session_id);
            let valid_for = if is_ours { left } else { Duration::ZERO };
            let (end, renewable) = (now.monotonic + valid_for, core.lease_renewable());
            Lease { session_id, term, valid_for, end, renewable }
        })
    }

    /// Returns what is left of the current session's lease: for how long the servers cannot expire it.
    /// For an earlier lease, under which something was granted, see [`left_of`](Self::left_of).
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.lease().valid_for
    }

    /// Returns what is left of the `granted` lease, including renewals; zero forever once its term is
    /// over.
    #[must_use]
    pub fn left_of(&self, granted: &Lease) -> Duration {
        let lease = self.lease();
        if lease.term == granted.term { lease.valid_for } else { Duration::ZERO }
    }

    /// Renews the lease by a write that changes nothing, and returns the renewed lease. If servers
    /// answer quickly, at least two fifths of the timeout are left.
    pub fn renew_lease(&self) -> Result<Lease> {
        self.ask("renew the lease of", "the session", |batch| batch.renew_lease())?;
        Ok(self.lease())
    }

    /// Keeps the lease renewed until the returned value is dropped. Before the lease runs out, the
    /// client renews it by a write that changes nothing. If a server does not answer, the client
    /// changes to another one sooner than it otherwise would. If the lease runs out anyway, the client
    /// reports [`LeaseEnded`](crate::SessionEventKind::LeaseEnded).
    pub fn keep_lease(&self) -> LeaseKeeper {
        self.handle.shared.change(|core, now| core.keep_lease(now));
        let handle = Arc::clone(&self.handle);
        LeaseKeeper { handle }
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZooKeeper({:?})", self.handle.shared)
    }
}

/// How long a session is certain to live: before `end`, no server can expire it, whatever happens to
/// this client.
///
/// This is not "a timeout after the last answer": a server that has lost its leader still answers reads
/// for seconds, while the leader expires the session. The lease is counted from a request that a quorum
/// has certainly received, by whichever of this machine's clocks has advanced furthest. It relies on
/// two conditions that the client cannot check: the session timeout is at least four ticks of the
/// servers (`tickTime`, 2 s by default), and the speeds of the clocks differ by at most 2%.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The session.
    pub session_id: i64,
    /// Increases with each session, and whenever the lease is renewed after it had run out. What was
    /// granted in one term ends with that term, even if the lease is renewed later.
    pub term: u64,
    /// The rest of the lease; zero when it has run out.
    pub valid_for: Duration,
    /// When the lease runs out by the monotonic clock, unless it is renewed. The current instant if it
    /// has already run out.
    pub end: Instant,
    /// Writes sent from this instant on renew the lease; earlier ones do not. The instant may be in the
    /// past. As long as answers arrive, it is at most a quarter of the session timeout ahead.
    pub renewable: Instant,
}

/// Makes the client renew the lease, and keeps the client alive; see [`ZooKeeper::keep_lease`].
#[must_use = "the lease is kept as long as this lives"]
pub struct LeaseKeeper {
    handle: Arc<Handle>,
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.handle.shared.change(|core, _| core.release_lease());
    }
}

impl fmt::Debug for LeaseKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseKeeper(..)")
    }
}
