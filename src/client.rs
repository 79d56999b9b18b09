//! The public handle of a connection to ZooKeeper, and its builder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use zookeeper::Tls;
use zookeeper::{ConnectFailure, ErrorKind, Permissions, Stat, ZooKeeper};

use crate::acl::Acl;
use crate::contenders::{Below, Contender, Kind, contenders, remove, verify};
use crate::data::{self, REVOKE};
use crate::error::{Error, Result};
use crate::inner::{ClientState, Failure, Inner, Stats, Subscription};
use crate::observer::{Observer, SharedObserver};
use crate::options::check_identity;
use crate::path::{self, LockPath};
use crate::signal::Until;
use crate::sys::{self, thread};

/// The default session timeout.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest session timeout of the protocol: milliseconds in 31 bits.
const MAX_MILLIS: u128 = i32::MAX as u128;

/// A client of a ZooKeeper ensemble, from which locks are made. It is a cheaply cloned handle to
/// one shared connection, which reconnects by itself.
///
/// # When it ends
/// [`close`](Client::close) ends the session, and with it every hold. So does dropping the last
/// clone, lock and guard. If a process exits without either, the servers end the session one
/// session timeout later.
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
    inner: Arc<Inner>,
    identity: Identity,
    observer: Option<SharedObserver>,
}

/// The identity in a client's nodes.
#[derive(Clone)]
enum Identity {
    Given(Arc<str>),
    /// `<host>/<process id>`, to which the thread is appended.
    Process(Arc<str>),
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
    /// answer of each server; [`Error::Thread`] if the operating system refuses a thread.
    pub fn connect(hosts: &str, session_timeout: Duration) -> Result<Client> {
        Client::builder(hosts).session_timeout(session_timeout).connect()
    }

    /// Returns a builder for a client with more settings. No I/O before [`ClientBuilder::connect`].
    pub fn builder(hosts: &str) -> ClientBuilder {
        ClientBuilder {
            hosts: hosts.to_owned(),
            session_timeout: SESSION_TIMEOUT,
            connect_timeout: None,
            auth: Vec::new(),
            #[cfg(feature = "sasl")]
            sasl: None,
            #[cfg(feature = "tls")]
            tls: None,
            acl: Acl::open(),
            identity: None,
            existing_chroot: false,
            observer: None,
        }
    }

    /// Returns the state of the connection. No I/O, never blocks.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.inner.state()
    }

    /// Returns the session timeout that the servers granted. They limit the requested one to their
    /// bounds (`minSessionTimeout`, `maxSessionTimeout`; by default 2 and 20 ticks).
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.inner.requests.timeout()
    }

    /// Returns a channel of the connection's changes from now on. It is disconnected when the
    /// client is closed. It keeps up to 256 unread events and drops later ones.
    pub fn subscribe(&self) -> Subscription {
        self.inner.subscribe()
    }

    /// Returns counts since the client was created. No I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the holders and waiters of the lock at `path`, in order. The lock may be of any
    /// type, and its nodes of any client. Empty if there are none. Costs one list and one read for
    /// each contender; blocks for at most a session timeout.
    ///
    /// A node that may not be read makes the whole answer [`Error::Denied`].
    ///
    /// The answer may be out of date when it arrives. It is for people and for
    /// [`revoke`](Client::revoke), not for deciding who may act.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
    /// for contender in client.contenders("/locks/nightly-report")? {
    ///     let who = contender.identity.as_deref().unwrap_or("somebody");
    ///     println!("{who} {}", if contender.holds { "holds it" } else { "waits" });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time,
    /// [`Error::Closed`], [`Error::Denied`].
    pub fn contenders(&self, path: &str) -> Result<Vec<Contender>> {
        contenders(&self.inner.requests, &LockPath::parse_node(path)?)
    }

    /// Returns all locks at and below `root`, which may be `/`. The locks may be of any type, and
    /// their nodes of any client. Each item has the contenders of one lock in order, as
    /// [`contenders`](Client::contenders) returns them, and at least one. A path comes before the
    /// paths below it, and names are in the order of their bytes.
    ///
    /// A lock without holders and waiters is not found, because only an empty directory is left of
    /// it. Nodes that take no part in a lock are not found either, such as [`Kind::Foreign`] and
    /// single nodes that no [`EphemeralLock`](crate::EphemeralLock) created. Nodes that vanish
    /// meanwhile are left out. The result is not a snapshot of one instant.
    ///
    /// The iterator reads as it goes, a hundred nodes in one write: one list for each node, and one
    /// read for each contender. It keeps only their contents and the names of their neighbours in
    /// memory, not the tree. Each step blocks for at most a session timeout.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
    /// for contenders in client.locks_below("/locks")? {
    ///     match contenders {
    ///         Ok(contenders) => println!("{}: {}", contenders[0].path, contenders.len()),
    ///         Err(zoolock::Error::Denied { path }) => println!("{path}: not allowed"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. The iterator returns [`Error::Denied`] for each lock and directory
    /// that may not be read, and continues. Any other error is its last item:
    /// [`Error::Disconnected`] without a connection or an answer in time, [`Error::Closed`].
    pub fn locks_below(
        &self,
        root: &str,
    ) -> Result<impl Iterator<Item = Result<Vec<Contender>>> + use<>> {
        Ok(Below::new(Arc::clone(&self.inner), LockPath::parse_directory(root)?))
    }

    /// Returns whether this [fencing token](crate::Hold::fencing_token) belongs to the current
    /// holder of the lock at `path`, of any type. This is for third parties that were handed the
    /// token. If there are several holders, readers or permits of a semaphore, the token may be any
    /// of theirs.
    ///
    /// Unlike [`contenders`](Client::contenders), this is not misled by a server that lags: the
    /// answer is no older than the call. But it may be outdated as soon as it arrives, so it cannot
    /// make a write safe. Safe writes take a resource that each holder
    /// [claims](crate::Hold::fencing_token) with its token.
    ///
    /// False when the lock is free or held with another token. Also false when the holder's session
    /// has ended, even if the holder does not know that.
    ///
    /// Costs one refused write, one list and one read for each contender; blocks for at most a
    /// third of the session timeout.
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
    /// also from a server that has lost its leader; [`Error::Closed`], [`Error::Denied`].
    pub fn verify_token(&self, path: &str, token: u64) -> Result<bool> {
        verify(&self.inner.requests, &LockPath::parse_node(path)?, token)
    }

    /// Requests the lock from a holder, by writing `__REVOKE__` to its node, as Curator does. The
    /// holder decides whether to release it. It receives the request through
    /// [`Hold::revocation`](crate::Hold::revocation) or Curator's `makeRevocable`, even if its
    /// connection is down at the moment. Blocks for at most a third of the session timeout.
    ///
    /// Only this contender is asked. The node of an [`EphemeralLock`](crate::EphemeralLock) has the
    /// same name for every holder, so the call first reads it and compares the token. If the lock
    /// changes hands between that read and the write, the next holder is not asked. Its node then
    /// shows the identity of the previous holder.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone or belongs to another holder by now.
    /// [`Error::InvalidArgument`] for a node that is not a contender's. [`Error::Disconnected`]
    /// without a connection or an answer, [`Error::Closed`], [`Error::Denied`].
    pub fn revoke(&self, contender: &Contender) -> Result<()> {
        check_contender(contender)?;
        let path = contender.path.as_str();
        self.inner.requests.require_connection(path)?;
        let until = Until::within(self.inner.requests.patience());
        let asked = match contender.node.is_empty() {
            true => self.revoke_single(contender, &until),
            false => self.write(&contender.znode(), REVOKE, None, &until).map(drop),
        };
        asked.map_err(|failure| self.gone_or(path, failure))
    }

    /// Asks the holder of a single node. The request keeps the identity of the node's creator,
    /// which the name does not tell. A node that replaces this one starts with the same version, so
    /// the version does not protect it from the write. Hence the data carry the token, and the
    /// holder of another token ignores the request.
    fn revoke_single(&self, contender: &Contender, until: &Until) -> Result<(), Failure> {
        let (path, token) = (contender.path.as_str(), contender.token);
        let check = |stat: &Stat| match stat.czxid.unsigned_abs() == token {
            true => Ok(()),
            false => {
                sys::reached("a request is for an earlier holder");
                Err(Failure::Refused(ErrorKind::NoNode.into()))
            }
        };
        loop {
            let read = self.inner.requests.ask_one(None, until, |batch| batch.get_data(path, None));
            let (data, stat) = read?;
            check(&stat)?;
            let request = data::revoke_single(&data, token);
            match self.write(path, &request, Some(stat.version), until) {
                Err(failure) if failure.is(ErrorKind::BadVersion) => {
                    sys::reached("a request meets another write");
                }
                written => return check(&written?),
            }
        }
    }

    fn write(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
        until: &Until,
    ) -> Result<Stat, Failure> {
        self.inner.requests.ask_one(None, until, |batch| batch.set_data(path, data, version))
    }

    /// Takes the lock from a holder, or the queue position from a waiter, by deleting its node. A
    /// node that has taken its place is not deleted. **The next contender is let in at once, and
    /// the old holder may still be at work** until it learns of its loss. Use this when that
    /// process is certainly dead, or when the resource checks [fencing
    /// tokens](crate::Hold::fencing_token). A living waiter queues again, behind the others.
    ///
    /// This does not work for an [`EphemeralLock`](crate::EphemeralLock). The next holder's node
    /// has the same name, and the old holder might delete it before it learns of its loss. Revoke
    /// the holder, or end its session.
    ///
    /// Costs two requests; blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone. [`Error::InvalidArgument`] for a node that is not a
    /// contender's, or that is an [`EphemeralLock`](crate::EphemeralLock)'s.
    /// [`Error::Disconnected`] without a connection or an answer: the node may be deleted;
    /// [`Error::Closed`], [`Error::Denied`].
    pub fn break_lock(&self, contender: &Contender) -> Result<()> {
        check_contender(contender)?;
        let path = contender.path.as_str();
        if contender.node.is_empty() {
            let reason = format!("{path:?} is an EphemeralLock: end the session of its holder");
            return Err(invalid("contender", reason));
        }
        self.inner.requests.require_connection(path)?;
        let until = Until::within(self.inner.requests.patience());
        let removed = remove(&self.inner.requests, contender, &until);
        removed.map_err(|failure| self.gone_or(path, failure))
    }

    fn gone_or(&self, path: &str, failure: Failure) -> Error {
        match failure.is(ErrorKind::NoNode) {
            true => Error::NotHeld { path: path.to_owned() },
            false => self.inner.requests.error(path, failure),
        }
    }

    /// Returns the data of the node at `path` and its version, for a
    /// [`Transaction`](crate::Transaction), or `None` if there is no node. For the holder of a lock
    /// of this client, the answer is no older than the writes of earlier holders. Costs one
    /// request; the first read after a resumed session costs two, one of them a refused write.
    /// Blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time,
    /// [`Error::Closed`], [`Error::Denied`].
    pub fn read(&self, path: &str) -> Result<Option<(Vec<u8>, i32)>> {
        LockPath::parse_node(path)?;
        let until = Until::within(self.inner.requests.patience());
        match self.inner.requests.read(path, &until) {
            Ok((data, stat)) => Ok(Some((data, stat.version))),
            Err(failure) if failure.is(ErrorKind::NoNode) => Ok(None),
            Err(failure) => Err(self.inner.requests.error(path, failure)),
        }
    }

    /// Ends the session. Every lock still held is lost with
    /// [`LossReason::ClientClosed`](crate::LossReason::ClientClosed). Waiting and later calls
    /// return [`Error::Closed`]. Closing twice is allowed.
    ///
    /// Blocks until the servers have ended the session, so that others can hold its locks, and for
    /// at most one session timeout. Without a connection it waits for the next one, until one
    /// session timeout after the connection broke. After that it returns at once.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the servers could not be told. They end the session themselves, one
    /// session timeout after they last heard from it, give or take a tick.
    pub fn close(&self) -> Result<()> {
        let after = self.inner.requests.timeout();
        let what = "confirmed end of the session";
        self.inner.close(after).map_err(|_| Error::Timeout { what, after })
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn observer(&self) -> Option<&SharedObserver> {
        self.observer.as_ref()
    }

    /// Returns the identity in the nodes of the calling thread.
    pub(crate) fn identity(&self) -> Arc<str> {
        let process = match &self.identity {
            Identity::Given(identity) => return Arc::clone(identity),
            Identity::Process(process) => process,
        };
        let thread = thread::current();
        match thread.name() {
            Some(name) => format!("{process}/{name}").into(),
            None => format!("{process}/{:?}", thread.id()).into(),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.inner).finish()
    }
}

/// Settings of a [`Client`]; created by [`Client::builder`].
///
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Acl, Client};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::builder("zk1:2181,zk2:2181,zk3:2181/my-app")
///     .session_timeout(Duration::from_secs(10))
///     .auth("digest", "my-app:secret")
///     .acl(Acl::creator())
///     .connect()?;
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "does nothing until connect()"]
pub struct ClientBuilder {
    hosts: String,
    session_timeout: Duration,
    connect_timeout: Option<Duration>,
    auth: Vec<(String, Vec<u8>)>,
    #[cfg(feature = "sasl")]
    sasl: Option<(String, String)>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    acl: Acl,
    identity: Option<String>,
    existing_chroot: bool,
    observer: Option<SharedObserver>,
}

impl ClientBuilder {
    /// Sets how long the servers keep the session, and with it the locks, of a silent client.
    /// Default: 10 s. It should be four server ticks or more, which is 8 s at the default tick of 2
    /// s. A follower tells its leader every half tick which clients it has heard from, and an
    /// observer behind another one takes up to a tick. A lease relies on that within a quarter of
    /// this timeout.
    pub fn session_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](ClientBuilder::connect) may take. Default: the session timeout.
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Adds credentials, which are sent to every server that the client connects to. For scheme
    /// `digest` the secret is `user:password`. May be called several times. Default: none.
    pub fn auth(mut self, scheme: impl Into<String>, secret: impl Into<Vec<u8>>) -> ClientBuilder {
        self.auth.push((scheme.into(), secret.into()));
        self
    }

    /// Sets a user and a password that the servers know from their JAAS configuration, for SASL
    /// with DIGEST-MD5. On every connection, before anything else, client and server prove to each
    /// other that they know the password, which is not sent. Kerberos is not supported. The last
    /// call counts. Default: none.
    ///
    /// With [`Acl::creator`] the client's nodes belong to the user. An entry for another user has
    /// the scheme `sasl` and the user's name:
    /// `Acl::creator().and("sasl", "ann", Permissions::CONTEND)`.
    #[cfg(feature = "sasl")]
    pub fn sasl(mut self, user: impl Into<String>, password: impl Into<String>) -> ClientBuilder {
        self.sasl = Some((user.into(), password.into()));
        self
    }

    /// Uses TLS to the servers, at their port for it (`secureClientPort`). Default: plain TCP.
    ///
    /// ```no_run
    /// use zoolock::{Client, Tls};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = Tls::new().roots_pem(&std::fs::read("ca.pem")?);
    /// let client = Client::builder("zk1:2182,zk2:2182").tls(tls).connect()?;
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> ClientBuilder {
        self.tls = Some(tls);
        self
    }

    /// Sets the access control list of the nodes that the client creates. Default: [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> ClientBuilder {
        self.acl = acl;
        self
    }

    /// Sets the identity in the client's nodes, which tells people who created them. Default:
    /// `<host>/<process id>/<thread>`.
    pub fn identity(mut self, who: impl Into<String>) -> ClientBuilder {
        self.identity = Some(who.into());
        self
    }

    /// Makes [`connect`](ClientBuilder::connect) fail if there is no node at the chroot. Otherwise
    /// the first lock creates it, and a client with a misspelled chroot does not exclude any other.
    /// Default: false.
    pub fn existing_chroot(mut self, required: bool) -> ClientBuilder {
        self.existing_chroot = required;
        self
    }

    /// Sets an observer, which receives every call for a lock of this client and the end of every
    /// hold: see [`observer`](crate::observer). The last call counts. Default: none.
    pub fn observer(mut self, observer: impl Observer + 'static) -> ClientBuilder {
        self.observer = Some(SharedObserver::new(observer));
        self
    }

    /// Connects. Blocks for at most the connect timeout.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], which names the setting that cannot be used; [`Error::Refused`]
    /// if a server refused the credentials; [`Error::Connect`] with the answer of each server;
    /// [`Error::Thread`] if the operating system refuses a thread.
    pub fn connect(self) -> Result<Client> {
        check_timeout("session timeout", self.session_timeout)?;
        let connect_timeout = self.connect_timeout.unwrap_or(self.session_timeout);
        check_timeout("connect timeout", connect_timeout)?;
        check_chroot(&self.hosts)?;
        check_acl(&self.acl, self.has_credentials())?;
        let identity = match self.identity {
            Some(who) => {
                check_identity(&who)?;
                Identity::Given(Arc::from(who))
            }
            None => Identity::Process(sys::program().into()),
        };
        let mut builder = ZooKeeper::builder(&self.hosts)
            .session_timeout(self.session_timeout)
            .connect_timeout(connect_timeout);
        for (scheme, secret) in &self.auth {
            builder = builder.auth(scheme, secret);
        }
        #[cfg(feature = "sasl")]
        if let Some((user, password)) = &self.sasl {
            if user.is_empty() {
                return Err(invalid("SASL user", "it has no name"));
            }
            builder = builder.sasl(user, password);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let wrong =
                |error: zookeeper::Error| invalid("TLS", error.reason().unwrap_or_default());
            tls.check().map_err(wrong)?;
            builder = builder.tls(tls.clone());
        }
        let failed = |error| failed_to_connect(&self.hosts, &error);
        let zk = builder.connect().map_err(failed)?;
        if self.existing_chroot && !has_root(&zk, connect_timeout).map_err(failed)? {
            let (_, chroot) = self.hosts.split_once('/').unwrap_or_default();
            return Err(invalid("host list", format!("there is no chroot \"/{chroot}\"")));
        }
        let observer = self.observer;
        Ok(Client { inner: Inner::new(zk, self.acl.entries), identity, observer })
    }

    /// Returns whether a server could know who the client is. With TLS it may, by a client
    /// certificate.
    fn has_credentials(&self) -> bool {
        let has_credentials = !self.auth.is_empty();
        #[cfg(feature = "sasl")]
        let has_credentials = has_credentials || self.sasl.is_some();
        #[cfg(feature = "tls")]
        let has_credentials = has_credentials || self.tls.is_some();
        has_credentials
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("hosts", &self.hosts)
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("acl", &self.acl)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
    let reason = reason.into();
    Error::InvalidArgument { what, reason }
}

fn check_timeout(what: &'static str, timeout: Duration) -> Result<()> {
    match timeout.as_millis() {
        0 => Err(invalid(what, format!("{timeout:?} is less than a millisecond"))),
        millis if millis > MAX_MILLIS => {
            let reason = format!("{timeout:?} is more than ZooKeeper can carry (24.8 days)");
            Err(invalid(what, reason))
        }
        _ => Ok(()),
    }
}

/// Checks the chroot. Its nodes are created with the first lock, and stay.
fn check_chroot(hosts: &str) -> Result<()> {
    let root = hosts.find('/').map_or("", |at| &hosts[at..]);
    let reason = |reason| invalid("host list", format!("the chroot {root:?} is invalid: {reason}"));
    path::check_parts(root).map_err(reason)
}

fn check_contender(contender: &Contender) -> Result<()> {
    match contender.kind {
        Kind::Foreign => {
            let reason = format!("{:?} is not the node of a lock", contender.node);
            Err(invalid("contender", reason))
        }
        _ => Ok(()),
    }
}

/// Checks that the ACL lets a client take part. Otherwise the mistake would show only when a lease
/// cannot be renewed.
fn check_acl(acl: &Acl, has_credentials: bool) -> Result<()> {
    let contends = |entry: &zookeeper::Acl| entry.permissions.contains(Permissions::CONTEND);
    if !acl.entries.iter().any(contends) {
        let reason = "no entry has READ, WRITE, CREATE and DELETE, which a lock's owner needs";
        return Err(invalid("ACL", reason));
    }
    if acl.entries.iter().any(|entry| entry.scheme == "auth") && !has_credentials {
        let reason = "scheme \"auth\" means the creator's credentials, and none were given";
        return Err(invalid("ACL", reason));
    }
    Ok(())
}

/// Returns whether there is a node at the client's root. A node that may not be read counts as one.
fn has_root(zk: &ZooKeeper, within: Duration) -> zookeeper::Result<bool> {
    match zk.with_timeout(within).exists("/") {
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(true),
        found => Ok(found?.is_some()),
    }
}

fn failed_to_connect(hosts: &str, error: &zookeeper::Error) -> Error {
    let cause = error.reason().map_or_else(|| error.to_string(), str::to_owned);
    let hosts = hosts.to_owned();
    match error.kind() {
        ErrorKind::BadArguments => invalid("host list", cause),
        ErrorKind::AuthFailed => Error::Refused { hosts, cause },
        ErrorKind::NoThread => Error::Thread { cause },
        _ => {
            let failure = error.connect_failure().unwrap_or(ConnectFailure::Silent);
            Error::Connect { hosts, cause, failure }
        }
    }
}
