//! The settings of a client, and how they are checked.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use zookeeper::Tls;
use zookeeper::{ConnectFailure, ErrorKind, Permissions, ZooKeeper};

use super::Client;
use crate::base::acl::Acl;
use crate::base::error::{Error, Result};
use crate::base::options::check_identity;
use crate::base::path;
use crate::base::sys;
use crate::observer::Observer;
use crate::session::{Inner, Registrar};

/// The default session timeout.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum of the protocol: milliseconds in 31 bits.
const MAX_MILLIS: u128 = i32::MAX as u128;

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
    pub(crate) auth: Vec<(String, Vec<u8>)>,
    #[cfg(feature = "sasl")]
    pub(crate) sasl: Option<(String, String)>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    acl: Acl,
    pub(super) identity: Option<Arc<str>>,
    existing_chroot: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// The variables of the TLS settings, if these were read from files.
    pub(crate) tls_vars: Vec<(String, OsString)>,
    pub(crate) make_registrar: Option<MakeRegistrar>,
}

/// Creates the connection to a reaper for a client with these settings.
pub(crate) type MakeRegistrar =
    Arc<dyn Fn(&ClientBuilder) -> Result<Arc<dyn Registrar>> + Send + Sync>;

impl ClientBuilder {
    pub(super) fn new(hosts: &str) -> ClientBuilder {
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
            tls_vars: Vec::new(),
            make_registrar: None,
        }
    }

    /// Sets the session timeout: how long the servers keep the session, and with it the locks, of a
    /// client from which they receive nothing. Default: 10 s. Servers limit this time;
    /// [`Client::session_timeout`] returns what they granted. It should be at least four server
    /// ticks, which is 8 s at the default tick of 2 s. The reason is that a follower reports to its
    /// leader only every half tick which clients have sent something, and an observer behind
    /// another observer takes up to a tick. A lease relies on this report arriving within a quarter
    /// of the session timeout.
    pub fn session_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](ClientBuilder::connect) may take. Default: the session timeout.
    /// Has no effect on [`connect_lazily`](ClientBuilder::connect_lazily), which does not wait.
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Adds credentials, which are sent unencrypted to every server that the client connects to:
    /// without TLS, anyone who can intercept network traffic can read them. For scheme `digest` the
    /// secret is `user:password`. May be called several times. Default: none.
    pub fn auth(mut self, scheme: impl Into<String>, secret: impl Into<Vec<u8>>) -> ClientBuilder {
        self.auth.push((scheme.into(), secret.into()));
        self
    }

    /// Sets a user and a password that are in the servers' JAAS configuration, for SASL with
    /// DIGEST-MD5. On every connection, before anything else, client and server prove to each other
    /// that they know the password, which itself is not sent. Kerberos is not supported. Each call
    /// replaces the previous one. Default: none.
    ///
    /// With [`Acl::creator`] the client's nodes belong to the user. An entry for another user has
    /// the scheme `sasl` and the user's name:
    /// `Acl::creator().and("sasl", "ann", Permissions::CONTEND)`.
    #[cfg(feature = "sasl")]
    pub fn sasl(mut self, user: impl Into<String>, password: impl Into<String>) -> ClientBuilder {
        self.sasl = Some((user.into(), password.into()));
        self
    }

    /// Connects to the servers with TLS, at their TLS port (`secureClientPort`). Default: plain
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
        self.tls_vars.clear();
        self
    }

    /// Sets the access control list of the nodes that the client creates. Default: [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> ClientBuilder {
        self.acl = acl;
        self
    }

    /// Sets the identity that the client's nodes contain, for operators. Default:
    /// `<host>/<process id>/<thread name>#<number>`. The number is that of the thread's
    /// [`ThreadId`](std::thread::ThreadId), which is unique within the process.
    pub fn identity(mut self, who: impl Into<String>) -> ClientBuilder {
        self.identity = Some(who.into().into());
        self
    }

    /// Makes [`connect`](ClientBuilder::connect) fail if there is no node at the chroot. Without
    /// this setting, the first lock creates that node, and a client with a typing error in its
    /// chroot does not share locks with any other client. Default: false.
    pub fn existing_chroot(mut self, required: bool) -> ClientBuilder {
        self.existing_chroot = required;
        self
    }

    /// Sets an observer that is notified of every call for a lock of this client, and of the end of
    /// every hold: see [`observer`](crate::observer). Each call replaces the previous one. Default:
    /// none.
    pub fn observer(mut self, observer: impl Observer + 'static) -> ClientBuilder {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Returns the list of servers, as it was given.
    #[must_use]
    pub fn hosts(&self) -> &str {
        &self.hosts
    }

    /// Returns the session timeout that the client will request.
    #[must_use]
    pub fn requested_timeout(&self) -> Duration {
        self.session_timeout
    }

    /// Returns the settings of TLS, if the client will use it.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_settings(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Connects. Blocks for at most the connect timeout.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], which names the setting that cannot be used;
    /// [`Error::Connect`] with the answer of each server, including one that refused the
    /// credentials; [`Error::SpawnThread`] if the operating system cannot create a thread.
    pub fn connect(self) -> Result<Client> {
        self.build(zookeeper::Builder::connect)
    }

    /// Creates a client that connects in the background, for programs that must be able to start
    /// without the servers. Its state is [`Suspended`](crate::ClientState::Suspended) until a
    /// server has answered. Until then, calls wait for a connection, or fail because there is none,
    /// as they do in an outage. Failures to connect are logged, including refused credentials.
    /// Never blocks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], which names the setting that cannot be used; this includes
    /// [`existing_chroot`](ClientBuilder::existing_chroot), which needs the servers.
    /// [`Error::SpawnThread`] if the operating system cannot create a thread.
    pub fn connect_lazily(self) -> Result<Client> {
        if self.existing_chroot {
            let reason = "only connect() can check it, because it waits for the servers";
            return Err(Error::invalid("existing_chroot", reason));
        }
        self.build(zookeeper::Builder::connect_lazily)
    }

    fn build(
        self,
        connect: impl FnOnce(zookeeper::Builder) -> zookeeper::Result<ZooKeeper>,
    ) -> Result<Client> {
        let within = self.connect_timeout.unwrap_or(self.session_timeout);
        check_timeout("session timeout", self.session_timeout)?;
        check_timeout("connect timeout", within)?;
        check_chroot(&self.hosts)?;
        check_acl(&self.acl, self.has_credentials())?;
        self.identity.as_deref().map_or(Ok(()), check_identity)?;
        let registrar = self.make_registrar.as_ref().map(|make| make(&self)).transpose()?;
        let failed = |error| failed_to_connect(&self.hosts, &error);
        let zk = connect(self.client_builder()?.connect_timeout(within)).map_err(failed)?;
        if self.existing_chroot && !has_root(&zk, within).map_err(failed)? {
            let reason = format!("the chroot {:?} does not exist", zk.root());
            return Err(Error::invalid("host list", reason));
        }
        let inner = Inner::new(zk, self.acl.entries.clone(), registrar);
        Ok(Client { inner, process: sys::program().into(), builder: Arc::new(self) })
    }

    /// Returns the settings of the session's client.
    pub(crate) fn client_builder(&self) -> Result<zookeeper::Builder> {
        let mut builder = ZooKeeper::builder(&self.hosts).session_timeout(self.session_timeout);
        for (scheme, secret) in &self.auth {
            builder = builder.auth(scheme, secret);
        }
        #[cfg(feature = "sasl")]
        if let Some((user, password)) = &self.sasl {
            if user.is_empty() {
                return Err(Error::invalid("SASL user", "the name is empty"));
            }
            builder = builder.sasl(user, password);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let wrong =
                |error: zookeeper::Error| Error::invalid("TLS", error.reason().unwrap_or_default());
            tls.check().map_err(wrong)?;
            builder = builder.tls(tls.clone());
        }
        Ok(builder)
    }

    /// Returns whether a server can authenticate the client. With TLS, it may do so by a client
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

fn check_timeout(what: &'static str, timeout: Duration) -> Result<()> {
    if (1..=MAX_MILLIS).contains(&timeout.as_millis()) {
        return Ok(());
    }
    let reason =
        format!("{timeout:?} is not between a millisecond and 24.8 days, ZooKeeper's maximum");
    Err(Error::invalid(what, reason))
}

/// Checks the chroot, whose nodes are created with the first lock and then remain.
fn check_chroot(hosts: &str) -> Result<()> {
    let root = hosts.find('/').map_or("", |at| &hosts[at..]);
    let reason =
        |reason| Error::invalid("host list", format!("the chroot {root:?} is invalid: {reason}"));
    path::check_parts(root).map_err(reason)
}

/// Checks that at least one identity may contend. Otherwise, the mistake would show only when a
/// lease cannot be renewed.
fn check_acl(acl: &Acl, has_credentials: bool) -> Result<()> {
    let contends = |entry: &zookeeper::Acl| entry.permissions.contains(Permissions::CONTEND);
    if !acl.entries.iter().any(contends) {
        let reason =
            "no entry grants READ, WRITE, CREATE and DELETE, which each user of a lock needs";
        return Err(Error::invalid("ACL", reason));
    }
    if acl.entries.iter().any(|entry| entry.scheme == "auth") && !has_credentials {
        let reason = "scheme \"auth\" means the client's own credentials, but this client has none";
        return Err(Error::invalid("ACL", reason));
    }
    Ok(())
}

/// Returns whether there is a node at the client's root. A node that the client may not read also
/// counts.
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
        ErrorKind::BadArguments => Error::invalid("host list", cause),
        ErrorKind::NoThread => Error::SpawnThread { cause },
        _ => {
            let other = match error.kind() {
                ErrorKind::AuthFailed => ConnectFailure::Credentials,
                _ => ConnectFailure::Silent,
            };
            let failure = error.connect_failure().unwrap_or(other);
            Error::Connect { hosts, cause, failure }
        }
    }
}
