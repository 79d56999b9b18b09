//! SASL with real servers: what it permits, and the error with which each client is refused.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{
    FaultProxy, Op, Server, ServerBuilder, Then, connect_string, fresh_path, wait_until,
};
use zoolock_zookeeper::{
    Acl, Builder, ConnectFailure, CreateMode, ErrorKind, Permissions, SessionEventKind, ZooKeeper,
};

use crate::util::fake_server::FakeServer;
use crate::util::{
    Events, SESSION, SHORT, SOON, behind_a_proxy, builder, client_of, kind, make_ephemeral, said,
};

/// The operation with which SASL's tokens are sent.
const SASL: Op = Op::Other(102);

/// Users whose names and passwords contain characters that are special in tokens, in two alphabets.
const USERS: &[(&str, &str)] = &[
    ("bob", "correct-horse"),
    ("ann", r#"a"b\c, realm="d",,=\"#),
    ("jos\u{e9}", "stra\u{df}e"),
    ("\u{43a}\u{43b}\u{44e}\u{447}", "\u{43a}\u{43b}\u{44e}\u{447}-\u{9375}"),
];

fn server() -> ServerBuilder {
    Server::builder().sasl_users(USERS)
}

/// Returns a server that also accepts clients that do not use SASL.
fn lenient() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| server().start().unwrap())
}

/// Returns a server that ends each connection whose first request is not SASL's.
fn strict() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let strict = || server().property("sessionRequireClientSASLAuth", "true").start().unwrap();
    SERVER.get_or_init(strict)
}

fn connect((user, password): (&str, &str), servers: &str) -> ZooKeeper {
    let client = builder(servers, SESSION).sasl(user, password).connect();
    client.unwrap_or_else(|error| panic!("{user}: {error}"))
}

/// Expects that connecting with this password fails immediately, and returns the reason.
#[track_caller]
fn refused((user, password): (&str, &str), servers: &str) -> String {
    let begun = Instant::now();
    let error = builder(servers, SESSION).sasl(user, password).connect().unwrap_err();
    let text = error.to_string();
    println!("after {:.1?}: {text}", begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::AuthFailed);
    assert_eq!(error.connect_failure(), Some(ConnectFailure::Credentials));
    assert!(begun.elapsed() < SOON / 2, "it took {:?}", begun.elapsed());
    assert!(!text.contains(password), "{text}");
    text
}

#[test]
fn sasl_user_owns_its_nodes() {
    let servers = lenient().connect_string();
    let stranger = client_of(&servers, SESSION);
    let root = fresh_path("own");
    stranger.create_all(&root, &Acl::open(), CreateMode::Persistent).unwrap();
    let clients = USERS.iter().map(|user| (user.0, connect(*user, &servers))).collect::<Vec<_>>();
    for (number, (user, owner)) in clients.iter().enumerate() {
        let (name, other) = &clients[(number + 1) % clients.len()];
        let path = format!("{root}/{number}");
        owner.create(&path, b"", &Acl::creator_all(), CreateMode::Persistent).unwrap();
        let acl = owner.get_acl(&path).unwrap().0;
        assert_eq!(acl, [Acl::new(Permissions::ALL, "sasl", *user)]);
        owner.get_data(&path).unwrap();
        assert_eq!(kind(stranger.get_data(&path)), ErrorKind::NoAuth);
        assert_eq!(kind(other.get_data(&path)), ErrorKind::NoAuth);
        let both = [acl[0].clone(), Acl::new(Permissions::READ, "sasl", *name)];
        owner.set_acl(&path, &both, None).unwrap();
        other.get_data(&path).unwrap();
        assert_eq!(kind(other.set_data(&path, b"", None)), ErrorKind::NoAuth);
        // A client can use SASL together with other credentials.
        owner.add_auth("digest", b"eve:x").unwrap();
        owner.set_acl(&path, &Acl::creator_all(), None).unwrap();
        let acl = owner.get_acl(&path).unwrap().0;
        let mut schemes: Vec<_> = acl.iter().map(|acl| &*acl.scheme).collect();
        schemes.sort_unstable();
        assert_eq!(schemes, ["digest", "sasl"]);
    }
}

#[test]
fn sasl_comes_first_on_every_connection() {
    use SessionEventKind::{Connected, Resumed, Suspended};
    let (proxy, client) = behind_a_proxy(lenient(), |servers| connect(USERS[0], servers));
    let (events, path) = (Events::of(&client), "/first");
    client.create(path, b"", &Acl::creator_all(), CreateMode::Persistent).unwrap();
    for end in [Resumed, Connected, Resumed] {
        proxy.cut_off();
        events.until(Suspended);
        if end == Connected {
            assert_eq!(proxy.expire_sessions().unwrap(), 1);
        }
        let reads = [(); 10].map(|()| client.submit(|batch| batch.get_data(path, None)));
        proxy.restore();
        events.until(end);
        for read in reads {
            // If the session has expired, the read has failed.
            let read = read.wait();
            assert!(read.is_ok() || end == Connected, "{read:?}");
        }
        client.set_data(path, b"new", None).unwrap();
    }
    let (asked, opened) = (proxy.requests(SASL), client.counts().connections);
    assert_eq!(asked, opened * 2, "{opened} connections had the session");
}

#[test]
fn silence_during_sasl_leads_to_the_next_connection() {
    for nth in [1, 2] {
        let proxy = FaultProxy::start(strict().address()).unwrap();
        let silent = proxy.drop_answer(SASL, nth, Then::Hold);
        connect(USERS[0], &proxy.connect_string()).close().unwrap();
        assert!(silent.fired());
    }
}

#[test]
fn wrong_password_and_unknown_user_are_reported_by_name() {
    let tolerant = server().property("allowSaslFailedClients", "true").start().unwrap();
    for server in [lenient(), strict(), &tolerant] {
        let servers = server.connect_string();
        for user in [("bob", "wrong-horse"), ("nobody", "wrong-horse")] {
            let text = refused(user, &servers);
            let name = format!("{:?}", user.0);
            assert!(text.contains(&name) && text.contains("\"zk-sasl-md5\""), "{text}");
            assert!(text.contains("with this password?"), "{text}");
        }
        connect(USERS[0], &servers).close().unwrap();
    }
    let text = refused(USERS[0], &connect_string());
    assert!(text.contains("the server does not support SASL: does it have a JAAS"), "{text}");
    let nobody = builder("127.0.0.1:1", SESSION).sasl("", "correct-horse").connect();
    assert_eq!(kind(nobody), ErrorKind::BadArguments);
}

#[test]
fn refusing_server_leaves_the_next_one_to_the_client() {
    let plain = Server::start().unwrap();
    let servers = format!("{},{}", plain.connect_string(), lenient().connect_string());
    for _ in 0..4 {
        connect(USERS[0], &servers).close().unwrap();
    }
}

/// Returns a relay to `server` that replaces a part of the server's answers by bytes of the same length.
fn forging(server: SocketAddr, from: &'static [u8], to: &'static [u8]) -> FakeServer {
    assert_eq!(from.len(), to.len());
    FakeServer::new(server, move |connection| {
        connection.relay(|bytes, is_answer, sink| {
            // The bytes arrive in one piece, because nothing else is in flight.
            let found = bytes.windows(from.len()).position(|part| part == from);
            if let (true, Some(at)) = (is_answer, found) {
                bytes[at..at + to.len()].copy_from_slice(to);
            }
            sink.write_all(bytes)
        })
    })
}

#[test]
fn forged_challenge_is_refused_with_the_reason() {
    let cases: [(&[u8], &[u8], &str); 2] = [
        (b"realm=\"zk-sasl-md5\"", b"realm=\"zk-sasl-md6\"", "in its realm \"zk-sasl-md6\""),
        (b"rspauth=", b"rspaut_=", "the server does not know the password"),
    ];
    for (from, to, says) in cases {
        let text = refused(USERS[0], &forging(lenient().address(), from, to).address());
        assert!(text.contains(says), "{text}");
    }
    for (from, to) in
        [(&b"md5-sess"[..], &b"md4-sess"[..]), (b"nonce=\"", b"nonce=,"), (b"utf-8", b"utf-7")]
    {
        let fake_server = forging(lenient().address(), from, to);
        let client = builder(&fake_server.address(), SESSION).sasl("bob", USERS[0].1);
        let (kind, text) = said(client.connect());
        assert_eq!(kind, ErrorKind::ConnectFailed);
        assert!(text.contains("bad answer: a "), "{text}");
    }
}

/// The reason for which a client is refused after the server has restarted; the client; and a change after which the
/// server refuses the client, or, if the flag is false, accepts it again.
type Refused = (&'static str, fn(Builder) -> Builder, fn(&Server, bool));

const REFUSED: [Refused; 3] = [
    (
        "SASL is required",
        |builder| builder,
        |server, is_welcome| {
            let required = (!is_welcome).to_string();
            server.set_property("sessionRequireClientSASLAuth", &required);
        },
    ),
    (
        "the SASL user is unknown",
        |builder| builder.sasl(USERS[0].0, USERS[0].1),
        |server, is_welcome| server.set_sasl_users(&USERS[usize::from(!is_welcome)..]).unwrap(),
    ),
    (
        "credentials of the scheme are refused",
        |builder| builder.auth("digest", b"eve:x"),
        |server, is_welcome| {
            let enabled = is_welcome.to_string();
            server.set_property("DigestAuthenticationProvider.enabled", &enabled);
        },
    ),
];

/// The session has not expired in the meantime.
fn is_out_of_the_way((name, client, change): Refused) {
    const T: Duration = SHORT;
    let server = server().start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = client(builder(&proxy.connect_string(), T)).connect().unwrap();
    let path = make_ephemeral(&client, "/refused");
    let _keeper = client.keep_lease();
    let restart = |is_welcome| {
        server.stop().unwrap();
        change(&server, is_welcome);
        server.start_again().unwrap();
    };
    restart(false);
    let begun = Instant::now();
    let other = connect(USERS[1], &server.connect_string());
    wait_until("its node is gone", SOON, || other.exists(&path).unwrap().is_none());
    let took = begun.elapsed();
    wait_until("two timeouts have passed", SOON, || begun.elapsed() > T * 2);
    let (later, early) = (Instant::now(), proxy.requests(Op::Connect));
    wait_until("six timeouts have passed", SOON, || begun.elapsed() > T * 6);
    let (late, seconds) = (proxy.requests(Op::Connect) - early, later.elapsed().as_secs_f64());
    println!("{name}: gone after {took:?}; {late} handshakes in 4 T");
    assert!(took < T * 3, "{name}: after {took:?}");
    assert!(late as f64 <= seconds, "{name}: {late} handshakes in {seconds:.1} s");
    restart(true);
    wait_until("it is served again", SOON, || client.exists("/").is_ok());
}

#[test]
fn client_refused_after_a_restart_is_gone_in_three_timeouts() {
    thread::scope(|scope| {
        for refused in REFUSED {
            scope.spawn(move || is_out_of_the_way(refused));
        }
    });
}
