//! Loopback ports that stay reserved even while no server listens on them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// These ports are below Linux's default range for outgoing connections. In that range, a client that connects to a
/// stopped server might be given the server's port as its own, and connect to itself.
const FIRST: u16 = 10_240;
const LAST: u16 = 32_000;
const ATTEMPTS: usize = 200;

/// A port on 127.0.0.1 that this process has bound, but on which it does not listen.
///
/// The kernel refuses connections to the port, and other processes cannot reserve it. Listeners with `SO_REUSEADDR`,
/// such as those of Rust and ZooKeeper, can be started on it any number of times.
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

    /// Fails only if another process listens on this port. Lingering connections of an earlier server do not matter.
    pub(crate) fn at(port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("failed to reserve port {port}: {error}"))
        };
        Self::bind(socket, port).map_err(named)
    }

    fn reserve(port: u16) -> io::Result<Self> {
        // At this point, binding fails if any other process has bound the port. Setting the option afterwards allows
        // our own server to listen.
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
