//! The public handle of a connection to ZooKeeper, and how it is built.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use zookeeper::Tls;
use zookeeper::{ErrorKind, Permissions, Stat, ZooKeeper};

use crate::acl::Acl;
use crate::contenders::{Below, Contender, Kind, contenders, remove, verify};
use crate::data::{self, REVOKE};
use crate::error::{Error, Result};
use crate::observer::{Observer, SharedObserver};
use crate::options::check_identity;
use crate::path::{self, LockPath};
use crate::session::{ClientState, Failure, Session, Stats, Subscription};
use crate::signal::Until;
use crate::sys::{self, thread};

/// What a client asks for unless told otherwise.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that the protocol can carry: milliseconds in 31 bits.
const MAX_MILLIS: u128 = i32::MAX as u128;

/// A client of a ZooKeeper ensemble: the source of locks. A cheap clone of one shared connection
/// that reconnects by itself.
///
/// # When it ends
/// [`close`](Client::close), or the last clone, lock and guard dropped, ends the session, and with
/// it every hold. A process that exits without it leaves that to the servers, which end the
/// session one session timeout later.
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
/// println!("held, with fencing token {}", guard.fencing_token()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    session: Arc<Session>,
    identity: Identity,
    observer: Option<SharedObserver>,
}

/// What a client's nodes say of their maker.
#[derive(Clone)]
enum Identity {
    Given(Arc<str>),
    /// `<host>/<process id>`, to be followed by the thread.
    Process(Arc<str>),
}

impl Client {
    /// Connects to a comma-separated list of `host:port` with an optional chroot, for example
    /// `"a:2181,[::1]:2182/chroot"`. The port defaults to 2181.
    ///
    /// Blocks until a server has answered, for at most `session_timeout`. Fails sooner if every
    /// server of the list was tried and none will do.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a malformed list or timeout, [`Error::Connect`] with what
    /// each server said, [`Error::Thread`] if the operating system refuses a thread.
    pub fn connect(hosts: &str, session_timeout: Duration) -> Result<Client> {
        Client::builder(hosts).session_timeout(session_timeout).connect()
    }

    /// A client with more settings. No I/O before [`ClientBuilder::connect`].
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

    /// The state of the connection. No I/O, never blocks.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.session().state()
    }

    /// The session timeout as the server gives it: servers keep what is asked for between their
    /// own bounds (`minSessionTimeout`, `maxSessionTimeout`; by default 2 and 20 ticks).
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.session().timeout()
    }

    /// A channel of the connection's changes from now on. It is disconnected when the client is
    /// closed. Up to 256 unread events are kept, later ones are dropped.
    pub fn subscribe(&self) -> Subscription {
        self.session().subscribe()
    }

    /// Counts since the client was made. No I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.session().stats()
    }

    /// Who holds the lock at `path`, of whatever type and whoever made its nodes, and who waits for
    /// it, in order. Empty if there is nothing. One list and one read a contender; blocks for at
    /// most a session timeout.
    ///
    /// A node that may not be read makes the whole answer [`Error::Denied`].
    ///
    /// What it says may be out of date when it arrives: for people and for
    /// [`revoke`](Client::revoke), not for deciding who may do what.
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
        contenders(self.session(), &LockPath::parse_node(path)?)
    }

    /// All locks at and below `root`, of whatever type and whoever made their nodes: for each its
    /// contenders in order, as [`contenders`](Client::contenders) has them, at least one. A path comes
    /// before what is below it, names in the order of their bytes. `root` may be `/`.
    ///
    /// A lock that nobody holds or waits for is not found: what is left of it is an empty directory, as
    /// any other. Nor is what has no part in a lock, such as [`Kind::Foreign`] and single nodes that no
    /// [`EphemeralLock`](crate::EphemeralLock) has made. What vanishes meanwhile is left out; it is no
    /// view of one instant.
    ///
    /// The iterator looks as it goes, at a hundred nodes in one write: one list a node, and one read
    /// a contender. It keeps what it has found of those, and the names of their neighbours, not the tree.
    /// Each step blocks for at most a session timeout.
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
    /// [`Error::InvalidPath`]. From the iterator [`Error::Denied`] for each lock and directory that may
    /// not be read, and goes on; any other is its last item: [`Error::Disconnected`] without a connection
    /// or an answer in time, [`Error::Closed`].
    pub fn locks_below(
        &self,
        root: &str,
    ) -> Result<impl Iterator<Item = Result<Vec<Contender>>> + use<>> {
        Ok(Below::new(Arc::clone(&self.session), LockPath::parse_directory(root)?))
    }

    /// Does this [fencing token](crate::Hold::fencing_token) belong to whoever holds the lock at
    /// `path` now, of whatever type? For third parties that were handed the token. With several
    /// holders, readers or permits of a semaphore, the token of any of them will do.
    ///
    /// Unlike [`contenders`](Client::contenders) it is not taken in by a server that has fallen
    /// behind: the answer is no older than the call. But it may be outdated as soon as it is there, so
    /// it cannot make a write safe: that takes a resource that each holder
    /// [claims](crate::Hold::fencing_token) with its token.
    ///
    /// False when the lock is free, or held with another token, and when the holder's session has ended,
    /// whether it knows of it or not.
    ///
    /// One refused write, one list and one read a contender; blocks for at most a third of the session
    /// timeout.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client, token: u64) -> zoolock::Result<()> {
    /// if !client.verify("/locks/nightly-report", token)? {
    ///     println!("whoever sent this does not hold the lock");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time, also
    /// from a server that has lost its leader; [`Error::Closed`], [`Error::Denied`].
    pub fn verify(&self, path: &str, token: u64) -> Result<bool> {
        verify(self.session(), &LockPath::parse_node(path)?, token)
    }

    /// Asks a holder to let go, by writing `__REVOKE__` to its node, as Curator does. It is up to
    /// the holder whether it listens, with [`Hold::revocation`](crate::Hold::revocation) or
    /// Curator's `makeRevocable`. It hears of it also if its connection is just away. Blocks for at most a third of the session timeout.
    ///
    /// Asks nobody but this contender. The node of an [`EphemeralLock`](crate::EphemeralLock) has the same name for
    /// every holder, so the call reads it first and compares the token. If the lock changes hands between that
    /// read and the write, the next holder is not asked, but its node then shows the identity of the holder before.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone, or is another holder's by now. [`Error::InvalidArgument`] for a node that is not a contender's. [`Error::Disconnected`] without a connection or an answer,
    /// [`Error::Closed`], [`Error::Denied`].
    pub fn revoke(&self, contender: &Contender) -> Result<()> {
        check_contender(contender)?;
        let path = contender.path.as_str();
        self.session.require_connection(path)?;
        let until = Until::within(self.session.patience());
        let asked = match contender.node.is_empty() {
            true => self.revoke_single(contender, &until),
            false => self.write(&contender.znode(), REVOKE, None, &until).map(drop),
        };
        asked.map_err(|failure| self.gone_or(path, failure))
    }

    /// Keeps what the node says of its maker, since its name does not tell. A node that takes its place begins with
    /// the same version, so the version does not protect that from the write. Hence the token in the data: its
    /// holder takes no notice.
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
            let read = self.session.ask_one(None, until, |batch| batch.get_data(path, None));
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
        self.session.ask_one(None, until, |batch| batch.set_data(path, data, version))
    }

    /// Takes the lock from a holder, or the place from a waiter, by deleting its node, and no other that is in
    /// its place by now. **The next one is let in at once, and the old holder may still be at work** until it
    /// hears of its loss: do it when that process is certainly dead, or when the resource checks
    /// [fencing tokens](crate::Hold::fencing_token). A waiter that lives queues again, behind the others.
    ///
    /// Not for an [`EphemeralLock`](crate::EphemeralLock): the next holder's node has the same name, and the old
    /// holder, who may not have heard of its loss, would delete that. Revoke it, or end the session of its holder.
    ///
    /// Two requests; blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone. [`Error::InvalidArgument`] for a node that is not a contender's, or
    /// an [`EphemeralLock`](crate::EphemeralLock)'s.
    /// [`Error::Disconnected`] without a connection or an answer: it may be deleted; [`Error::Closed`],
    /// [`Error::Denied`].
    pub fn break_lock(&self, contender: &Contender) -> Result<()> {
        check_contender(contender)?;
        let path = contender.path.as_str();
        if contender.node.is_empty() {
            let reason = format!("{path:?} is an EphemeralLock: end the session of its holder");
            return Err(invalid("contender", reason));
        }
        self.session.require_connection(path)?;
        let until = Until::within(self.session.patience());
        let removed = remove(&self.session, contender, &until);
        removed.map_err(|failure| self.gone_or(path, failure))
    }

    fn gone_or(&self, path: &str, failure: Failure) -> Error {
        match failure.is(ErrorKind::NoNode) {
            true => Error::NotHeld { path: path.to_owned() },
            false => self.session.error(path, failure),
        }
    }

    /// The data of the node at `path` and its version, for a [`Transaction`](crate::Transaction); none if it is
    /// not there. To whoever holds a lock of this client it is no older than what holders before have written.
    /// Takes one request; the first read after the session was resumed takes two, of which one is a refused write.
    /// Blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::Disconnected`] without a connection or an answer in time,
    /// [`Error::Closed`], [`Error::Denied`].
    pub fn read(&self, path: &str) -> Result<Option<(Vec<u8>, i32)>> {
        LockPath::parse_node(path)?;
        let until = Until::within(self.session.patience());
        match self.session.read(path, &until) {
            Ok((data, stat)) => Ok(Some((data, stat.version))),
            Err(failure) if failure.is(ErrorKind::NoNode) => Ok(None),
            Err(failure) => Err(self.session.error(path, failure)),
        }
    }

    /// Ends the session: every lock still held is lost with
    /// [`LossReason::ClientClosed`](crate::LossReason::ClientClosed), every waiting call returns
    /// [`Error::Closed`], and so do all later ones. Closing twice is fine.
    ///
    /// Blocks until the servers have ended the session, so that others can hold its locks, or for
    /// at most one session timeout. Without a connection it waits for the next one, until a session
    /// timeout after the last one broke; later it returns at once.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the servers could not be told. They end the session by themselves, one
    /// session timeout after they last heard of it, give or take a tick.
    pub fn close(&self) -> Result<()> {
        let after = self.session.timeout();
        let what = "confirmed end of the session";
        self.session.close(after).map_err(|_| Error::Timeout { what, after })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn observer(&self) -> Option<&SharedObserver> {
        self.observer.as_ref()
    }

    /// What the nodes of the calling thread say of their maker.
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
        f.debug_tuple("Client").field(&self.session).finish()
    }
}

/// Settings of a [`Client`]; made by [`Client::builder`].
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
    /// How long the servers keep the session, and with it the locks, of a client that they do not
    /// hear of. Default: 10 s. It should be four server ticks or more (8 s at the default tick of 2 s): a
    /// follower tells its leader every half tick whom it has heard of, an observer behind another one
    /// takes up to a tick, and a lease counts on that within a quarter of this.
    pub fn session_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.session_timeout = timeout;
        self
    }

    /// How long [`connect`](ClientBuilder::connect) may take. Default: the session timeout.
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Credentials, given to every server that the client connects to; for scheme `digest` the
    /// secret is `user:password`. May be called several times. Default: none.
    pub fn auth(mut self, scheme: impl Into<String>, secret: impl Into<Vec<u8>>) -> ClientBuilder {
        self.auth.push((scheme.into(), secret.into()));
        self
    }

    /// A user and a password that the servers know from their JAAS configuration: SASL, DIGEST-MD5. The
    /// client proves on every connection, before anything else, that it knows the password, which is not
    /// sent, and the server that it does, too. Kerberos is left out. The last call counts. Default: none.
    ///
    /// With [`Acl::creator`] the client's nodes belong to the user; an entry for somebody else has the
    /// scheme `sasl` and the user's name: `Acl::creator().and("sasl", "ann", Permissions::CONTEND)`.
    #[cfg(feature = "sasl")]
    pub fn sasl(mut self, user: impl Into<String>, password: impl Into<String>) -> ClientBuilder {
        self.sasl = Some((user.into(), password.into()));
        self
    }

    /// Speaks TLS with the servers, at the port that they have for it (`secureClientPort`). Default: plain
    /// TCP.
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

    /// The access control list of the nodes that the client makes. Default: [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> ClientBuilder {
        self.acl = acl;
        self
    }

    /// What the client's nodes say of their maker, for people who look. Default:
    /// `<host>/<process id>/<thread>`.
    pub fn identity(mut self, who: impl Into<String>) -> ClientBuilder {
        self.identity = Some(who.into());
        self
    }

    /// Has [`connect`](ClientBuilder::connect) fail if there is nothing at the chroot of the list of servers. Else the
    /// first lock makes it, and a client with a typing error there locks by itself. Default: false.
    pub fn existing_chroot(mut self, required: bool) -> ClientBuilder {
        self.existing_chroot = required;
        self
    }

    /// Who is told of every call for a lock of this client, and of the end of every hold: see
    /// [`observer`](crate::observer). The last call counts. Default: nobody.
    pub fn observer(mut self, observer: impl Observer + 'static) -> ClientBuilder {
        self.observer = Some(SharedObserver::new(observer));
        self
    }

    /// Connects. Blocks for at most the connect timeout.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] that names the setting which is not usable, [`Error::Refused`] if a server
    /// refused the credentials, [`Error::Connect`] with what each server said, [`Error::Thread`] if the
    /// operating system refuses a thread.
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
        Ok(Client { session: Session::new(zk, self.acl.entries), identity, observer })
    }

    /// Could a server know who the client is? By TLS it may, if it is shown a certificate.
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

/// Its nodes are made with the first lock, and stay.
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

/// A list that lets nobody take part would only show when a lease cannot be renewed.
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

/// Is there a node at the client's root? One that may not be seen is there.
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
        _ => Error::Connect { hosts, cause },
    }
}
