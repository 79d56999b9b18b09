//! A second port of a server, for TLS.

use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

// ZooKeeper recognizes PEM by the settings below, not by these names.
const IDENTITY_FILE: &str = "identity.pem";
const CLIENT_ROOTS_FILE: &str = "client-roots.pem";

/// Settings of the port; see [`ServerBuilder::tls`](super::ServerBuilder::tls).
#[derive(Clone)]
pub(crate) struct Tls {
    /// The server's key and the chain of its certificates.
    identity: String,
    client_roots: Option<String>,
}

impl Tls {
    pub(crate) fn new(chain_pem: &str, key_pem: &str) -> Self {
        Self {
            identity: format!("{}\n{}\n", key_pem.trim_end(), chain_pem.trim_end()),
            client_roots: None,
        }
    }

    pub(crate) fn require_clients(&mut self, roots_pem: &str) {
        self.client_roots = Some(roots_pem.to_owned());
    }

    /// Writes the files that the configuration file names.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(IDENTITY_FILE), &self.identity)?;
        let roots = self.client_roots.as_deref();
        roots.map_or(Ok(()), |roots| fs::write(folder.join(CLIENT_ROOTS_FILE), roots))
    }

    /// Returns the lines for `zoo.cfg`.
    pub(crate) fn write_lines(&self, text: &mut String, folder: &Path, address: SocketAddr) {
        let identity = folder.join(IDENTITY_FILE);
        let _ = write!(
            text,
            // ZooKeeper's own sockets know no TLS, and a server has one kind for both ports.
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             secureClientPort={}\n\
             secureClientPortAddress={}\n\
             ssl.keyStore.type=PEM\n\
             ssl.keyStore.location={}\n",
            address.port(),
            address.ip(),
            identity.display(),
        );
        let clients = if self.client_roots.is_some() {
            let roots = folder.join(CLIENT_ROOTS_FILE);
            let _ = writeln!(text, "ssl.trustStore.type=PEM");
            let _ = writeln!(text, "ssl.trustStore.location={}", roots.display());
            "need"
        } else {
            "none"
        };
        let _ = writeln!(text, "ssl.clientAuth={clients}");
    }
}

/// Prints without the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients = self.client_roots.is_some();
        let mut shown = f.debug_struct("Tls");
        shown.field("requires_clients", &clients).finish()
    }
}
