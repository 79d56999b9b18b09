//! For tests of programs that use these locks: a ZooKeeper server in the test's own process,
//! without Java. A test can end a hold in every way that is possible, within milliseconds.
//!
//! A [`Server`] has a separate tree and listens on a free port of the loopback interface. Clients
//! are real ones: code that works on this server works on an ensemble. In a test, each client
//! stands for a process.
//!
//! | what happens to the program | how | its holds |
//! |---|---|---|
//! | its connection breaks | [`suspend`](Server::suspend), then [`resume`](Server::resume) | [`Suspended`](HoldState::Suspended), then held again |
//! | it stays disconnected for longer than its lease | `suspend` without `resume` | [`LeaseExpired`](LossReason::LeaseExpired), a session timeout later |
//! | the servers end its session | [`expire`](Server::expire) | `LeaseExpired`, at once |
//! | an operator deletes its node | [`delete`](Server::delete) | [`NodeDeleted`](LossReason::NodeDeleted) |
//! | another client requests the lock | [`Client::revoke`] | held; [`Hold::revocation`] receives a message |
//! | it holds the lock for longer than [allowed](crate::LockOptions::hold_at_most) | nothing to call | [`HeldTooLong`](LossReason::HeldTooLong) |
//! | its client is closed | [`Client::close`] | [`ClientClosed`](LossReason::ClientClosed) |
//! | all servers are down | [`stop`](Server::stop), then [`start_again`](Server::start_again) | as when its connection breaks |
//! | another process has the lock | a second [`client`](Server::client) | |
//!
//! A test never needs to sleep: [`Hold::ended`] is ready when a hold is over, [`Client::subscribe`]
//! reports changes of the connection, and the methods here return when the client has detected the
//! change.
//!
//! A program that stops its work while it is suspended can rely on one thing: when
//! [`Client::subscribe`] sends [`Suspended`](crate::ClientState::Suspended), [`Hold::state`]
//! already returns `Suspended`. A release without a connection returns at once. The node is deleted
//! on the next connection, or ends with the session.
//!
//! The server behaves like ZooKeeper 3.9.5. It has no quotas, no nodes with a time to live, no
//! four-letter words and no SASL. Its ACL schemes are `world`, `auth`, `digest` and `ip`, and its
//! sessions may be as short as 50 ms. It cannot show how ensembles behave: leaders that change,
//! followers that lag, slow networks. To test those, use the crate `zoolock-test-support`, which
//! starts real servers.
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
//! server.expire(&client); // as if the servers had received nothing from it for too long
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
//! Leases are as long as sessions, which may be as short as 50 ms. If the machine is paused for
//! that long, the leases end as well. Use short sessions only for tests that wait for the end of a
//! lease.
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
//! assert_eq!(guard.state(), HoldState::Suspended); // no other client can have it
//! server.resume(&client);
//! assert_eq!(guard.state(), HoldState::Held);
//!
//! let brief = server.builder().session_timeout(Duration::from_millis(500)).connect()?;
//! let guard = DistributedLock::new(&brief, "/other")?.acquire()?;
//! server.suspend(&brief);
//! guard.wait(); // returns when the hold is over
//! assert_eq!(guard.state(), HoldState::Lost(LossReason::LeaseExpired));
//! # Ok(())
//! # }
//! ```
//!
//! # An operator deletes the node; another client requests the lock
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
//! let requests = guard.revocation()?;
//! for holder in theirs.contenders("/leader")? {
//!     theirs.revoke(&holder)?;
//! }
//! requests.recv()?; // the holder decides whether to release
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
//! let first = held.fencing_token();
//!
//! let lock = DistributedLock::new(&ours, "/leader")?;
//! assert!(lock.try_acquire()?.is_none());
//! let waiting = thread::spawn(move || lock.acquire().map(|guard| guard.fencing_token()));
//! server.expire(&theirs); // the other one crashes
//! let second = waiting.join().expect("no panic")?;
//! assert!(second > first);
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zookeeper_testing as testing;

#[cfg(doc)]
use crate::base::error::LossReason;
use crate::base::error::{Error, Result};
use crate::client::{Client, ClientBuilder};
use crate::held::hold::Hold;
use crate::session::ClientState;
#[cfg(doc)]
use crate::session::HoldState;

/// How often a state is checked if there is no event.
const AGAIN: Duration = Duration::from_millis(10);

/// A ZooKeeper server in this process. Dropping it ends the server and all its connections.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct Server {
    server: testing::Server,
    is_stopped: AtomicBool,
}

impl Server {
    /// Starts an empty server, in less than a millisecond.
    ///
    /// # Errors
    /// If no port of 127.0.0.1 or no thread is available.
    pub fn start() -> io::Result<Server> {
        let server = testing::Server::start()?;
        Ok(Server { server, is_stopped: AtomicBool::new(false) })
    }

    /// Returns the address on which the server listens, for proxies and other clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the same address for [`Client::connect`], for programs that create their own
    /// clients.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.server.connect_string()
    }

    /// Connects one more client, with a separate session, as another process would have. Its
    /// session timeout is the default of [`ClientBuilder::session_timeout`], 10 s, which is longer
    /// than a busy machine pauses.
    ///
    /// # Errors
    /// [`Error::Connect`] if the server is [stopped](Server::stop).
    pub fn client(&self) -> Result<Client> {
        self.builder().connect()
    }

    /// Returns a builder for a client with other settings. The client has 10 s to connect, even if
    /// its session timeout is shorter.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder(self.connect_string()).connect_timeout(Duration::from_secs(10))
    }

    /// Breaks the connection of a client, and every connection that it makes later, until
    /// [`resume`](Server::resume). The client's holds are suspended when this returns, and lost
    /// when their leases end. Shortly after that the session ends, and the server grants the locks
    /// to others.
    ///
    /// Blocks until the client has noticed, which takes little time.
    ///
    /// # Panics
    /// If the client belongs to another server.
    pub fn suspend(&self, client: &Client) {
        self.server.suspend(self.session_of(client));
        self.await_state(client, |state| state != ClientState::Connected);
    }

    /// Lets a suspended client connect again. If its session is still alive, the holds whose leases
    /// have not run out are held again.
    ///
    /// Blocks until the client has a session again. The client tries every tenth of the session
    /// timeout, and at least about every second. While the server is [stopped](Server::stop) this
    /// returns at once; the client can then connect after [`start_again`](Server::start_again).
    ///
    /// # Panics
    /// If the client belongs to another server.
    pub fn resume(&self, client: &Client) {
        self.server.resume(self.session_of(client));
        self.await_state(client, |state| state == ClientState::Connected || self.is_stopped());
    }

    /// Ends the session of a client, as if the server had not received anything from it for too
    /// long. Its holds are lost, and the next contenders are admitted. The client continues in
    /// another session.
    ///
    /// Blocks until the client has detected this and has its next session, which takes little time.
    /// A client without a connection, or of a [stopped](Server::stop) server, cannot detect it. In
    /// that case, only the other clients notice, and this call returns at once.
    ///
    /// # Panics
    /// If the client belongs to another server.
    pub fn expire(&self, client: &Client) {
        let (ended, is_told) = (self.session_of(client), client.state() == ClientState::Connected);
        self.server.expire(ended);
        if is_told {
            self.await_state(client, |state| {
                let is_back = state == ClientState::Connected && self.session_of(client) != ended;
                is_back || self.is_stopped()
            });
        }
    }

    /// Deletes the node of a hold, as an operator might. The hold must belong to a client without a
    /// chroot.
    ///
    /// Blocks until the hold is over, which takes little time while its client is connected.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such node, or if it has children.
    pub fn delete(&self, hold: &Hold) -> Result<()> {
        // Without this call, the client checks the node only after a quarter of the session
        // timeout.
        hold.watch_now();
        let deleted = self.server.delete(&hold.znode());
        deleted.map_err(|refused| Error::invalid("hold", format!("its node: {refused}")))?;
        // The hold ends once its client has detected the deletion.
        hold.wait();
        Ok(())
    }

    fn session_of(&self, client: &Client) -> i64 {
        let requests = &client.inner.requests;
        let (servers, _) = requests.address();
        assert_eq!(servers, self.connect_string(), "this is a client of another server");
        requests.session_id()
    }

    /// Breaks all connections and refuses new ones, until [`start_again`](Server::start_again), as
    /// if all servers were down. Sessions do not end in the meantime, but leases do. Does not wait
    /// for the clients to notice.
    pub fn stop(&self) {
        self.server.stop();
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Lets the stopped server continue with all nodes and sessions that existed. Does not wait for
    /// the clients to reconnect, which takes them about a second at most.
    pub fn start_again(&self) {
        self.is_stopped.store(false, Ordering::SeqCst);
        self.server.start_again();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Waits until a client is closed, or in a state for which `is_it` returns true.
    fn await_state(&self, client: &Client, is_it: impl Fn(ClientState) -> bool) {
        let changes = client.subscribe();
        while !is_it(client.state()) && client.state() != ClientState::Closed {
            // If another thread stops the server, a suspended client reports no change. Therefore,
            // the loop polls.
            let _ = changes.recv_timeout(AGAIN);
        }
    }
}
