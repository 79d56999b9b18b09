//! Servers listen for TLS, alone or with certificates of clients.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use zoolock_test_support::{FaultProxy, Probe, Server, wait_until};

use crate::SOON;

/// A certificate authority for 127.0.0.1, which issues chains and keys in PEM.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn give_out(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Returns a server's answer to `ruok` over TLS, for a client with or without a certificate.
    fn ask(&self, address: SocketAddr, client: Option<&(String, String)>) -> io::Result<String> {
        let mut stream = self.open(address, client)?;
        stream.write_all(b"ruok")?;
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            // The server closes the connection without a TLS alert.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(answer),
            outcome => outcome.map(|_| answer),
        }
    }

    fn open(
        &self,
        address: SocketAddr,
        client: Option<&(String, String)>,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        let name = ServerName::from(address.ip());
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(SOON))?;
        Ok(StreamOwned::new(tls, stream))
    }
}

#[test]
fn a_second_port_speaks_tls_and_both_stay_over_restarts() {
    let authority = Authority::new();
    let (chain, key) = authority.give_out();
    let server = Server::builder().tls(&chain, &key).start().unwrap();
    let secure = server.secure_address();
    println!("plain at {}, TLS at {secure}", server.address());
    assert_ne!(secure, server.address());
    for round in ["first", "second"] {
        assert_eq!(server.secure_address(), secure);
        assert_eq!(authority.ask(secure, None).unwrap(), "imok", "{round}");
        let plain = Probe::connect(server.address()).unwrap();
        let path = format!("/{round}");
        plain.create(&path, b"", false, false).unwrap();
        assert!(plain.exists("/first").unwrap(), "{round}");
        server.restart().unwrap();
    }
    let stranger = Authority::new().ask(secure, None).unwrap_err();
    println!("{stranger}");
    assert!(stranger.to_string().contains("invalid peer certificate"));
}

#[test]
fn clients_have_to_show_a_certificate_of_the_given_roots() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (chain, key) = authority.give_out();
    let server = Server::builder().tls(&chain, &key);
    let server = server.tls_clients(&authority.0.pem()).start().unwrap();
    let secure = server.secure_address();
    let (good, wrong) = (authority.give_out(), other.give_out());
    assert_eq!(authority.ask(secure, Some(&good)).unwrap(), "imok");
    for refused in [None, Some(&wrong)] {
        let refused = authority.ask(secure, refused).unwrap_err();
        println!("{refused}");
        assert!(refused.to_string().contains("alert"), "{refused}");
    }
    println!("{server:?}");
    assert!(!format!("{server:?}").contains("PRIVATE KEY"));
}

#[test]
fn tls_passes_a_proxy_which_can_cut_it() {
    let authority = Authority::new();
    let (chain, key) = authority.give_out();
    let server = Server::builder().tls(&chain, &key).start().unwrap();
    let proxy = FaultProxy::start(server.secure_address()).unwrap();
    assert_eq!(authority.ask(proxy.address(), None).unwrap(), "imok");

    let mut open = authority.open(proxy.address(), None).unwrap();
    open.flush().unwrap();
    assert!(!open.conn.is_handshaking());
    proxy.cut();
    let end = open.read(&mut [0; 1]);
    println!("cut: {end:?}");
    assert!(end.is_err_and(|error| error.kind() == ErrorKind::UnexpectedEof));
    wait_until("the proxy has no connection", SOON, || proxy.open_connections() == 0);
    assert_eq!(authority.ask(proxy.address(), None).unwrap(), "imok");
}

#[test]
#[should_panic(expected = "without `ServerBuilder::tls`")]
fn a_server_without_tls_has_no_address_for_it() {
    let _ = zoolock_test_support::shared_server().secure_address();
}
