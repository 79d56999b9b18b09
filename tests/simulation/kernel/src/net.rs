//! The sockets of the processes, and the bell that ends a wait for them. What is at their other end is the
//! world's: see [`Network`].

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::count;
use crate::scheduler::{Process, block, may_give_way, own_process, with};

/// The other end of all sockets.
pub trait Network {
    /// A process wants a connection. The world answers with [`accepted`] or [`refused`], or never.
    fn connect(&self, process: Process, socket: u64, address: SocketAddr);
    /// A process has sent this; takes as much as there is room for.
    fn send(&self, socket: u64, bytes: &[u8]) -> usize;
    /// A process has closed its end.
    fn shut(&self, socket: u64);
    /// The addresses of a name, and how long it takes to find them.
    fn resolve(&self, process: Process, name: &str) -> (Duration, io::Result<Vec<SocketAddr>>);
}

#[derive(Default)]
pub(crate) struct Sockets {
    network: Option<Rc<dyn Network>>,
    all: BTreeMap<u64, End>,
    last: u64,
}

/// The end of a process.
struct End {
    process: Process,
    state: State,
    come: Vec<u8>,
    taken: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    /// The other end has finished: what has come can be read.
    Finished,
    Failed(io::ErrorKind),
    Shut,
}

fn network() -> Rc<dyn Network> {
    with(|kernel| Rc::clone(kernel.sockets.network.as_ref().expect("a network")))
}

fn end<T>(socket: u64, act: impl FnOnce(&mut End) -> T) -> Option<T> {
    with(|kernel| kernel.sockets.all.get_mut(&socket).map(act))
}

// ---- for the world

/// Has this at the other end of all sockets.
pub fn set_network(network: Rc<dyn Network>) {
    with(|kernel| kernel.sockets.network = Some(network));
}

/// The connection stands.
pub fn accepted(socket: u64) {
    end(socket, |end| {
        if end.state == State::Connecting {
            end.state = State::Open;
        }
    });
}

/// Nobody listens.
pub fn refused(socket: u64) {
    end(socket, |end| end.state = State::Failed(io::ErrorKind::ConnectionRefused));
}

/// These bytes have come.
pub fn deliver(socket: u64, bytes: &[u8]) {
    end(socket, |end| {
        if end.state == State::Open {
            end.come.extend_from_slice(bytes);
        }
    });
}

/// Nothing will come any more: the other end is closed, or, torn, everything on the way is lost.
pub fn finish(socket: u64, is_torn: bool) {
    end(socket, |end| {
        if matches!(end.state, State::Open | State::Connecting) {
            end.state = match is_torn {
                true => State::Failed(io::ErrorKind::ConnectionReset),
                false => State::Finished,
            };
        }
    });
}

pub(crate) fn shut_all(process: Process) {
    let own = with(|kernel| {
        let all = kernel.sockets.all.iter();
        all.filter(|(_, end)| end.process == process).map(|(socket, _)| *socket).collect::<Vec<_>>()
    });
    for socket in own {
        with(|kernel| kernel.sockets.all.remove(&socket));
        network().shut(socket);
    }
}

// ---- for the processes

/// A connection of a process.
#[derive(Debug)]
pub struct Stream(u64);

impl Stream {
    /// Begins to connect.
    ///
    /// # Errors
    /// None, so far.
    pub fn connect(address: SocketAddr) -> io::Result<Stream> {
        let process = own_process();
        let socket = with(|kernel| {
            let sockets = &mut kernel.sockets;
            sockets.last += 1;
            let end = End { process, state: State::Connecting, come: Vec::new(), taken: 0 };
            sockets.all.insert(sockets.last, end);
            sockets.last
        });
        network().connect(process, socket, address);
        Ok(Stream(socket))
    }

    /// Does it stand?
    ///
    /// # Errors
    /// Why it never will.
    pub fn is_connected(&self) -> io::Result<bool> {
        match end(self.0, |end| end.state) {
            Some(State::Connecting) => Ok(false),
            Some(State::Open | State::Finished) => Ok(true),
            Some(State::Failed(kind)) => Err(kind.into()),
            Some(State::Shut) | None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Reads what has come, waiting for it; nothing when it is over.
    ///
    /// # Errors
    /// When the connection is torn.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        may_give_way();
        let is_ready = || {
            let ready = |end: &mut End| end.taken < end.come.len() || end.state != State::Open;
            end(self.0, ready).unwrap_or(true)
        };
        if !is_ready() {
            block("a read", None, Some(&is_ready));
        }
        let read = end(self.0, |end| match end.state {
            State::Shut => Ok(0),
            State::Failed(kind) => Err(kind.into()),
            _ => {
                let come = &end.come[end.taken..];
                let count = come.len().min(into.len());
                into[..count].copy_from_slice(&come[..count]);
                end.taken += count;
                if end.taken == end.come.len() {
                    end.come.clear();
                    end.taken = 0;
                }
                Ok(count)
            }
        });
        read.unwrap_or(Ok(0))
    }

    /// Sends as much as there is room for.
    ///
    /// # Errors
    /// `WouldBlock` without room, or that the connection is over.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match end(self.0, |end| end.state) {
            Some(State::Open) => match network().send(self.0, bytes) {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                count => Ok(count),
            },
            Some(State::Failed(kind)) => Err(kind.into()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ends it; whoever reads sees that.
    ///
    /// # Errors
    /// When it was over.
    pub fn shut_down(&self) -> io::Result<()> {
        let was_open = end(self.0, |end| {
            let before = std::mem::replace(&mut end.state, State::Shut);
            before != State::Shut
        });
        match was_open {
            Some(true) => {
                network().shut(self.0);
                Ok(())
            }
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if crate::is_running() {
            let _ = self.shut_down();
            with(|kernel| kernel.sockets.all.remove(&self.0));
        }
    }
}

/// Asks the world for the addresses of a name.
///
/// # Errors
/// The world's.
pub fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    let (time, found) = network().resolve(own_process(), name);
    crate::thread::sleep(time);
    found
}

/// As the client's own bell: wakes one thread, which waits for connections or for a time to come.
#[derive(Debug)]
pub struct Bell(AtomicBool);

impl Bell {
    /// Nobody has rung.
    ///
    /// # Errors
    /// None, so far.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(AtomicBool::new(false)))
    }

    /// Ends the wait that is under way, or the next one.
    pub fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Waits until one of the connections stands or has failed, until somebody rings, or until this instant.
    pub fn wait<'a>(&self, streams: impl Iterator<Item = &'a Stream>, until: Instant) {
        let streams: Vec<&Stream> = streams.collect();
        let is_decided = |stream: &&Stream| !matches!(stream.is_connected(), Ok(false));
        let is_ready = || self.0.load(Ordering::Relaxed) || streams.iter().any(is_decided);
        if !is_ready() {
            block("the bell", Some(count(until)), Some(&is_ready));
        }
        self.0.store(false, Ordering::Relaxed);
    }

    /// Sleeps until this instant, or until somebody rings.
    pub fn sleep(&self, until: Instant) {
        self.wait(std::iter::empty(), until);
    }
}
