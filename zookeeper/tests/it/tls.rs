//! TLS with real servers: what works over it, and the error with which each connection is refused.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use zoolock_test_support::{
    FaultProxy, Probe, Server, ServerBuilder, fresh_path, shared_server, wait_until,
};
use zoolock_zookeeper::{
    Acl, Builder, ConnectFailure, CreateMode, ErrorKind, Permissions, SessionEventKind, State, Tls,
};

use crate::util::fake_server::FakeServer;
use crate::util::{self, BRIEFLY, Events, kind};

/// Long enough for a busy machine. Normally, tests do not wait this long.
const SOON: Duration = Duration::from_secs(30);
/// Servers accept requests that are up to 48 KiB longer.
const MEGABYTE: u32 = 1_000_000;

type Change = fn(&mut CertificateParams);

/// An authority that issues certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A chain of certificates and the key for it, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    chain: String,
    key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn give_out(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Identity { chain: params.signed_by(&key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }

    pub(crate) fn give_out_for(&self, host: &str) -> Identity {
        self.give_out(host, |_| ())
    }

    pub(crate) fn give_out_to(&self, name: &str) -> Identity {
        self.give_out("client", |params| params.distinguished_name.push(DnType::CommonName, name))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns settings with which a client trusts only this authority.
    pub(crate) fn tls(&self) -> Tls {
        Tls::new().roots_pem(self.pem().as_bytes())
    }
}

impl Identity {
    pub(crate) fn server(&self) -> ServerBuilder {
        Server::builder().tls(&self.chain, &self.key)
    }

    pub(crate) fn shown_by(&self, tls: Tls) -> Tls {
        tls.client_cert_pem(self.chain.as_bytes(), self.key.as_bytes())
    }
}

/// Makes a server use only TLS 1.3. Without these settings, ZooKeeper 3.8 supports only TLS 1.2.
fn only_1_3(server: ServerBuilder) -> ServerBuilder {
    server
        .property("ssl.protocol", "TLSv1.3")
        .property("ssl.enabledProtocols", "TLSv1.3")
        .property("ssl.ciphersuites", "TLS_AES_256_GCM_SHA384")
}

/// A server with TLS, and the authority that has issued its certificate for 127.0.0.1.
struct Secured {
    version: &'static str,
    authority: Authority,
    server: Server,
}

impl Secured {
    fn start(version: &'static str) -> Self {
        let authority = Authority::new(version);
        // The server keeps its last 500 requests in memory, and the requests of these tests are large.
        let server = authority.give_out_for("127.0.0.1").server().jvm_flag("-Xmx768m");
        let server = if version == "1.3" { only_1_3(server) } else { server };
        let server = server.start().unwrap();
        Self { version, authority, server }
    }

    fn address(&self) -> SocketAddr {
        self.server.secure_address()
    }
}

/// Returns a server for each version of TLS. The tests share the servers.
fn each_version() -> &'static [Secured; 2] {
    static BOTH: OnceLock<[Secured; 2]> = OnceLock::new();
    BOTH.get_or_init(|| ["1.2", "1.3"].map(Secured::start))
}

fn builder(servers: &str) -> Builder {
    util::builder(servers, Duration::from_secs(10)).connect_timeout(SOON)
}

/// Expects that connecting fails in this way without waiting, and returns the error.
fn refused(client: Builder, failure: ConnectFailure) -> String {
    let start = Instant::now();
    let error = client.connect().unwrap_err();
    let took = start.elapsed();
    println!("after {took:.1?}: {error}");
    assert_eq!(error.kind(), ErrorKind::ConnectFailed);
    assert_eq!(error.connect_failure(), Some(failure));
    assert!(took < SOON, "{took:?}");
    error.to_string()
}

fn refused_at(address: impl ToString, tls: Tls) -> String {
    refused(builder(&address.to_string()).tls(tls), ConnectFailure::Tls)
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

#[test]
fn large_requests_and_answers_do_not_block_each_other() {
    const THREADS: u32 = 4;
    for secured in each_version() {
        let root = fresh_path("tls-both-ways");
        Probe::connect(secured.server.address()).unwrap().create_all(&root).unwrap();
        let connect = |servers: &str| {
            let zk = builder(servers).tls(secured.authority.tls()).connect();
            zk.unwrap_or_else(|error| panic!("{error}; {}", secured.server.log_tail()))
        };
        let zk = connect(&secured.address().to_string());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (zk, path) = (&zk, format!("{root}/{thread}"));
                scope.spawn(move || {
                    let numbers = thread * MEGABYTE..(thread + 1) * MEGABYTE;
                    let data: Vec<u8> = numbers.step_by(4).flat_map(u32::to_be_bytes).collect();
                    zk.create(&path, &data, &Acl::open(), CreateMode::Persistent).unwrap();
                    for _ in 0..2 {
                        zk.set_data(&path, &data, None).unwrap();
                        assert!(zk.get_data(&path).unwrap().0 == data, "{path}");
                    }
                });
            }
        });
        let proxy = FaultProxy::start(secured.address()).unwrap();
        let zk = connect(&proxy.connect_string());
        let (session, events) = (zk.session_id(), Events::of(&zk));
        proxy.reset();
        events.until(SessionEventKind::Resumed);
        zk.get_data(&root).unwrap();
        assert_eq!(zk.session_id(), session);
    }
}

#[test]
fn certificate_of_another_issuer_name_or_time_is_refused_with_the_reason() {
    for secured in each_version() {
        let text = refused_at(secured.address(), Authority::new("other").tls());
        assert_says(&text, &[&secured.address().to_string(), "does not lead to a root"]);
        // A common mistake: the authority is new, and the clients still trust the old one.
        let text = refused_at(secured.address(), Authority::new(secured.version).tls());
        assert_says(&text, &["another authority of the same name"]);
        let others = Authority::new("other").tls().danger_accept_invalid_hostnames();
        assert_says(&refused_at(secured.address(), others), &["does not lead to a root"]);
    }

    let authority = Authority::new("ours");
    let any_name = || authority.tls().danger_accept_invalid_hostnames();
    let server = authority.give_out_for("zk1.example").server().start().unwrap();
    let address = server.secure_address().to_string();
    let text = refused_at(&address, authority.tls());
    assert_says(&text, &["not valid for `127.0.0.1`", "`zk1.example`"]);
    let text = refused_at(&address, authority.tls().server_name("zk2.example"));
    assert_says(&text, &["not valid for `zk2.example`", "`zk1.example`"]);
    for accepting in [authority.tls().server_name("zk1.example"), any_name()] {
        builder(&address).tls(accepting).connect().unwrap().exists("/").unwrap();
    }

    // The certificate must be for the host as it is written in the connect string.
    let server = authority.give_out_for("localhost").server().start().unwrap();
    let text = refused_at(server.secure_address(), authority.tls());
    assert_says(&text, &["not valid for `127.0.0.1`: it is for `localhost`"]);
    let named = builder(&format!("localhost:{}", server.secure_address().port()));
    named.tls(authority.tls()).connect().unwrap().exists("/").unwrap();

    let cases: [(&str, Change); 2] = [
        ("expired", |params| params.not_after = date_time_ymd(2001, 2, 3)),
        ("not valid yet", |params| params.not_before = date_time_ymd(3000, 1, 1)),
    ];
    for (what, change) in cases {
        let server = authority.give_out("127.0.0.1", change).server().start().unwrap();
        for tls in [authority.tls(), any_name()] {
            assert_says(&refused_at(server.secure_address(), tls), &[what, "days"]);
        }
    }
}

#[test]
fn port_that_speaks_something_else_is_named() {
    let [secured, _] = each_version();
    let tls = || secured.authority.tls();
    // The plain ports of ZooKeeper's own sockets and of Netty behave differently.
    for plain in [shared_server().address(), secured.server.address()] {
        assert_says(&refused_at(plain, tls()), &[&plain.to_string(), "plain port"]);
    }
    let fake_server = FakeServer::new(shared_server().address(), |connection| {
        connection.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        connection.stream.shutdown(Shutdown::Write)?;
        connection.linger()
    });
    assert_says(&refused_at(fake_server.address(), tls()), &["answered in plain text"]);
    // This listener accepts connections, but never answers.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent = builder(&listener.local_addr().unwrap().to_string());
    let begun = Instant::now();
    refused(silent.tls(tls()).connect_timeout(BRIEFLY), ConnectFailure::Silent);
    assert!(begun.elapsed() >= BRIEFLY);
    for secured in each_version() {
        let text = refused(builder(&secured.address().to_string()), ConnectFailure::NoSession);
        assert_says(&text, &[&secured.address().to_string(), "TLS"]);
    }
}

#[test]
fn bytes_after_the_end_of_tls_end_the_connection() {
    let authority = Authority::new("hostile");
    let identity = authority.give_out_for("127.0.0.1");
    let chain = CertificateDer::from_pem_slice(identity.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![chain], key).unwrap());
    let fake_server = FakeServer::new(shared_server().address(), move |connection| {
        let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut connection.stream)?;
        }
        tls.send_close_notify();
        let mut bytes = Vec::new();
        tls.write_tls(&mut bytes)?;
        // One write contains more bytes than one read returns.
        bytes.resize(bytes.len() + 10_000, 0);
        connection.stream.write_all(&bytes)?;
        connection.stream.shutdown(Shutdown::Write)?;
        connection.linger()
    });
    let text = refused_at(fake_server.address(), authority.tls());
    assert!(!text.contains("no answer"), "{text}");
}

#[test]
fn client_certificate_is_required_and_must_match_the_servers_roots() {
    for version in ["1.2", "1.3"] {
        let (authority, other) = (Authority::new("server"), Authority::new("other"));
        let server = authority.give_out_for("127.0.0.1").server().tls_clients(&authority.pem());
        let server = if version == "1.3" { only_1_3(server) } else { server };
        let server = server.start().unwrap();
        let address = server.secure_address();
        let text = refused_at(address, authority.tls());
        assert_says(&text, &["requires a client certificate"]);
        let text = refused_at(address, other.give_out_to("mallory").shown_by(authority.tls()));
        assert_says(&text, &["the client's certificate", "not trust"]);

        // The client's certificate is also its identity.
        let connect = |name: &str| {
            let tls = authority.give_out_to(name).shown_by(authority.tls());
            builder(&address.to_string()).tls(tls).connect().unwrap()
        };
        let alice = Acl::new(Permissions::ALL, "x509", "CN=alice");
        let path = fresh_path("of-alice");
        connect("alice").create_all(&path, &[alice], CreateMode::Persistent).unwrap();
        connect("alice").get_data(&path).unwrap();
        assert_eq!(kind(connect("bob").get_data(&path)), ErrorKind::NoAuth);
    }
}

/// The certificates of a program that runs for years have to be renewed.
#[test]
fn client_certificate_is_read_again_for_each_connection_even_after_a_panic() {
    let (authority, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let server = authority.give_out_for("127.0.0.1").server().tls_clients(&authority.pem());
    let server = server.start().unwrap();
    let proxy = FaultProxy::start(server.secure_address()).unwrap();
    let good = Ok::<_, io::ErrorKind>(authority.give_out_for("client"));
    let shown = Arc::new(Mutex::new(good));
    let source = Arc::clone(&shown);
    let shows = move || source.lock().unwrap().as_ref().map_err(|kind| *kind).cloned();
    let tls = authority.tls().client_cert_from(move || match shows() {
        Ok(Identity { chain, key }) => Ok((chain.into(), key.into())),
        // The callback reads a file that is just being replaced, and unwraps the result.
        Err(io::ErrorKind::Other) => panic!("it is not there"),
        Err(kind) => Err(kind.into()),
    });
    let connect = || builder(&proxy.connect_string()).tls(tls.clone());
    let zk = connect().connect().unwrap();
    let session = zk.session_id();
    let (one, other) = (authority.give_out_for("client"), authority.give_out_for("client"));
    let unfit = Identity { chain: one.chain, key: other.key };
    for (bad, says) in [
        (Ok(foreign.give_out_for("client")), "the server"),
        (Ok(unfit), "cannot be used"),
        (Err(io::ErrorKind::NotFound), "failed to read"),
        (Err(io::ErrorKind::Other), "the function panicked"),
    ] {
        *shown.lock().unwrap() = bad;
        proxy.cut();
        wait_until("the connection is cut", SOON, || zk.state() == State::Suspended);
        let error = connect().connect().unwrap_err();
        assert_says(&error.to_string(), &[says]);
        assert_eq!((zk.state(), zk.session_id()), (State::Suspended, session), "{error}");
        *shown.lock().unwrap() = Ok(authority.give_out_for("client"));
        wait_until("the session is resumed", SOON, || zk.state() == State::Connected);
        assert_eq!(zk.session_id(), session, "{error}");
    }
}

/// The environment of the process determines the system's trusted roots, so the test runs again in its own process.
#[test]
fn system_roots_are_trusted_unless_others_are_given() {
    const SERVERS: &str = "ZOOLOCK_TEST_TLS_SERVERS";
    const NAME: &str = "tls::system_roots_are_trusted_unless_others_are_given";
    if let Ok(servers) = env::var(SERVERS) {
        let client = builder(&servers).tls(Tls::new());
        match client.connect() {
            Ok(zk) => println!("connected: {:?}", zk.exists("/").is_ok()),
            Err(error) => println!("{:?}: {error}", error.kind()),
        }
        return;
    }
    let [secured, other] = each_version();
    let file = format!("roots-{}.pem", process::id());
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
    let run = || {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", NAME, "--nocapture"]);
        child.env(SERVERS, secured.address().to_string());
        child.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", &file);
        let output = String::from_utf8_lossy(&child.output().unwrap().stdout).into_owned();
        println!("{output}");
        output
    };
    fs::write(&file, secured.authority.pem()).unwrap();
    assert_says(&run(), &["connected: true"]);
    fs::write(&file, other.authority.pem()).unwrap();
    assert_says(&run(), &["ConnectFailed", "does not lead to a root"]);
    fs::remove_file(&file).unwrap();
    assert_says(&run(), &["BadArguments", "no root certificates"]);
}
