//! For tests of programs that use these locks: a ZooKeeper server in the process of the test, without Java, and
//! every way in which a hold can end, brought about in milliseconds.
//!
//! A [`Server`] has a tree of its own and listens on a free port of the loopback interface. Clients are real
//! ones: what runs against it is what runs against an ensemble, and each client stands for a process.
//!
//! | what happens to the program | how | its holds |
//! |---|---|---|
//! | its connection breaks | [`suspend`](Server::suspend), back by [`resume`](Server::resume) | [`Suspended`](HoldState::Suspended), then held again |
//! | it stays away for longer than its lease | `suspend` and no `resume` | [`LeaseExpired`](LossReason::LeaseExpired), a session timeout later |
//! | the servers end its session | [`expire`](Server::expire) | `LeaseExpired`, at once |
//! | an operator deletes its node | [`delete`](Server::delete) | [`NodeDeleted`](LossReason::NodeDeleted) |
//! | somebody asks for the lock | [`Client::revoke`] | held; [`Hold::revocation`] tells |
//! | its client is closed | [`Client::close`] | [`ClientClosed`](LossReason::ClientClosed) |
//! | all servers are away | [`stop`](Server::stop), back by [`start_again`](Server::start_again) | as when its connection breaks |
//! | another process is first | a second [`client`](Server::client) | |
//!
//! No test has to sleep: [`Hold::lost`] is ready when a hold is over, [`Client::subscribe`] tells of the
//! connection, and the calls here return when the client knows.
//!
//! To stop while suspended: [`Client::subscribe`] tells [`Suspended`](crate::ConnectionEvent::Suspended), and
//! [`Hold::state`] says it by then. A release without a connection returns at once; the node goes with the next
//! connection, or with the session.
//!
//! The server does what ZooKeeper 3.9.5 does. It has no quotas, no nodes with a time to live, no four-letter words
//! and no SASL, ACLs of the schemes `world`, `auth`, `digest` and `ip` alone, and sessions from 50 ms on. What it
//! cannot show is how ensembles behave: leaders that change, followers that lag, slow networks. For that
//! there is the crate `zoolock-test-support`, which starts real servers.
//!
//! # A service that loses its lock
//!
//! ```
//! use zoolock::testing::Server;
//! use zoolock::{DistributedLock, Guard};
//!
//! /// Works only while it holds its lock.
//! struct Service {
//!     leading: Guard,
//!     done: u32,
//! }
//!
//! impl Service {
//!     fn work(&mut self) -> bool {
//!         let leads = self.leading.is_held();
//!         self.done += u32::from(leads);
//!         leads
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let client = server.client()?;
//! let lock = DistributedLock::new(&client, "/leader")?;
//! let mut service = Service { leading: lock.acquire()?, done: 0 };
//! assert!(service.work());
//!
//! server.expire(&client); // as if the servers had not heard of it for too long
//! assert!(!service.work());
//! assert_eq!(service.done, 1);
//! assert!(service.leading.release().is_err_and(|error| error.is_lost()));
//!
//! lock.acquire()?.release()?; // in its next session
//! # Ok(())
//! # }
//! ```
//!
//! # Suspended, and lost when the lease ends
//!
//! Leases are as long as sessions, and these as short as the test wants, from 50 ms on. A machine that stands
//! still for that long ends them, too: short ones are for tests that wait for the end.
//!
//! ```
//! use std::time::Duration;
//! use zoolock::testing::Server;
//! use zoolock::{DistributedLock, HoldState, LossReason};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let client = server.client()?;
//! let guard = DistributedLock::new(&client, "/leader")?.acquire()?;
//! server.suspend(&client);
//! assert_eq!(guard.state(), HoldState::Suspended); // still held, by nobody else
//! server.resume(&client);
//! assert_eq!(guard.state(), HoldState::Held);
//!
//! let brief = server.builder().session_timeout(Duration::from_millis(500)).connect()?;
//! let guard = DistributedLock::new(&brief, "/other")?.acquire()?;
//! server.suspend(&brief);
//! let _ = guard.lost().recv(); // returns when the hold is over
//! assert_eq!(guard.state(), HoldState::Lost(LossReason::LeaseExpired));
//! # Ok(())
//! # }
//! ```
//!
//! # An operator deletes the node; somebody asks for the lock
//!
//! ```
//! use zoolock::testing::Server;
//! use zoolock::{DistributedLock, HoldState, LossReason};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let (ours, theirs) = (server.client()?, server.client()?);
//! let lock = DistributedLock::new(&ours, "/leader")?;
//!
//! let guard = lock.acquire()?;
//! let asked = guard.revocation()?;
//! for holder in theirs.contenders("/leader")? {
//!     theirs.revoke(&holder)?;
//! }
//! asked.recv()?; // it is up to the holder to let go
//! guard.release()?;
//!
//! let guard = lock.acquire()?;
//! server.delete(&guard)?;
//! assert_eq!(guard.state(), HoldState::Lost(LossReason::NodeDeleted));
//! # Ok(())
//! # }
//! ```
//!
//! # Without a connection, or a client
//!
//! ```
//! use zoolock::testing::Server;
//! use zoolock::{DistributedLock, Error, HoldState, LossReason};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let client = server.client()?;
//! let lock = DistributedLock::new(&client, "/leader")?;
//! server.suspend(&client);
//! assert!(matches!(lock.try_lock(), Err(Error::Disconnected { .. })));
//! server.resume(&client);
//!
//! let guard = lock.acquire()?;
//! client.close()?;
//! assert_eq!(guard.state(), HoldState::Lost(LossReason::ClientClosed));
//! assert!(matches!(lock.lock(), Err(Error::Closed)));
//! # Ok(())
//! # }
//! ```
//!
//! # Two processes
//!
//! ```
//! use std::thread;
//! use zoolock::testing::Server;
//! use zoolock::{DistributedLock, Error};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let (ours, theirs) = (server.client()?, server.client()?);
//! let held = DistributedLock::new(&theirs, "/leader")?.acquire()?;
//! let first = held.fencing_token()?;
//!
//! let lock = DistributedLock::new(&ours, "/leader")?;
//! assert!(lock.try_acquire()?.is_none());
//! let waiting = thread::spawn(move || lock.acquire()?.fencing_token());
//! server.expire(&theirs); // the other one crashes
//! let second = waiting.join().expect("no panic")?;
//! assert!(second > first);
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::select;
use zookeeper::{ErrorKind, testing};

use crate::client::{Client, ClientBuilder};
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::session::ClientState;
use crate::signal::Broadcast;
#[cfg(doc)]
use crate::{HoldState, LossReason};

/// A ZooKeeper server in this process. It ends when this is dropped, and all connections with it.
#[derive(Debug)]
pub struct Server {
    server: testing::Server,
    is_stopped: AtomicBool,
    /// Whoever waits for a client to be back hears of a stop.
    stops: Broadcast,
}

impl Server {
    /// Starts one with nothing in it, in less than a millisecond.
    ///
    /// # Errors
    /// When no port of 127.0.0.1 or no thread can be had.
    pub fn start() -> io::Result<Server> {
        let server = testing::Server::start()?;
        Ok(Server { server, is_stopped: AtomicBool::new(false), stops: Broadcast::new() })
    }

    /// Where it listens: for proxies, and for other clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The same for [`Client::connect`], for programs that make their clients themselves.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.server.connect_string()
    }

    /// One more client, with a session of its own, as another process would have. Its session timeout is that of
    /// [`ClientBuilder::session_timeout`], 10 s: longer than a busy machine stands still.
    ///
    /// # Errors
    /// [`Error::Connect`] when the server is [stopped](Server::stop).
    pub fn client(&self) -> Result<Client> {
        self.builder().connect()
    }

    /// One with other settings. However short its session, it has 10 s to connect.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder(&self.connect_string()).connect_timeout(Duration::from_secs(10))
    }

    /// Breaks the connection of a client, and each one that it tries to make instead, until
    /// [`resume`](Server::resume). Its holds are suspended when this returns; they are lost when their leases
    /// end, and the server gives them to others when the session ends, just behind that.
    ///
    /// Blocks until the client has noticed, which is soon.
    ///
    /// # Panics
    /// If it is a client of another server.
    pub fn suspend(&self, client: &Client) {
        self.check(client);
        self.server.suspend(client.session().id());
        self.await_state(client, |state| state != ClientState::Connected);
    }

    /// Lets a suspended client in again. If its session lives, the holds whose leases run are held again.
    ///
    /// Blocks until the client has a session again, for a tenth of the session timeout and at most a second
    /// or so: that is how often it tries. While the server is [stopped](Server::stop) it returns at once; the client
    /// is then let in after [`start_again`](Server::start_again).
    ///
    /// # Panics
    /// If it is a client of another server.
    pub fn resume(&self, client: &Client) {
        self.check(client);
        self.server.resume(client.session().id());
        self.await_state(client, |state| state == ClientState::Connected || self.is_stopped());
    }

    /// Ends the session of a client, as when the server had not heard of it for too long: its holds are lost, and
    /// whoever waits for them is next. The client goes on in another session.
    ///
    /// Blocks until the client knows and has its next session, which is soon. A client without a connection, or
    /// of a server that is [stopped](Server::stop), cannot know: then only the others notice, and this returns at
    /// once.
    ///
    /// # Panics
    /// If it is a client of another server.
    pub fn expire(&self, client: &Client) {
        self.check(client);
        let (ended, is_told) = (client.session().id(), client.state() == ClientState::Connected);
        self.server.expire(ended);
        self.await_state(client, |state| {
            let is_back = state == ClientState::Connected && client.session().id() != ended;
            !is_told || is_back || self.is_stopped()
        });
    }

    /// Deletes the node of a hold, as an operator might. The hold must be of a client without a chroot.
    ///
    /// Blocks until the hold is over, which is soon while its client is connected.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such node.
    pub fn delete(&self, hold: &Hold) -> Result<()> {
        // Else its client looks for the first time when a quarter of the session timeout is over.
        hold.grant().watch_now();
        self.server.delete(&hold.znode()).map_err(|error| match error.kind() {
            ErrorKind::NoNode => {
                let reason =
                    "it is over, of another server, or of a client with a chroot".to_owned();
                Error::InvalidArgument { what: "hold", reason }
            }
            _ => Error::ZooKeeper { path: hold.path().to_owned(), cause: Arc::new(error) },
        })?;
        // Never a message: it is disconnected.
        let _ = hold.lost().recv();
        Ok(())
    }

    fn check(&self, client: &Client) {
        let (servers, _) = client.session().address();
        assert_eq!(servers, self.connect_string(), "this is a client of another server");
    }

    /// Breaks all connections, and refuses others, until [`start_again`](Server::start_again), as if all
    /// servers were away. No session ends meanwhile, but leases do. Does not wait for the clients to notice.
    pub fn stop(&self) {
        self.server.stop();
        self.is_stopped.store(true, Ordering::SeqCst);
        self.stops.send();
    }

    /// Goes on with all nodes and sessions that there were. Does not wait for the clients to come back, which they
    /// do within a second or so.
    pub fn start_again(&self) {
        self.is_stopped.store(false, Ordering::SeqCst);
        self.server.start_again();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Waits for a client to be in such a state, or closed. A stop makes it look once more.
    fn await_state(&self, client: &Client, is_it: impl Fn(ClientState) -> bool) {
        let (changes, mut is_closed) = (client.subscribe(), false);
        let mut stop = self.stops.listen();
        while !is_closed && !is_it(client.state()) {
            select! {
                recv(changes) -> change => is_closed = change.is_err(),
                recv(stop) -> _ => stop = self.stops.listen(),
            }
        }
    }
}
