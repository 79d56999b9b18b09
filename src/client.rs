//! The public handle of a connection to ZooKeeper.

mod builder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zookeeper::ErrorKind;

use crate::base::contender::Contender;
use crate::base::data::REVOKE;
use crate::base::error::{Error, Result};
use crate::base::path::LockPath;
use crate::base::sys::thread;
use crate::base::version::Version;
use crate::base::wait::Until;
use crate::contenders::{contenders, paths_below, remove, verify};
use crate::session::{ClientState, Failure, Inner, Requests, Stats, Subscription};
pub use builder::ClientBuilder;

/// A client of a ZooKeeper ensemble, which creates locks. It is a cheaply cloned handle to one
/// shared connection, which reconnects by itself.
///
/// The methods that return a state, an id or counts read only memory. They send no request and
/// never block.
///
/// # When it ends
/// [`close`](Client::close) ends the session, and with it every hold. Dropping the last clone, lock
/// and guard of a client does the same, but does not wait for the answer. If a process exits
/// without doing either, the servers end the session one session timeout later.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedLock};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let lock = DistributedLock::new(&client, "/locks/nightly-report")?;
/// let guard = lock.acquire()?;
/// println!("held, with fencing token {}", guard.fencing_token());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the session ends when the last clone is dropped"]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    /// `<host>/<process id>`. The default identity consists of this text and the thread.
    process: Arc<str>,
    pub(crate) builder: Arc<ClientBuilder>,
}

impl Client {
    /// Connects to a comma-separated list of `host:port` with an optional chroot, for example
    /// `"a:2181,[::1]:2182/chroot"`. The port defaults to 2181.
    ///
    /// Blocks until a server has answered, for at most `session_timeout`. Fails sooner if every
    /// server of the list was tried and none can be used.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a malformed list or timeout; [`Error::Connect`] with the
    /// answer of each server; [`Error::SpawnThread`] if the operating system cannot create a
    /// thread.
    pub fn connect(hosts: impl AsRef<str>, session_timeout: Duration) -> Result<Client> {
        Client::builder(hosts).session_timeout(session_timeout).connect()
    }

    /// Returns a builder for a client with more settings. Nothing is sent before
    /// [`ClientBuilder::connect`].
    pub fn builder(hosts: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(hosts.as_ref())
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.inner.state()
    }

    /// Returns the session timeout that the servers granted. They limit the requested one to their
    /// bounds (`minSessionTimeout`, `maxSessionTimeout`; by default 2 and 20 ticks). If the granted
    /// timeout differs, a [log line](crate::guide::operating) reports it. Before the first
    /// connection, this returns the requested timeout.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.inner.requests.timeout()
    }

    /// Returns the id of the current session, which is also in every [`Contender`] of this client.
    /// Returns `None` before the first session.
    #[must_use]
    pub fn session_id(&self) -> Option<i64> {
        Some(self.inner.requests.session_id()).filter(|id| *id != 0)
    }

    /// Returns a channel that receives the changes of the connection from now on. It is
    /// disconnected when the client is closed. It keeps up to 256 unread events and drops later
    /// ones.
    pub fn subscribe(&self) -> Subscription {
        self.inner.subscribers.subscribe()
    }

    /// Returns what the client has counted since it was created.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the holders and waiters of the lock at `path`, in order. The lock may be of any
    /// type, and its nodes of any client. Nodes that other programs created for other purposes are
    /// left out. The list is empty if there are none. Costs one list request and one read for each
    /// contender; blocks for at most a session timeout.
    ///
    /// If the client may not read one of the nodes, the whole call returns
    /// [`Error::PermissionDenied`].
    ///
    /// The answer may be out of date when it arrives. Use the answer for display and for
    /// [`revoke`](Client::revoke), but not to decide who may act.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
    /// for contender in client.contenders("/locks/nightly-report")? {
    ///     let who = contender.identity.as_deref().unwrap_or("unknown client");
    ///     println!("{who} {}", if contender.holds { "holds it" } else { "waits" });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time,
    /// [`Error::Closed`], [`Error::PermissionDenied`].
    pub fn contenders(&self, path: impl AsRef<str>) -> Result<Vec<Contender>> {
        contenders(&self.inner.requests, &LockPath::parse_node(path.as_ref())?)
    }

    /// Returns the paths directly below `directory` at which there can be locks, sorted by their
    /// bytes. `directory` may be `/`. A free lock cannot be distinguished from other nodes;
    /// therefore, all paths are returned except those of contenders. `zoolock list -r` shows all
    /// locks of a tree. Costs one list request; blocks for at most a session timeout.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
    /// for path in client.paths_below("/locks")? {
    ///     println!("{path}: {} contenders", client.contenders(&path)?.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`contenders`](Client::contenders).
    pub fn paths_below(&self, directory: impl AsRef<str>) -> Result<Vec<String>> {
        let directory = LockPath::parse_directory(directory.as_ref())?;
        paths_below(&self.inner.requests, &directory)
    }

    /// Returns whether this [fencing token](crate::Hold::fencing_token) belongs to the current
    /// holder of the lock at `path`, of any type. Use this in programs that do not hold the lock
    /// but were given the token. If the lock has several holders (readers, or permits of a
    /// semaphore), the token may belong to any of them.
    ///
    /// Unlike [`contenders`](Client::contenders), this is not misled by a server that lags: the
    /// answer is no older than the call. But it may be outdated as soon as it arrives, so it cannot
    /// make a write safe. Safe writes require a resource with which each holder
    /// [registers](crate::Hold::fencing_token) its token.
    ///
    /// Returns false when the lock is free or held with another token. Also returns false when the
    /// holder's session has ended, even if the holder has not detected that.
    ///
    /// Costs one write that the servers refuse, one list request, and one read for each contender;
    /// blocks for at most a third of the session timeout.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client, token: u64) -> zoolock::Result<()> {
    /// if !client.verify_token("/locks/nightly-report", token)? {
    ///     println!("the sender does not hold the lock");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time,
    /// also if the server has lost its leader; [`Error::Closed`], [`Error::PermissionDenied`].
    pub fn verify_token(&self, path: impl AsRef<str>, token: u64) -> Result<bool> {
        verify(&self.inner.requests, &LockPath::parse_node(path.as_ref())?, token)
    }

    /// Asks a holder to release the lock, by writing `__REVOKE__` to the holder's node, as Curator
    /// does. The holder decides whether to release it. It receives the request through
    /// [`Hold::revocation`](crate::Hold::revocation) or Curator's `makeRevocable`, even if its
    /// connection is currently down. Blocks for at most a third of the session timeout.
    ///
    /// The request reaches only this contender. It cannot be sent to the holder of an
    /// [`EphemeralLock`](crate::EphemeralLock), because the node of the next holder has the same
    /// name, and may already be there when the write arrives. End the session of that holder
    /// instead.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone. [`Error::InvalidArgument`] for the node of an
    /// [`EphemeralLock`](crate::EphemeralLock).
    /// [`Error::Disconnected`] without a connection, [`Error::MaybeDone`] without an answer,
    /// [`Error::Closed`], [`Error::PermissionDenied`].
    pub fn revoke(&self, contender: &Contender) -> Result<()> {
        self.at_node(contender, |requests, until| {
            let path = contender.znode();
            let written =
                requests.ask_one(None, until, |batch| batch.set_data(&path, REVOKE, None));
            written.map(drop)
        })
    }

    /// Takes the lock from a holder, or the queue position from a waiter, by deleting the
    /// contender's node. If another node has replaced it, the new node is not deleted. **The next
    /// contender is admitted at once, and the old holder may still be at work** until it detects
    /// the loss. Use this only if that process is certainly dead, or if the resource checks
    /// [fencing tokens](crate::Hold::fencing_token). A waiter that is alive queues again, behind
    /// the others.
    ///
    /// This does not work for an [`EphemeralLock`](crate::EphemeralLock). The node of the next
    /// holder has the same name, and the old holder might delete that node before it detects its
    /// loss. End the session of the holder instead.
    ///
    /// Costs two requests; blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone. [`Error::InvalidArgument`] for the node of an
    /// [`EphemeralLock`](crate::EphemeralLock).
    /// [`Error::Disconnected`] without a connection, [`Error::MaybeDone`] without an answer,
    /// [`Error::Closed`], [`Error::PermissionDenied`].
    pub fn break_lock(&self, contender: &Contender) -> Result<()> {
        self.at_node(contender, |requests, until| remove(requests, contender, until))
    }

    /// Sends a request about the node of one contender.
    fn at_node(
        &self,
        contender: &Contender,
        send: impl FnOnce(&Requests, &Until) -> Result<(), Failure>,
    ) -> Result<()> {
        let (path, requests) = (contender.path.as_str(), &*self.inner.requests);
        if contender.node.is_empty() {
            let reason = format!(
                "{path:?} is an EphemeralLock, which can neither be revoked nor broken: end the session of its holder"
            );
            return Err(Error::invalid("contender", reason));
        }
        requests.require_connection(path)?;
        let until = Until::within(requests.patience());
        send(requests, &until).map_err(|failure| match failure.is(ErrorKind::NoNode) {
            true => Error::not_held(path),
            false => requests.error_of_write(path, failure),
        })
    }

    /// Returns the data and the version of the node at `path`, or `None` if there is no node. A
    /// [`Transaction`](crate::Transaction) can require the version. Each write increments the
    /// version, and a new node has 0. If a lock of this client is held, the answer is no older than
    /// the writes of earlier holders. Costs one request; the first read after a resumed session
    /// costs two, one of them a write that the servers refuse. Blocks for at most a third of the
    /// session timeout.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time,
    /// [`Error::Closed`], [`Error::PermissionDenied`].
    pub fn read(&self, path: impl AsRef<str>) -> Result<Option<(Vec<u8>, Version)>> {
        let path = path.as_ref();
        LockPath::parse_node(path)?;
        let until = Until::within(self.inner.requests.patience());
        match self.inner.requests.read(path, &until) {
            Ok((data, stat)) => Ok(Some((data, stat.version.into()))),
            Err(failure) if failure.is(ErrorKind::NoNode) => Ok(None),
            Err(failure) => Err(self.inner.requests.error(path, failure)),
        }
    }

    /// Returns the identities that the servers have authenticated for this client: the scheme and
    /// the user of each, such as `("digest", "billing")`. The servers grant permissions to these
    /// identities; see [`Acl`](crate::Acl). Sends one request; blocks for at most a third of the
    /// session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer in time, [`Error::Closed`], and
    /// [`Error::ZooKeeper`] from servers before 3.7, which do not support the request.
    pub fn who_am_i(&self) -> Result<Vec<(String, String)>> {
        let requests = &self.inner.requests;
        let until = Until::within(requests.patience());
        let told = requests.ask_one(None, &until, |batch| batch.who_am_i());
        told.map_err(|failure| requests.error("/", failure))
    }

    /// Ends the session. Every lock still held is lost with
    /// [`LossReason::ClientClosed`](crate::LossReason::ClientClosed). Waiting and later calls
    /// return [`Error::Closed`]. Closing a client again is allowed, and returns `Ok` even if the
    /// servers could not be notified.
    ///
    /// Blocks until the servers have ended the session, after which others can hold its locks, and
    /// for at most one session timeout. Without a connection it waits for the next one, until one
    /// session timeout after the connection broke. After that time it returns at once.
    ///
    /// # Errors
    /// [`Error::CloseTimeout`] if the servers could not be notified. They end the session
    /// themselves, one session timeout after the last message that they received from the client,
    /// give or take a tick.
    pub fn close(&self) -> Result<()> {
        self.close_within(self.inner.requests.timeout())
    }

    /// Like [`close`](Client::close), but blocks for at most `after`.
    ///
    /// # Errors
    /// As [`close`](Client::close).
    pub fn close_within(&self, after: Duration) -> Result<()> {
        self.inner.close(after).map_err(|_| Error::CloseTimeout { after })
    }

    /// Returns the identity that is written to the nodes of the calling thread.
    pub(crate) fn identity(&self) -> Arc<str> {
        if let Some(identity) = &self.builder.identity {
            return Arc::clone(identity);
        }
        let (process, thread) = (&self.process, thread::current());
        // The number of a thread is available only as text: `ThreadId(7)`.
        let id = format!("{:?}", thread.id());
        let number = id.trim_matches(|character: char| !character.is_ascii_digit());
        format!("{process}/{}#{number}", thread.name().unwrap_or_default()).into()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.inner).finish()
    }
}
