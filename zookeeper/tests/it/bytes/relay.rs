//! A relay between clients and a server that records every frame.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Longer than any frame of the script.
const LONGEST: usize = 1 << 20;

/// The sender of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A frame without its length.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The number of the connection, from 0.
    pub(crate) connection: usize,
    pub(crate) from: Side,
    pub(crate) bytes: Vec<u8>,
}

/// Listens on a port until it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    is_over: AtomicBool,
    /// In order of arrival. Frames are recorded before they are passed on, so all frames that led to an
    /// answer are here when it arrives.
    frames: Mutex<Vec<Frame>>,
    open: Mutex<Vec<TcpStream>>,
}

impl Relay {
    pub(crate) fn start(server: SocketAddr) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            is_over: AtomicBool::new(false),
            frames: Mutex::default(),
            open: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let listener = Some(thread::spawn(move || of_thread.listen(&listener)));
        Ok(Relay { address, shared, listener })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The frames since the last call.
    pub(crate) fn take(&self) -> Vec<Frame> {
        std::mem::take(&mut lock(&self.shared.frames))
    }

    /// Ends all connections, to the server and to the clients.
    pub(crate) fn cut(&self) {
        for stream in lock(&self.shared.open).drain(..) {
            // The other side may have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener, which checks for its end.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        self.cut();
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for connection in 0.. {
            let Ok((client, _)) = listener.accept() else {
                return;
            };
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            // A connection that cannot be passed on is closed, as if the server were down.
            let _ = self.join(connection, client);
        }
    }

    fn join(self: &Arc<Self>, connection: usize, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(self.server)?;
        let ways = [
            (Side::Client, client.try_clone()?, server.try_clone()?),
            (Side::Server, server.try_clone()?, client.try_clone()?),
        ];
        lock(&self.open).extend([client, server]);
        for (side, source, sink) in ways {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // Ends with an error, at the latest when the connection is closed.
                let _ = shared.pass_on(connection, side, &source, &sink);
                let _ = source.shutdown(Shutdown::Both);
                let _ = sink.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn pass_on(
        &self,
        connection: usize,
        from: Side,
        mut source: &TcpStream,
        mut sink: &TcpStream,
    ) -> io::Result<()> {
        loop {
            let mut head = [0; 4];
            source.read_exact(&mut head)?;
            let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
            if length > LONGEST {
                return Err(io::Error::other("not a frame"));
            }
            let mut bytes = vec![0; length];
            source.read_exact(&mut bytes)?;
            let whole = [&head[..], &bytes].concat();
            lock(&self.frames).push(Frame { connection, from, bytes });
            sink.write_all(&whole)?;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
