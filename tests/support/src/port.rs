//! Loopback ports that stay reserved while no process listens on them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Below Linux's default range for outgoing connections. Otherwise, a client that connects to a stopped server might
/// get the server's port for its own socket and connect to itself.
const FIRST: u16 = 10_240;
const LAST: u16 = 32_000;
const ATTEMPTS: usize = 200;

/// A port of 127.0.0.1 that this process has bound without listening.
///
/// The kernel refuses connections to it, and other processes cannot reserve it. A listener with `SO_REUSEADDR`, such as
/// Rust's and ZooKeeper's, can be started on it any number of times.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    address: SocketAddr,
    bound: Socket,
}

impl ReservedPort {
    pub(crate) fn any() -> io::Result<Self> {
        let mut last_error = io::Error::other("no attempt made");
        for _ in 0..ATTEMPTS {
            match Self::reserve(candidate()) {
                Ok(port) => return Ok(port),
                Err(error) => last_error = error,
            }
        }
        let text = format!("failed to find a free port in {FIRST}..{LAST}: {last_error}");
        Err(io::Error::new(last_error.kind(), text))
    }

    /// Fails only if another process listens on this port: connections of an earlier server may linger for a minute.
    pub(crate) fn at(port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("failed to reserve port {port}: {error}"))
        };
        Self::bind(socket, port).map_err(named)
    }

    fn reserve(port: u16) -> io::Result<Self> {
        // Without the option, binding fails if any other process has bound the port. Setting it afterwards lets our own
        // server listen.
        let reserved = Self::bind(Socket::new(Domain::IPV4, Type::STREAM, None)?, port)?;
        reserved.bound.set_reuse_address(true)?;
        Ok(reserved)
    }

    fn bind(bound: Socket, port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        bound.bind(&address.into())?;
        Ok(Self { address, bound })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        TcpListener::bind(self.address)
    }
}

fn candidate() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    FIRST + (random % u64::from(LAST - FIRST)) as u16
}
