//! A listener that misbehaves as a test demands, or passes everything on to a real server.

use std::io::{self, Read, Write};
use std::mem::take;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::util::SOON;

/// How a connection is handled. When this function returns, the connection ends.
pub(crate) type Manner = Arc<dyn Fn(&mut Connection) -> io::Result<()> + Send + Sync>;

/// A listener. Dropping it ends all connections and threads.
pub(crate) struct FakeServer {
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

struct State {
    address: SocketAddr,
    server: SocketAddr,
    /// How new connections are handled.
    manner: Mutex<Manner>,
    connections: AtomicUsize,
    is_closing: AtomicBool,
    /// The streams of connections, some of which may have ended.
    streams: Mutex<Vec<TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A connection from the client.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// The number of connections before this one.
    pub(crate) number: usize,
    state: Arc<State>,
}

impl FakeServer {
    /// Handles every connection in this way until that is changed. The handler may use the real server.
    pub(crate) fn new(
        server: SocketAddr,
        manner: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = Arc::new(State {
            address: listener.local_addr().unwrap(),
            server,
            manner: Mutex::new(Arc::new(manner)),
            connections: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            streams: Mutex::default(),
            threads: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        let acceptor = thread::spawn(move || accepting.accept(&listener));
        FakeServer { state, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> String {
        self.state.address.to_string()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Handles new connections in this way, and ends all current ones.
    pub(crate) fn change(
        &self,
        manner: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) {
        let mut now = self.state.manner.lock().unwrap();
        *now = Arc::new(manner);
        // This does not end any new connection, because new ones wait for the mutex.
        self.state.cut();
    }

    /// Passes on everything on new connections, and ends all current ones.
    pub(crate) fn behave(&self) {
        self.change(Connection::pass_on);
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.state.is_closing.store(true, Ordering::SeqCst);
        // This connection wakes the thread that accepts connections.
        drop(TcpStream::connect(self.state.address));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
        }
        self.state.cut();
        for thread in take(&mut *self.state.threads.lock().unwrap()) {
            thread.join().unwrap();
        }
    }
}

impl State {
    fn accept(self: &Arc<State>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.is_closing.load(Ordering::SeqCst) {
                return;
            }
            let stream = stream.unwrap();
            let now = self.manner.lock().unwrap();
            let manner = Arc::clone(&now);
            self.streams.lock().unwrap().push(stream.try_clone().unwrap());
            drop(now);
            let number = self.connections.fetch_add(1, Ordering::SeqCst);
            let mut connection = Connection { stream, number, state: Arc::clone(self) };
            let serve = move || {
                // An error only means that the client has reacted.
                let _ = manner(&mut connection);
                let _ = connection.leave();
            };
            self.threads.lock().unwrap().push(thread::spawn(serve));
        }
    }

    fn cut(&self) {
        for stream in take(&mut *self.streams.lock().unwrap()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Connection {
    /// Reads the next frame from the client, without its length.
    pub(crate) fn frame(&mut self) -> io::Result<Vec<u8>> {
        read_frame(&mut self.stream)
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(&framed(frame))
    }

    /// Closes the connection.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Both)
    }

    /// Waits until the client closes the connection. If this side closed it with unread bytes, it would be reset.
    pub(crate) fn linger(&mut self) -> io::Result<()> {
        io::copy(&mut self.stream, &mut io::sink()).map(drop)
    }

    /// Waits for at most `longest` until the client closes the connection. Returns false if it has not closed it by then. The last bytes that
    /// it has sent may stay unread.
    pub(crate) fn has_left_within(&self, longest: Duration) -> io::Result<bool> {
        let longest = longest.try_into().expect("no long time");
        let mut end = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        Ok(poll(&mut end, Some(&longest))? > 0)
    }

    /// Waits until the client closes the connection, without reading anything.
    pub(crate) fn ignore(&mut self) -> io::Result<()> {
        assert!(self.has_left_within(SOON)?, "the client has not left");
        Ok(())
    }

    /// Passes on everything in both directions.
    pub(crate) fn pass_on(&mut self) -> io::Result<()> {
        self.relay(|bytes, _, to| to.write_all(bytes))
    }

    /// Lets the real server open or resume the session. The session is kept alive by the returned stream, and then
    /// lasts for its timeout.
    pub(crate) fn introduce(&mut self) -> io::Result<TcpStream> {
        let mut server = self.connect()?;
        let request = self.frame()?;
        server.write_all(&framed(&request))?;
        let answer = read_frame(&mut server)?;
        self.send(&answer)?;
        Ok(server)
    }

    /// Passes on bytes between the client and the server. `send` receives each piece, and whether it belongs to an
    /// answer.
    pub(crate) fn relay(
        &self,
        send: impl Fn(&mut [u8], bool, &mut &TcpStream) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        let carry = |mut from: &TcpStream, mut to: &TcpStream, is_answer| {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if send(&mut buffer[..length], is_answer, &mut to).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        };
        let server = self.connect()?;
        thread::scope(|scope| {
            scope.spawn(|| carry(&server, &self.stream, true));
            carry(&self.stream, &server, false);
        });
        Ok(())
    }

    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let server = TcpStream::connect(self.state.server)?;
        self.state.streams.lock().unwrap().push(server.try_clone()?);
        Ok(server)
    }
}

pub(crate) fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

pub(crate) fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
