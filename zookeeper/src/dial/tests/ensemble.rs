//! Simulated ensembles, whose servers can have any address that the test chooses.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use crate::core::wire::{Put, Reader};
use crate::error::code::NO_NODE;

const PING: i32 = 11;
const CLOSE: i32 = -11;

/// The live sessions, or `None` if the ensemble does not open sessions.
#[derive(Clone)]
pub(super) struct Ensemble(Arc<Mutex<Option<HashSet<i64>>>>);

impl Ensemble {
    pub(super) fn new() -> Ensemble {
        Ensemble(Arc::new(Mutex::new(Some(HashSet::new()))))
    }

    /// Ends all sessions, and opens no new ones until [`Ensemble::reopen`].
    pub(super) fn close(&self) {
        *self.0.lock() = None;
    }

    pub(super) fn reopen(&self) {
        *self.0.lock() = Some(HashSet::new());
    }

    /// Returns the session for a client that requests `asked`: a new session if `asked` is 0, and 0
    /// if the session has ended.
    fn session(&self, asked: i64) -> io::Result<i64> {
        static NEXT: AtomicI64 = AtomicI64::new(1);
        let mut sessions = self.0.lock();
        match (&mut *sessions, asked) {
            (Some(sessions), 0) => {
                let session = NEXT.fetch_add(1, Ordering::SeqCst);
                sessions.insert(session);
                Ok(session)
            }
            (Some(sessions), asked) if sessions.contains(&asked) => Ok(asked),
            (None, 0) => Err(io::ErrorKind::ConnectionRefused.into()),
            _ => Ok(0),
        }
    }
}

/// A server without nodes. It listens until it is dropped.
pub(super) struct Server {
    state: Arc<State>,
    porter: Option<JoinHandle<()>>,
}

struct State {
    address: SocketAddr,
    ensemble: Mutex<Ensemble>,
    /// Whether connections are closed at once.
    is_shut: AtomicBool,
    is_closing: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    /// The sessions that clients have requested; 0 requests a new one.
    asked: Mutex<Vec<i64>>,
}

impl Server {
    /// Starts a server of this ensemble; port 0 means any free port.
    pub(super) fn at(ip: impl Into<IpAddr>, port: u16, ensemble: &Ensemble) -> io::Result<Server> {
        let listener = TcpListener::bind((ip.into(), port))?;
        let state = Arc::new(State {
            address: listener.local_addr()?,
            ensemble: Mutex::new(ensemble.clone()),
            is_shut: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            streams: Mutex::default(),
            asked: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        let porter = thread::spawn(move || accepting.accept(&listener));
        Ok(Server { state, porter: Some(porter) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.state.address
    }

    pub(super) fn asked(&self) -> Vec<i64> {
        self.state.asked.lock().clone()
    }

    /// Closes all connections, and accepts no new ones.
    pub(super) fn shut(&self) {
        self.state.is_shut.store(true, Ordering::SeqCst);
        self.state.cut();
    }

    pub(super) fn open(&self) {
        self.state.is_shut.store(false, Ordering::SeqCst);
    }

    /// Makes the server belong to another ensemble, as if its address had been reassigned, and
    /// clears the recorded requests.
    pub(super) fn turn_to(&self, ensemble: &Ensemble) {
        *self.state.ensemble.lock() = ensemble.clone();
        self.state.asked.lock().clear();
        self.state.cut();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.is_closing.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect(self.state.address));
        self.porter.take().map(JoinHandle::join);
        self.state.cut();
    }
}

impl State {
    fn accept(self: &Arc<State>, listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            if self.is_closing.load(Ordering::SeqCst) {
                return;
            }
            let mut streams = self.streams.lock();
            // `is_shut` is checked while the mutex is held, so that `cut` closes every connection that
            // was accepted before.
            if !self.is_shut.load(Ordering::SeqCst) {
                streams.extend(stream.try_clone());
                let serving = Arc::clone(self);
                // The thread ends when the client or the server closes the connection.
                thread::spawn(move || serving.serve(stream));
            }
        }
    }

    fn cut(&self) {
        for stream in self.streams.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let greeting = frame(&mut stream)?;
        let mut greeting = Reader(&greeting);
        let (_version, _zxid) = (greeting.int().unwrap(), greeting.long().unwrap());
        let (timeout, known) = (greeting.int().unwrap(), greeting.long().unwrap());
        // The request is recorded before the answer is sent, so that a test that has noticed the answer
        // also finds the request.
        let session = {
            let ensemble = self.ensemble.lock();
            self.asked.lock().push(known);
            ensemble.session(known)
        };
        let Ok(session) = session else {
            return stream.shutdown(Shutdown::Both);
        };
        send(&mut stream, |out| {
            out.put_int(0);
            out.put_int(if session == 0 { 0 } else { timeout });
            out.put_long(session);
            out.put_buffer(&[7; 16]);
            out.put_bool(false);
        })?;
        loop {
            let request = frame(&mut stream)?;
            let number =
                |at: usize| i32::from_be_bytes([0, 1, 2, 3].map(|byte| request[at + byte]));
            let code = if [PING, CLOSE].contains(&number(4)) { 0 } else { NO_NODE };
            send(&mut stream, |out| {
                out.put_int(number(0));
                out.put_long(0);
                out.put_int(code);
            })?;
        }
    }
}

/// Sends a frame with this body.
fn send(stream: &mut TcpStream, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut out = Vec::new();
    body(&mut out);
    stream.write_all(&[&(out.len() as u32).to_be_bytes()[..], &out].concat())
}

fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
