//! The sockets of the processes, and the bell that ends a wait for sockets. The world is the remote end of all sockets,
//! as a [`Network`].

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::count;
use crate::machine::Process;
use crate::scheduler::{block, may_give_way, own_process, with};

/// The remote end of all sockets.
pub trait Network {
    /// Opens a connection for a process. The network calls [`answered`] to accept or refuse it, or never answers.
    fn connect(&self, process: Process, socket: u64, address: SocketAddr);
    /// Takes as many bytes from a process as fit, and returns their number.
    fn send(&self, socket: u64, bytes: &[u8]) -> usize;
    /// Closes the process's end of a connection.
    fn shut(&self, socket: u64);
    /// Returns the addresses of a name, and how long looking them up takes.
    fn resolve(&self, process: Process, name: &str) -> (Duration, io::Result<Vec<SocketAddr>>);
}

#[derive(Default)]
pub(crate) struct Sockets {
    network: Option<Rc<dyn Network>>,
    all: BTreeMap<u64, End>,
    last: u64,
}

/// A process's end of a connection.
struct End {
    process: Process,
    state: State,
    come: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    /// The remote end has closed the connection. Bytes that have arrived can still be read.
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

// ---- called by the world

/// Sets the remote end of all sockets.
pub fn set_network(network: Rc<dyn Network>) {
    with(|kernel| kernel.sockets.network = Some(network));
}

/// Accepts a connection, or refuses it.
pub fn answered(socket: u64, is_accepted: bool) {
    end(socket, |end| match (end.state, is_accepted) {
        (State::Connecting, true) => end.state = State::Open,
        (_, true) => {}
        (_, false) => end.state = State::Failed(io::ErrorKind::ConnectionRefused),
    });
}

/// Delivers bytes to the process.
pub fn deliver(socket: u64, bytes: &[u8]) {
    end(socket, |end| {
        if end.state == State::Open {
            end.come.extend_from_slice(bytes);
        }
    });
}

/// Closes a connection at the remote end. If `is_torn` is true, bytes that have not been read are lost.
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

// ---- called by processes

/// A connection of a process.
#[derive(Debug)]
pub struct Stream(u64);

impl Stream {
    /// Begins to connect. In the simulation, this never fails.
    pub fn connect(address: SocketAddr) -> io::Result<Stream> {
        let process = own_process();
        let socket = with(|kernel| {
            let sockets = &mut kernel.sockets;
            sockets.last += 1;
            let end = End { process, state: State::Connecting, come: Vec::new() };
            sockets.all.insert(sockets.last, end);
            sockets.last
        });
        network().connect(process, socket, address);
        Ok(Stream(socket))
    }

    /// Returns whether the connection is established, or an error if it has failed.
    pub fn is_connected(&self) -> io::Result<bool> {
        match end(self.0, |end| end.state) {
            Some(State::Connecting) => Ok(false),
            Some(State::Open | State::Finished) => Ok(true),
            Some(State::Failed(kind)) => Err(kind.into()),
            Some(State::Shut) | None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Waits for bytes, and reads them. Returns 0 at the end of the connection, and an error if the connection broke.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        may_give_way();
        let is_ready = || {
            let ready = |end: &mut End| !end.come.is_empty() || end.state != State::Open;
            end(self.0, ready).unwrap_or(true)
        };
        if !is_ready() {
            block("a read", None, Some(&is_ready));
        }
        let read = end(self.0, |end| match end.state {
            State::Shut => Ok(0),
            State::Failed(kind) => Err(kind.into()),
            _ => {
                let count = end.come.len().min(into.len());
                into[..count].copy_from_slice(&end.come[..count]);
                end.come.drain(..count);
                Ok(count)
            }
        });
        read.unwrap_or(Ok(0))
    }

    /// Sends as many bytes as fit, and returns their number. Fails with `WouldBlock` if none fits, and with another
    /// error if the connection is not open.
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

    /// Closes the connection, which makes reads return. Fails if the connection is already closed.
    pub fn shut_down(&self) -> io::Result<()> {
        let before = end(self.0, |end| std::mem::replace(&mut end.state, State::Shut));
        if matches!(before, None | Some(State::Shut)) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        network().shut(self.0);
        Ok(())
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

/// Looks up the addresses of a name.
pub fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    let (time, found) = network().resolve(own_process(), name);
    crate::thread::sleep(time);
    found
}

/// Wakes a thread that waits for connections or for an instant. This simulates the bell of the client.
#[derive(Debug)]
pub struct Bell(AtomicBool);

impl Bell {
    /// Creates a bell that has not been rung. In the simulation, this never fails.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(AtomicBool::new(false)))
    }

    /// Ends the current wait, or the next one.
    pub fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Waits until a connection is established or has failed, until the bell rings, or until this instant.
    pub fn wait<'a>(&self, streams: impl Iterator<Item = &'a Stream>, until: Instant) {
        let streams: Vec<&Stream> = streams.collect();
        let is_decided = |stream: &&Stream| !matches!(stream.is_connected(), Ok(false));
        let is_ready = || self.0.load(Ordering::Relaxed) || streams.iter().any(is_decided);
        if !is_ready() {
            block("the bell", Some(count(until)), Some(&is_ready));
        }
        self.0.store(false, Ordering::Relaxed);
    }

    /// Sleeps until this instant or until the bell rings.
    pub fn sleep(&self, until: Instant) {
        self.wait(std::iter::empty(), until);
    }
}
