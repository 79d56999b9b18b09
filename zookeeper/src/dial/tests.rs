//! Clients that connect by name to simulated ensembles, with a resolver that hangs, fails or
//! changes its answers.

mod ensemble;
mod names;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use self::ensemble::{Ensemble, Server};
use self::names::{Fate, Names};
use crate::builder::Builder;
use crate::client::ZooKeeper;
use crate::error::ErrorKind;
use crate::listener::Listener;
use crate::types::{SessionEvent, SessionEventKind, SessionKey, State};

/// A session timeout that does not run out, even on a busy machine.
const SESSION: Duration = Duration::from_secs(30);
/// A limit for whatever should happen at once.
const SOON: Duration = Duration::from_secs(60);

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Another address of the same machine.
const THERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn builder(names: &Names, servers: &str) -> Builder {
    let mut builder = ZooKeeper::builder(servers).session_timeout(SESSION).request_timeout(SOON);
    builder.transport.lookup = names.lookup();
    builder
}

/// A client, and its session events from the first connection on.
struct Guest {
    client: ZooKeeper,
    _listener: Listener<SessionEvent>,
    events: Receiver<SessionEvent>,
}

impl Guest {
    fn new(names: &Names, servers: &str) -> Guest {
        Guest::of(builder(names, servers))
    }

    fn of(builder: Builder) -> Guest {
        let client = builder.connect().expect("a session");
        let (listener, events) = Listener::channel();
        client.subscribe(&listener);
        Guest { client, _listener: listener, events }
    }

    /// Returns the kinds of all events up to and including the next one of this kind.
    #[track_caller]
    fn until(&self, kind: SessionEventKind) -> Vec<SessionEventKind> {
        let deadline = Instant::now() + SOON;
        let mut kinds = Vec::new();
        while kinds.last() != Some(&kind) {
            let event = self.events.recv_deadline(deadline);
            kinds.push(event.unwrap_or_else(|_| panic!("no {kind:?} behind {kinds:?}")).kind);
        }
        kinds
    }
}

#[track_caller]
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::yield_now();
    }
}

fn server(ensemble: &Ensemble) -> Server {
    Server::at(HERE, 0, ensemble).expect("a free port")
}

/// Two servers with the same port at two addresses.
fn pair(here: &Ensemble, there: &Ensemble) -> (Server, Server) {
    let mut pairs = (0..100).map(|_| {
        let first = server(here);
        let second = Server::at(THERE, first.address().port(), there);
        second.map(|second| (first, second))
    });
    pairs.find_map(Result::ok).expect("a port that is free at both addresses")
}

#[test]
fn all_ports_of_a_name_survive_a_failed_resolution() {
    let ensemble = Ensemble::new();
    let servers = [0; 3].map(|_| server(&ensemble));
    let names = Names::new([("zk", Fate::Is(vec![HERE]))]);
    let list = servers.each_ref().map(|server| format!("zk:{}", server.address().port())).join(",");
    let guest = Guest::new(&names, &list);
    let session = guest.client.session_id();
    names.set("zk", Fate::Fails);
    for only in &servers {
        only.open();
        servers.iter().filter(|other| other.address() != only.address()).for_each(Server::shut);
        // The client may already have been connected to this server.
        only.shut();
        only.open();
        println!("{}: {:?}", only.address(), guest.until(SessionEventKind::Resumed));
        wait_until("it is connected there", || only.asked().contains(&session));
    }
    assert_eq!(guest.client.session_id(), session);
}

#[test]
fn end_of_a_session_has_a_deadline_though_lookups_last_longer() {
    let names = Names::new([("zk", Fate::Hangs)]);
    let (builder, kept) = (builder(&names, "zk:1"), Arc::new(()));
    let key = SessionKey { id: 1, password: vec![7; 16], timeout: Duration::from_millis(50) };
    let ended = builder.end_session(&key, Arc::clone(&kept));
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::NoConnection);
    assert_eq!(Arc::strong_count(&kept), 2, "a lookup runs");
    names.set("zk", Fate::Fails);
    wait_until("the lookup has ended", || Arc::strong_count(&kept) == 1);
}

#[test]
fn session_is_never_shown_to_a_removed_address() {
    let (ours, others) = (Ensemble::new(), Ensemble::new());
    let (here, there) = pair(&ours, &ours);
    let (first, names) = (server(&ours), Names::new([("zk", Fate::Hangs)]));
    let builder = builder(&names, &format!("zk:{},{}", here.address().port(), first.address()));
    let lookup = builder.transport.lookup.clone();
    let guest = Guest::of(builder);
    let (session, hanging) = (guest.client.session_id(), lookup.count());
    // Behind a connection of no use, the round would go on.
    guest.client.exists("/").expect("an answer");
    names.set("zk", Fate::Is(vec![HERE]));
    wait_until("the answer has arrived, behind the connect", || lookup.count() < hanging);
    names.set("zk", Fate::Is(vec![THERE]));
    here.turn_to(&others);
    first.shut();
    let told = guest.until(SessionEventKind::Resumed);
    println!("{told:?}, here: {:?}, there: {:?}", here.asked(), there.asked());
    assert_eq!(told, [SessionEventKind::Suspended, SessionEventKind::Resumed]);
    assert_eq!(guest.client.session_id(), session);
    assert!(here.asked().is_empty(), "it was shown {:?}", here.asked());
}

#[test]
fn unconfirmed_address_cannot_end_a_session() {
    for fate in [Fate::Hangs, Fate::Fails] {
        let (ours, others) = (Ensemble::new(), Ensemble::new());
        let (here, there) = pair(&ours, &ours);
        let names = Names::new([("zk", Fate::Is(vec![HERE]))]);
        let guest = Guest::new(&names, &format!("zk:{}", here.address().port()));
        let session = guest.client.session_id();
        names.set("zk", fate);
        here.turn_to(&others);
        // The client tries the address, because it may still belong to the right server.
        wait_until("it is tried, and is not believed", || {
            assert_eq!(guest.client.session_id(), session, "it is asked for {:?}", here.asked());
            here.asked().len() > 2
        });
        assert_eq!(guest.until(SessionEventKind::Suspended), [SessionEventKind::Suspended]);
        names.set("zk", Fate::Is(vec![THERE]));
        let told = guest.until(SessionEventKind::Resumed);
        println!("{told:?}, here: {:?}, there: {:?}", here.asked(), there.asked());
        assert_eq!(told, [SessionEventKind::Resumed]);
        assert_eq!(guest.client.session_id(), session);
    }
}

#[test]
fn client_opens_no_session_at_an_unconfirmed_address() {
    let (ours, others) = (Ensemble::new(), Ensemble::new());
    let (here, there) = pair(&ours, &ours);
    let sure = server(&ours);
    let names = Names::new([("zk", Fate::Is(vec![HERE]))]);
    let guest = Guest::new(&names, &format!("zk:{},{}", here.address().port(), sure.address()));
    names.set("zk", Fate::Hangs);
    ours.close();
    sure.turn_to(&ours);
    here.turn_to(&others);
    guest.until(SessionEventKind::Expired);
    let new = |asked: Vec<i64>| asked.iter().filter(|session| **session == 0).count();
    wait_until("several rounds have passed", || {
        assert_eq!(guest.client.session_id(), 0, "here: {:?}", here.asked());
        new(sure.asked()) > 5
    });
    ours.reopen();
    sure.shut();
    names.set("zk", Fate::Is(vec![THERE]));
    guest.until(SessionEventKind::Connected);
    println!("here: {:?}, there: {:?}", here.asked(), there.asked());
    assert_eq!(new(here.asked()), 0, "here: {:?}", here.asked());
}

#[test]
fn hanging_names_hide_no_other_and_are_resolved_once_at_a_time() {
    let ensemble = Ensemble::new();
    let here = server(&ensemble);
    let port = here.address().port();
    // Each client draws a new random order.
    for number in 0..8 {
        let good = Fate::Is(vec![HERE]);
        let names = Names::new([("a", Fate::Hangs), ("b", Fate::Hangs), ("c", good)]);
        let begun = Instant::now();
        let guest = Guest::new(&names, &format!("a:{port},b:{port},c:{port}"));
        println!("client {number} has a session after {:.0?}", begun.elapsed());
        for _ in 0..3 {
            here.shut();
            guest.until(SessionEventKind::Suspended);
            here.open();
            guest.until(SessionEventKind::Resumed);
        }
        assert_eq!(["a", "b", "c"].map(|name| names.most(name)), [1, 1, 1]);
        assert_eq!(guest.client.state(), State::Connected);
    }
}

/// In each round, an address that closes the connection comes before one that would accept it.
#[test]
fn all_addresses_of_a_name_are_tried_after_any_outage() {
    const SHORT: Duration = Duration::from_secs(4);
    let ours = Ensemble::new();
    let (here, there) = pair(&ours, &ours);
    let names = Names::new([("zk", Fate::Is(vec![HERE, THERE]))]);
    let servers = format!("zk:{}", here.address().port());
    let guest = Guest::of(builder(&names, &servers).session_timeout(SHORT));
    here.shut();
    there.shut();
    guest.until(SessionEventKind::Suspended);
    let begun = Instant::now();
    // Discards the events of the outage.
    while begun.elapsed() < 2 * SHORT {
        let _ = guest.events.recv_timeout(SHORT / 4);
    }
    assert_eq!(guest.client.state(), State::Suspended);
    there.open();
    println!("{:?} behind {:?}", guest.until(SessionEventKind::Resumed), begun.elapsed());
}

#[test]
fn connect_waits_for_a_silent_server_beside_one_that_hangs_up() {
    const SHORT: Duration = Duration::from_secs(2);
    let bad = server(&Ensemble::new());
    bad.shut();
    let silent = std::net::TcpListener::bind((HERE, 0)).expect("a free port");
    let silent = silent.local_addr().expect("bound");
    let names = Names::new([("nowhere", Fate::Fails)]);
    let builder = builder(&names, &format!("nowhere,{},{silent}", bad.address()));
    let connect = builder.session_timeout(SHORT).connect_timeout(5 * SHORT).connect();
    let error = connect.map(drop).expect_err("nobody serves").to_string();
    println!("{error}");
    for text in [&*bad.address().to_string(), &silent.to_string(), "nowhere: nobody knows it"] {
        assert!(error.contains(text), "{error}");
    }
}
