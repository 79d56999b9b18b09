//! Loopback ports that stay reserved without a listener.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Below Linux's default range for outgoing connections. Otherwise a client that dials a stopped
/// server could get the same port as its own, and connect to itself.
const FIRST: u16 = 10_240;
const LAST: u16 = 32_000;
const ATTEMPTS: usize = 200;

/// A port of 127.0.0.1 that is bound by this process but not listened on.
///
/// Connections to it are refused, and other processes cannot reserve it. A listener that sets
/// `SO_REUSEADDR`, as Rust's and ZooKeeper's do, can be started on it any number of times.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    address: SocketAddr,
    _bound: Socket,
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

    fn reserve(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Binding without the option fails if another socket has the port, even without listening.
        // Setting the option afterwards lets our own listener in.
        socket.bind(&address.into())?;
        socket.set_reuse_address(true)?;
        Ok(Self { address, _bound: socket })
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
