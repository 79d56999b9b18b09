//! A TCP connection.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};

use socket2::{Domain, Socket, Type};

/// Makes sending return at once, and return an error instead of raising a signal if the other side has
/// closed the connection.
const SEND: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// A connection, or an attempt to make one.
#[derive(Debug)]
pub struct Stream(pub(super) Socket);

impl Stream {
    /// Begins to connect, without waiting.
    ///
    /// # Errors
    /// Those of the system.
    pub fn connect(address: SocketAddr) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(Stream(socket)),
        }
    }

    /// Returns whether the connection is established. From then on it can be read.
    ///
    /// # Errors
    /// Why the connection cannot be established.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.0.take_error().unwrap_or_else(Some) {
            return Err(error);
        }
        let Ok(peer) = self.0.peer_addr() else {
            return Ok(false);
        };
        // If a port of the ephemeral range has no listener, a connection to it can end up connected
        // to itself.
        if self.0.local_addr()?.as_socket() == peer.as_socket() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.0.set_nonblocking(false)?;
        self.0.set_tcp_nodelay(true)?;
        Ok(true)
    }

    /// Waits for bytes and reads them; zero at the end of the stream.
    ///
    /// # Errors
    /// Those of the system.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(into)
    }

    /// Sends as much as the socket accepts, without waiting.
    ///
    /// # Errors
    /// Those of the system.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, SEND)
    }

    /// Ends the connection, which wakes the reader. Never blocks.
    ///
    /// # Errors
    /// If the other side has already closed the connection.
    pub fn shut_down(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Both)
    }
}
