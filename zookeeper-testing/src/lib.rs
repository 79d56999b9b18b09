//! A ZooKeeper server that runs in the process of a test. It starts in less than a millisecond, does not need Java, and
//! can cause events that are difficult to cause with a real server, such as the end of a session.
//!
//! It implements ZooKeeper's protocol on a port of the loopback interface, so clients need not be changed. It keeps its
//! tree in memory, and supports the requests that the client `zoolock-zookeeper` sends, as ZooKeeper 3.9.5 does. With
//! other [`ReadRules`], it behaves like an older release. It differs from ZooKeeper in these respects:
//!
//! - It grants the session timeout that the client requests, down to 50 ms. A session ends exactly at its timeout, and
//!   not some ticks later.
//! - It supports neither four-letter words nor quotas, and stores nothing on disk. Like real servers by default, it
//!   refuses nodes with a time to live. It supports ACLs of the schemes `world`, `auth`, `digest` and `ip`.
//! - Session passwords are predictable: a program that knows some of them can guess others.
//!
//! ```
//! use std::time::Duration;
//! use zoolock_zookeeper::{Acl, CreateMode, Listener, SessionEventKind, ZooKeeper};
//! use zoolock_zookeeper_testing::Server;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start()?;
//! let (listener, events) = Listener::channel();
//! let builder = ZooKeeper::builder(&server.connect_string());
//! let zk = builder.subscribe(&listener).connect()?;
//! assert_eq!(events.recv()?.kind, SessionEventKind::Connected);
//! zk.create("/me", b"", &Acl::open(), CreateMode::Ephemeral)?;
//!
//! server.expire(zk.session_id());
//! assert_eq!(events.recv()?.kind, SessionEventKind::Suspended);
//! assert_eq!(events.recv()?.kind, SessionEventKind::Expired);
//! assert_eq!(zk.exists("/me")?, None);
//! # Ok(())
//! # }
//! ```

mod access;
mod answers;
mod committed;
#[doc(hidden)]
pub mod ensemble;
mod outgoing;
mod requests;
mod terms;
mod tree;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use socket2::{Domain, Socket, Type};

pub use access::ReadRules;
use ensemble::{Ensemble, LONGEST, Outgoing, Settings};
use outgoing::ServerWriter;
pub use terms::Refused;

/// How many connections may wait to be accepted, if the operating system allows as many.
const BACKLOG: i32 = 4096;
/// The maximum number of bytes of one read.
const READ: usize = 64 * 1024;
/// The index of the only server in its ensemble.
const ONLY: usize = 0;
/// If a client reads nothing for this long, its connection is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A ZooKeeper server. Dropping it ends the server and all its connections.
#[must_use = "the server ends when this is dropped"]
pub struct Server {
    shared: Arc<ServerState>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

struct ServerState {
    running: Mutex<Running>,
    /// Notified when another session may be the next to end, and when the server ends.
    clock: Condvar,
}

/// A single mutex protects all of this, so that each connection receives everything in the order in which it happened.
/// The threads that write to the connections do not use this mutex; see `outgoing`.
struct Running {
    ensemble: Ensemble,
    writers: BTreeMap<u64, Arc<ServerWriter>>,
    /// Whether all threads must end.
    has_ended: bool,
}

impl Server {
    /// Starts an empty server, on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If no port is free, or no thread can be started.
    pub fn start() -> io::Result<Server> {
        Server::start_with(ReadRules::default())
    }

    /// Starts a server that behaves like ClickHouse Keeper, whose sessions end with their connections. A client must
    /// refuse such a server, because locks cannot rely on its sessions.
    ///
    /// # Errors
    ///
    /// Like those of [`start`](Self::start).
    pub fn start_keeper() -> io::Result<Server> {
        Server::start_as(Settings { keeper: true, ..Settings::default() })
    }

    /// Starts a server that follows the rules of an older release.
    ///
    /// # Errors
    ///
    /// Like those of [`start`](Self::start).
    pub fn start_with(rules: ReadRules) -> io::Result<Server> {
        Server::start_as(Settings { rules, ..Settings::default() })
    }

    fn start_as(settings: Settings) -> io::Result<Server> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settings = Settings {
            quorum: Duration::ZERO,
            wall: wall.as_millis() as i64,
            exact: true,
            recorded: false,
            ..settings
        };
        let ensemble = Ensemble::new(settings, 0, Instant::now());
        let running = Running { ensemble, writers: BTreeMap::new(), has_ended: false };
        let shared = Arc::new(ServerState { running: Mutex::new(running), clock: Condvar::new() });
        let mut server = Server { shared, address, threads: Vec::new() };
        let (accepting, timing) = (Arc::clone(&server.shared), Arc::clone(&server.shared));
        server.threads.push(spawn("accept", move || accept(&accepting, &listener))?);
        server.threads.push(spawn("clock", move || timing.keep_time())?);
        Ok(server)
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's address as text, for clients.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Breaks the connection of a session, and every new one that tries to resume it, until [`resume`](Self::resume) is
    /// called. The session ends at its timeout, of which its client is notified after `resume`.
    pub fn suspend(&self, session_id: i64) {
        self.shared.with(|ensemble, now| ensemble.suspend(session_id, now));
    }

    /// Accepts connections of a suspended session again. If the session has ended, its client is then notified.
    pub fn resume(&self, session_id: i64) {
        self.shared.with(|ensemble, _| ensemble.resume(session_id));
    }

    /// Ends a session early, as operators can. When this returns, the session's ephemeral nodes have been deleted and
    /// its connection is broken. Its client is notified when it next connects.
    pub fn expire(&self, session_id: i64) {
        self.shared.with(|ensemble, now| ensemble.expire(session_id, now));
    }

    /// Deletes a node, whatever its ACL.
    ///
    /// # Errors
    ///
    /// [`Refused::NO_NODE`] and [`Refused::NOT_EMPTY`].
    pub fn delete(&self, path: &str) -> Result<(), Refused> {
        self.shared.with(|ensemble, now| ensemble.delete(path, now))
    }

    /// Breaks all connections, and every new one, as if the whole ensemble were down, until
    /// [`start_again`](Self::start_again) is called. No session ends in the meantime.
    pub fn stop(&self) {
        self.shared.with(|ensemble, now| ensemble.crash(ONLY, now));
    }

    /// Continues with all nodes and sessions. All sessions have their full timeout again.
    pub fn start_again(&self) {
        self.shared.with(|ensemble, now| ensemble.start(ONLY, now));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.running.lock().has_ended = true;
        self.shared.clock.notify_all();
        // The accepting thread checks whether it must end only after it has accepted a connection.
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            // If the thread has panicked, the panic was already printed.
            let _ = thread.join();
        }
        self.shared.with(|ensemble, now| ensemble.crash(ONLY, now));
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

impl Running {
    /// Passes outgoing frames to the writers.
    fn hand_out(&mut self) {
        for (id, outgoing) in self.ensemble.take_outgoing() {
            match outgoing {
                Outgoing::Bytes(frame) => {
                    self.writers.get(&id).inspect(|writer| writer.push(&frame));
                }
                Outgoing::End => drop(self.writers.remove(&id).inspect(|writer| writer.close())),
            }
        }
    }
}

impl ServerState {
    /// Calls `act`, and passes outgoing frames to the writers.
    fn with<T>(&self, act: impl FnOnce(&mut Ensemble, Instant) -> T) -> T {
        let mut running = self.running.lock();
        let before = running.ensemble.next();
        let done = act(&mut running.ensemble, Instant::now());
        running.hand_out();
        if running.ensemble.next() < before {
            self.clock.notify_all();
        }
        done
    }

    fn keep_time(&self) {
        let mut running = self.running.lock();
        while !running.has_ended {
            running.ensemble.advance(Instant::now());
            running.hand_out();
            match running.ensemble.next() {
                Some(due) => drop(self.clock.wait_until(&mut running, due)),
                None => self.clock.wait(&mut running),
            }
        }
    }

    /// Reads and executes requests until the connection has ended.
    fn serve(&self, id: u64, writer: &ServerWriter) {
        let mut stream = BufReader::with_capacity(READ, writer.stream());
        let mut frame = Vec::new();
        while let Ok(()) = next_frame(&mut stream, &mut frame) {
            writer.wait_for_room();
            self.with(|ensemble, now| ensemble.take(id, &frame, now));
        }
    }

    /// Ends a connection, whichever side has closed it. Frames that are already outgoing are still sent.
    fn hang_up(&self, id: u64) {
        let mut running = self.running.lock();
        running.ensemble.hang_up(id, Instant::now());
        running.hand_out();
        running.writers.remove(&id).inspect(|writer| writer.close());
    }
}

/// Listens on a free port of 127.0.0.1. If the queue of connections is full, the operating system drops connections,
/// and their clients wait for seconds. Therefore, the queue is large enough for all tests of a process to connect at
/// once.
fn listen() -> io::Result<TcpListener> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(BACKLOG)?;
    Ok(listener.into())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(format!("zookeeper-server-{name}")).spawn(run)
}

fn accept(shared: &Arc<ServerState>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.running.lock().has_ended {
            return;
        }
        // If the connection has already ended, or no thread can be started for it, it is dropped.
        let _ = stream.and_then(|stream| attend(shared, stream));
    }
}

fn attend(shared: &Arc<ServerState>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let ip = stream.peer_addr()?.ip().to_string();
    let writer = Arc::new(ServerWriter::new(stream));
    let mut running = shared.running.lock();
    let Some(id) = running.ensemble.connect_from(ONLY, ip) else {
        return Ok(());
    };
    running.writers.insert(id, Arc::clone(&writer));
    drop(running);
    let (serving, writing) = (Arc::clone(shared), Arc::clone(&writer));
    let served = spawn("write", move || writing.write()).and_then(|_| {
        spawn("read", move || {
            serving.serve(id, &writer);
            serving.hang_up(id);
        })
    });
    served.map(drop).inspect_err(|_| shared.hang_up(id))
}

/// Reads a frame, without its length.
fn next_frame(stream: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.resize(length, 0);
    stream.read_exact(frame)
}
