//! The public handle of a connection to ZooKeeper, and how it is built.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::{process, thread};

use crossbeam_channel::Receiver;

use crate::acl::{Acl, Permissions};
use crate::contenders::{Contender, Kind, contenders, verify};
use crate::data::REVOKE;
use crate::error::{Error, Result};
use crate::hosts::HostList;
use crate::options::check_identity;
use crate::path::LockPath;
use crate::session::{
    ClientState, Config, ConnectionEvent, MOST_REQUESTS, Secret, Session, Stats, Until,
    revoke_single,
};

/// What a client asks for unless told otherwise.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that the protocol can carry: milliseconds in 31 bits.
const MOST_MILLIS: u128 = i32::MAX as u128;

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
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181/my-app", Duration::from_secs(10))?;
/// let lock = DistributedLock::new(&client, "/locks/nightly-report")?;
/// let guard = lock.acquire()?;
/// println!("held, with fencing token {}", guard.fencing_token()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Ends the session when the last user is gone. The library's own threads do not have it.
struct Handle {
    session: Arc<Session>,
    identity: Identity,
}

/// What a client's nodes say of their maker.
enum Identity {
    Given(Arc<str>),
    /// `<host>/<process id>`, to be followed by the thread.
    Process(String),
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session.shut_down();
    }
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
    /// each server said.
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
            acl: Acl::open(),
            identity: None,
            most_requests: MOST_REQUESTS,
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
    #[must_use]
    pub fn subscribe(&self) -> Receiver<ConnectionEvent> {
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
    /// A node that was asked to let go has lost what it said of itself, and of when it began if it
    /// has moved. A node that may not be read makes the whole answer [`Error::Denied`].
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
        contenders(self.session(), &LockPath::parse(path)?)
    }

    /// Does this [fencing token](crate::Hold::fencing_token) belong to whoever holds the lock at
    /// `path` now, of whatever type? For third parties that were handed the token. With several
    /// holders, readers or permits of a semaphore, the token of any of them will do.
    ///
    /// Unlike [`contenders`](Client::contenders) it is not taken in by a server that has fallen
    /// behind: the answer is no older than the call. But it may be outdated as soon as it is there, so
    /// it cannot make a write safe: that takes a resource that refuses lower tokens.
    ///
    /// False when the lock is free, or held with another token; when the holder has lost the lock, or
    /// its session has ended, whether it knows of it or not; and for a hold that has moved to another
    /// session and was then asked to let go, since that takes the place of what its node said.
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
        verify(self.session(), &LockPath::parse(path)?, token)
    }

    /// Asks a holder to let go, by writing `__REVOKE__` to its node, as Curator does. It is up to
    /// the holder whether it listens, with [`Hold::revocation`](crate::Hold::revocation) or
    /// Curator's `makeRevocable`. A request that comes in the very moment in which the hold moves to
    /// another session may be lost: ask again. Blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the node is gone: it was released, or has moved to another session,
    /// which [`contenders`](Client::contenders) then shows. [`Error::InvalidArgument`] for a node
    /// that is not a contender's. [`Error::Disconnected`] without a connection or an answer,
    /// [`Error::Closed`], [`Error::Denied`].
    pub fn revoke(&self, contender: &Contender) -> Result<()> {
        if contender.kind == Kind::Foreign {
            let reason = format!("{:?} is not the node of a lock", contender.node);
            return Err(invalid("contender", reason));
        }
        let (session, path) = (self.session(), contender.path.as_str());
        let connection = session.require_live(path)?;
        let until = Until::within(connection.timeout() / 3);
        let (node, single) = (contender.znode(), contender.node.is_empty());
        let asked = connection.call(&until, move |wire| match single {
            true => revoke_single(wire, &node),
            false => wire.set(&node, REVOKE, None),
        });
        asked.map_err(|failure| match failure.is_no_node() {
            true => Error::NotHeld { path: path.to_owned() },
            false => session.error(path, failure),
        })
    }

    /// Ends the session: every lock still held is lost with
    /// [`LossReason::ClientClosed`](crate::LossReason::ClientClosed), every waiting call returns
    /// [`Error::Closed`], and so do all later ones. Closing twice is fine.
    ///
    /// Blocks until the servers have ended the session, so that others can hold its locks, or for
    /// at most one session timeout.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the servers could not be told, or if a connection that broke has left
    /// nodes on a session that may live. The servers end it by themselves, one session timeout
    /// after they last heard of it, give or take a tick.
    pub fn close(&self) -> Result<()> {
        let session = self.session();
        let after = session.timeout();
        session.shut_down();
        if session.await_end(after) {
            return Ok(());
        }
        let what = "confirmed end of the session";
        Err(Error::Timeout { what, after })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.handle.session
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        match self.session().is_closed() {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// What the nodes of the calling thread say of their maker.
    pub(crate) fn identity(&self) -> Arc<str> {
        let process = match &self.handle.identity {
            Identity::Given(identity) => return Arc::clone(identity),
            Identity::Process(process) => process,
        };
        let thread = thread::current();
        let thread = match thread.name() {
            Some(name) => name.to_owned(),
            None => format!("{:?}", thread.id()),
        };
        Arc::from(format!("{process}/{thread}"))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(self.session()).finish()
    }
}

/// Settings of a [`Client`]; made by [`Client::builder`].
#[derive(Clone)]
#[must_use = "does nothing until connect()"]
pub struct ClientBuilder {
    hosts: String,
    session_timeout: Duration,
    connect_timeout: Option<Duration>,
    auth: Vec<(String, Secret)>,
    acl: Acl,
    identity: Option<String>,
    most_requests: u64,
}

impl ClientBuilder {
    /// How long the servers keep the session, and with it the locks, of a client that they do not
    /// hear of. Default: 10 s. Three server ticks or more are recommended (6 s at the default
    /// tick of 2 s). Below two, which servers allow only if their `minSessionTimeout` is set so,
    /// leases are not safe: a follower tells its leader every half tick whom it has heard of, and a
    /// lease counts on that within a quarter of this.
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
        self.auth.push((scheme.into(), Secret(secret.into())));
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

    /// Connects. Blocks for at most the connect timeout.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] that names the setting which is not usable, [`Error::Connect`]
    /// with what each server said.
    pub fn connect(self) -> Result<Client> {
        let hosts = HostList::parse(&self.hosts).map_err(|reason| invalid("host list", reason))?;
        check_timeout("session timeout", self.session_timeout)?;
        let connect_timeout = self.connect_timeout.unwrap_or(self.session_timeout);
        check_timeout("connect timeout", connect_timeout)?;
        check_acl(&self.acl, &self.auth)?;
        let identity = match self.identity {
            Some(who) => {
                check_identity(&who)?;
                Identity::Given(Arc::from(who))
            }
            None => Identity::Process(format!("{}/{}", host(), process::id())),
        };
        let session = Session::start(Config {
            hosts,
            timeout: self.session_timeout,
            connect_timeout,
            auth: self.auth,
            acl: Config::acl(&self.acl),
            most_requests: self.most_requests,
        })?;
        let handle = Arc::new(Handle { session, identity });
        Ok(Client { handle })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("hosts", &self.hosts)
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
    let reason = reason.into();
    Error::InvalidArgument { what, reason }
}

fn check_timeout(what: &'static str, timeout: Duration) -> Result<()> {
    match timeout.as_millis() {
        0 => Err(invalid(what, format!("{timeout:?} is less than a millisecond"))),
        millis if millis > MOST_MILLIS => {
            let reason = format!("{timeout:?} is more than ZooKeeper can carry (24.8 days)");
            Err(invalid(what, reason))
        }
        _ => Ok(()),
    }
}

/// A list that lets nobody take part would only show when a lease cannot be renewed.
fn check_acl(acl: &Acl, auth: &[(String, Secret)]) -> Result<()> {
    let contends = |(permissions, _, _): &(Permissions, String, String)| {
        permissions.contains(Permissions::CONTEND)
    };
    if !acl.entries.iter().any(contends) {
        let reason = "no entry has READ, WRITE, CREATE and DELETE, which a lock's owner needs";
        return Err(invalid("ACL", reason));
    }
    let creator = acl.entries.iter().any(|(_, scheme, _)| scheme == "auth");
    if creator && auth.is_empty() {
        let reason = "scheme \"auth\" means the creator's credentials, and none were given";
        return Err(invalid("ACL", reason));
    }
    Ok(())
}

/// The name of this machine, as far as the standard library can find out.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ephemeral::EphemeralLock;
    use crate::lock::DistributedLock;
    use crate::locker::Lock;
    use zoolock_test_support::{connect_string, fresh_path, wait_until};

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_connection_whose_request_numbers_run_out_is_replaced_and_nobody_notices() {
        let mut builder = Client::builder(&connect_string());
        builder.most_requests = 300;
        let client = builder.connect().expect("connect");
        let path = fresh_path("worn-out");
        let held = DistributedLock::new(&client, &path).expect("a path");
        held.lock().expect("held");
        let holds = held.holds();
        let token = holds[0].fencing_token().expect("a token");
        let waiting = DistributedLock::new(&client, &path).expect("a path");
        let waiter = std::thread::spawn(move || waiting.lock());
        let busy = DistributedLock::new(&client, fresh_path("busy")).expect("a path");
        wait_until("the third replacement", SOON, || {
            busy.lock().expect("locked");
            assert!(holds[0].is_held(), "{:?}", holds[0]);
            busy.unlock().expect("unlocked");
            client.stats().connections >= 4
        });
        wait_until("moved", SOON, || {
            holds[0].state() == crate::HoldState::Held && client.stats().handles == 1
        });
        println!("{:?}, {:?}", client.stats(), holds[0]);
        assert_eq!(holds[0].fencing_token().expect("a token"), token);
        assert!(!waiter.is_finished(), "entered a held lock");
        held.unlock().expect("unlocked");
        waiter.join().expect("no panic").expect("granted");
        assert_eq!(client.stats().seats_lost, 0);
    }

    #[test]
    fn a_worn_out_connection_is_kept_for_a_hold_that_cannot_move_and_replaced_after_it() {
        const MOST: u64 = 300;
        let connect = |most| {
            let mut builder = Client::builder(&connect_string());
            builder.most_requests = most;
            builder.connect().expect("connect")
        };
        let (client, others) = (connect(MOST), connect(u64::MAX));
        let held = EphemeralLock::new(&client, fresh_path("pinned")).expect("a path");
        held.lock().expect("held");
        let hold = held.hold().expect("held");
        // A wait pins nothing: it goes on on the next connection.
        let path = fresh_path("not-pinned");
        let ahead = EphemeralLock::new(&others, &path).expect("a path");
        ahead.lock().expect("held");
        let waiting = EphemeralLock::new(&client, &path).expect("a path");
        let waiter = std::thread::spawn(move || waiting.lock().map(|()| waiting));
        let busy = DistributedLock::new(&client, fresh_path("busy")).expect("a path");
        let cycle = || {
            busy.lock().expect("locked");
            busy.unlock().expect("unlocked");
        };
        (0..2 * MOST).for_each(|_| cycle());
        let seen = client.stats();
        assert!(seen.requests > 6 * MOST, "{seen:?}");
        // As often as the connection is looked at, and more.
        wait_until("nothing has come of it", SOON, || {
            cycle();
            assert_eq!(hold.state(), crate::HoldState::Held);
            client.stats().requests > seen.requests + 300
        });
        println!("while it is held: {:?}", client.stats());
        assert_eq!(client.stats().connections, 1, "{:?}", client.stats());

        held.unlock().expect("unlocked");
        let took = wait_until("the replacement", SOON, || {
            cycle();
            client.stats().connections > 1
        });
        wait_until("the next ones, too", SOON, || {
            cycle();
            client.stats().connections > 3
        });
        println!("replaced {took:?} after the unlock: {:?}", client.stats());
        assert!(!waiter.is_finished(), "entered a held lock");
        ahead.unlock().expect("unlocked");
        let waiting = waiter.join().expect("no panic").expect("granted");
        waiting.unlock().expect("unlocked");
        assert_eq!(client.stats().seats_lost, 0);
    }
}
