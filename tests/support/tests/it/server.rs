//! Servers start, stop, pause, and keep their data and port.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{Probe, Server, shared_server, wait_until};

use crate::SOON;

#[test]
fn server_starts_fast_and_answers() {
    let start = Instant::now();
    let server = Server::start().unwrap();
    println!("started in {:.0?}", start.elapsed());
    assert_eq!(server.four_letter("ruok").unwrap(), "imok");
    let stop = Instant::now();
    server.stop().unwrap();
    println!("stopped in {:.0?}", stop.elapsed());
    server.start_again().unwrap();
    let kill = Instant::now();
    server.kill().unwrap();
    println!("killed in {:.0?}", kill.elapsed());
}

#[test]
fn server_has_the_given_port() {
    let port = Server::start().unwrap().address().port();
    let server = Server::builder().port(port).start().unwrap();
    assert_eq!(server.address().port(), port);
    let error = Server::builder().port(port).start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[test]
fn restarted_server_keeps_data_and_port() {
    let server = Server::start().unwrap();
    let address = server.address();
    let stops: [fn(&Server) -> std::io::Result<()>; 2] = [Server::stop, Server::kill];
    for (round, stop) in stops.iter().enumerate() {
        let path = format!("/kept-{round}");
        let before = Probe::connect(address).unwrap();
        before.create(&path, b"data", false, false).unwrap();
        stop(&server).unwrap();
        assert!(TcpStream::connect(address).is_err());
        assert_eq!(server.process_id(), None);
        server.start_again().unwrap();
        assert_eq!(server.address(), address);
        let after = Probe::connect(address).unwrap();
        assert_eq!(after.get(&path).unwrap().unwrap().0, b"data");
    }
    server.restart().unwrap();
    assert!(server.start_again().is_err(), "it runs already");
}

#[test]
fn wiped_server_comes_back_empty() {
    let server = Server::start().unwrap();
    let before = Probe::connect(server.address()).unwrap();
    before.create("/lost", b"", false, false).unwrap();
    assert!(server.wipe().is_err(), "it runs");
    server.stop().unwrap();
    server.wipe().unwrap();
    server.start_again().unwrap();
    let after = Probe::connect(server.address()).unwrap();
    assert!(!after.exists("/lost").unwrap());
}

#[test]
fn server_pauses_and_resumes() {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    server.pause().unwrap();
    let asked = thread::spawn(move || probe.create("/late", b"", false, false));
    // The kernel accepts the connection, but no answer comes before the server resumes.
    thread::sleep(Duration::from_millis(200));
    assert!(!asked.is_finished());
    server.resume().unwrap();
    assert_eq!(asked.join().unwrap().unwrap(), "/late");
    server.pause().unwrap();
    server.stop().unwrap();
    assert!(server.pause().is_err(), "it does not run");
}

#[test]
fn settings_reach_the_server() {
    let server = Server::builder()
        .tick(Duration::from_millis(100))
        .force_sync(true)
        .property("minSessionTimeout", "300")
        .property("extendedTypesEnabled", "true")
        .jvm_flag("-Dzoolock.test=1")
        .start()
        .unwrap();
    let conf = server.four_letter("conf").unwrap();
    assert!(conf.contains("tickTime=100\n"), "{conf}");
    assert!(conf.contains("minSessionTimeout=300\n"), "{conf}");
    assert!(conf.contains("maxClientCnxns=0\n"), "{conf}");
    // So short a session may end before a busy machine has reported it.
    let mut given = None;
    wait_until("a session", SOON, || {
        let probe = Probe::connect_for(server.address(), Duration::from_millis(400));
        given = probe.ok().map(|probe| probe.session_timeout());
        given.is_some()
    });
    assert_eq!(given, Some(Duration::from_millis(400)));
}

#[test]
fn metrics_count_and_cost_one_received_packet() {
    let server = Server::start().unwrap();
    let before = server.metric("zk_packets_received").unwrap();
    let after = server.metric("zk_packets_received").unwrap();
    assert_eq!(after - before, 1);
    assert!(server.metric("zk_no_such_thing").is_err());
    assert!(server.metric("zk_version").is_err());
}

#[test]
fn many_servers_start_at_once() {
    let start = Instant::now();
    let starters: Vec<_> = (0..4).map(|_| thread::spawn(Server::start)).collect();
    let servers: Vec<Server> =
        starters.into_iter().map(|starter| starter.join().unwrap().unwrap()).collect();
    println!("4 servers in {:.0?}", start.elapsed());
    for server in &servers {
        let path = format!("/of-{}", server.address().port());
        let probe = Probe::connect(server.address()).unwrap();
        probe.create(&path, b"", false, false).unwrap();
        assert_eq!(probe.children("/").unwrap().len(), 2, "with /zookeeper");
    }
}

#[test]
fn failed_start_shows_the_log() {
    let error = Server::builder().property("tickTime", "soon").start().unwrap_err();
    println!("{error}");
    assert!(error.to_string().contains("NumberFormatException"));
    let error = Server::builder().jvm_flag("-XX:NoSuchFlag").start().unwrap_err();
    assert!(error.to_string().contains("NoSuchFlag"), "{error}");
}

#[test]
fn taken_port_is_reported_as_such() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let taken = Server::builder().property("clientPort", &port).start();
    let error = taken.unwrap_err().to_string();
    assert!(error.contains("java.net.BindException"), "{error}");
}

#[test]
fn sessions_expire_by_the_tick() {
    let server = shared_server();
    let observer = Probe::connect(server.address()).unwrap();
    let gone = Probe::connect_for(server.address(), Duration::from_secs(3)).unwrap();
    let path = zoolock_test_support::fresh_path("expires");
    gone.create_all("/zoolock-test").unwrap();
    gone.create(&path, b"", true, false).unwrap();
    gone.abandon();
    assert!(observer.exists(&path).unwrap(), "abandoned, not closed");
    let took = wait_until("the node is gone", SOON, || !observer.exists(&path).unwrap());
    println!("expired after {took:.1?}");
}
