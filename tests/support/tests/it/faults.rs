//! Faults of whole connections, as a client behind the proxy sees them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{Direction, FaultProxy, Op, Probe, Server, shared_server, wait_until};

use crate::raw::Raw;
use crate::{SOON, Stage};

const A_WHILE: Duration = Duration::from_millis(150);

#[test]
fn passes_everything_and_counts() {
    let stage = Stage::new("passes");
    stage.make("a").unwrap();
    stage.make("b").unwrap();
    assert!(stage.made("a") && stage.made("b"));
    stage.client.children(&stage.root).unwrap();
    assert_eq!(stage.proxy.requests(Op::Create), 2);
    assert_eq!(stage.proxy.requests(Op::GetChildren), 1);
    assert_eq!(stage.proxy.requests(Op::Connect), 1);
    assert_eq!(stage.proxy.requests(Op::Delete), 0);
    assert_eq!(stage.proxy.connections(), 1);
    assert_eq!(stage.proxy.open_connections(), 1);
    println!("{}", stage.proxy.log().join("\n"));
    let log = stage.proxy.log().join("\n");
    assert!(log.contains(&format!("#1 > Create {}", stage.path("a"))));
    assert!(log.contains(&format!("#1 < Create {}", stage.path("a"))));
}

#[test]
fn big_frames_and_four_letter_words_pass() {
    let stage = Stage::new("big");
    let data: Vec<u8> = (0..900_000_u32).map(|n| n as u8).collect();
    let path = stage.path("big");
    stage.client.create(&path, &data, false, false).unwrap();
    assert_eq!(stage.client.get(&path).unwrap().unwrap().0, data);
    let mut stream = TcpStream::connect(stage.proxy.address()).unwrap();
    stream.write_all(b"mntr").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("zk_znode_count"), "{answer}");
}

#[test]
fn cut_closes_and_lets_in_again() {
    let stage = Stage::new("cut");
    stage.proxy.cut();
    assert_eq!(stage.proxy.open_connections(), 0);
    let error = stage.make("a").unwrap_err();
    println!("{error:?}");
    let again = Probe::connect(stage.proxy.address()).unwrap();
    again.create(&stage.path("b"), b"", false, false).unwrap();
    assert!(!stage.made("a") && stage.made("b"));
    assert_eq!(stage.proxy.connections(), 2);
}

#[test]
fn cut_is_fin_and_reset_is_rst() {
    let stage = Stage::new("reset");
    let connect = || {
        let stream = TcpStream::connect(stage.proxy.address()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        wait_until("it is open", SOON, || stage.proxy.open_connections() > 0);
        stream
    };
    stage.proxy.cut();
    let mut stream = connect();
    stage.proxy.cut();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let mut stream = connect();
    stage.proxy.reset();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(stage.proxy.open_connections(), 0);
}

#[test]
fn refuses_and_listens_again() {
    let stage = Stage::new("refuse");
    stage.proxy.refuse(true);
    let error = Probe::connect(stage.proxy.address()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    stage.make("current-connections-stay").unwrap();
    for _ in 0..20 {
        stage.proxy.refuse(false);
        Probe::connect(stage.proxy.address()).unwrap();
        stage.proxy.refuse(true);
    }
    stage.proxy.restore();
    Probe::connect(stage.proxy.address()).unwrap();
}

#[test]
fn accepts_and_closes() {
    let stage = Stage::new("accept");
    stage.proxy.accept_and_close(true);
    assert!(Probe::connect(stage.proxy.address()).is_err());
    assert_eq!(stage.proxy.connections(), 2);
    stage.make("current-connections-stay").unwrap();
    stage.proxy.accept_and_close(false);
    Probe::connect(stage.proxy.address()).unwrap();
}

#[test]
fn black_hole_to_server_holds_requests() {
    let stage = Stage::new("hole");
    stage.proxy.black_hole(Direction::ToServer);
    thread::scope(|scope| {
        let asked = scope.spawn(|| stage.make("a"));
        let sent = || stage.proxy.requests(Op::Create) == 1;
        wait_until("the request is at the proxy", SOON, sent);
        thread::sleep(A_WHILE);
        assert!(!stage.made("a") && !asked.is_finished());
        stage.proxy.restore();
        asked.join().unwrap().unwrap();
    });
    assert!(stage.made("a"));
}

#[test]
fn black_hole_to_client_holds_answers() {
    let stage = Stage::new("hole");
    stage.proxy.black_hole(Direction::ToClient);
    thread::scope(|scope| {
        let asked = scope.spawn(|| stage.make("a"));
        wait_until("the node is there", SOON, || stage.made("a"));
        thread::sleep(A_WHILE);
        assert!(!asked.is_finished());
        stage.proxy.restore();
        asked.join().unwrap().unwrap();
    });
}

#[test]
fn black_hole_hides_the_end_of_a_session() {
    let stage = Stage::new("hole");
    let mut stream = TcpStream::connect(stage.proxy.address()).unwrap();
    wait_until("both are open", SOON, || stage.proxy.open_connections() == 2);
    stage.proxy.black_hole(Direction::Both);
    // If this nonsense arrived, the server would close the connection.
    stream.write_all(&[0, 0, 0, 1, 7]).unwrap();
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(SOON)).unwrap();
    stage.proxy.restore();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_request_outlives_its_sender_in_a_black_hole() {
    let stage = Stage::new("ghost");
    let impatient = Probe::connect(stage.proxy.address()).unwrap();
    impatient.set_patience(A_WHILE).unwrap();
    stage.proxy.black_hole(Direction::ToServer);
    let path = stage.path("a");
    impatient.create(&path, b"", false, false).unwrap_err();
    drop(impatient);
    assert!(!stage.made("a"));
    stage.proxy.restore();
    wait_until("the node appears", SOON, || stage.made("a"));
    stage.client.ping().unwrap();
}

#[test]
fn delays_keep_order_and_overlap() {
    let stage = Stage::new("delay");
    let mut raw = Raw::connect(stage.proxy.address());
    let delay = Duration::from_millis(100);
    stage.proxy.delay(Direction::Both, delay);
    let start = Instant::now();
    let ids = 1..=30;
    for id in ids.clone() {
        raw.ask(id);
    }
    for _ in ids.clone() {
        raw.read_id();
    }
    let took = start.elapsed();
    println!("{} round trips, 2 x {delay:?} each: {took:.0?}", ids.end());
    assert!(took >= delay * 2);
    assert!(took < delay * 30, "not one after the other");
    stage.proxy.delay(Direction::Both, Duration::ZERO);
    let start = Instant::now();
    stage.make("b").unwrap();
    println!("without: {:.1?}", start.elapsed());
}

#[test]
fn outlives_the_server() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = Probe::connect(proxy.address()).unwrap();
    server.kill().unwrap();
    wait_until("the end reaches the client", SOON, || client.ping().is_err());
    assert!(Probe::connect(proxy.address()).is_err());
    server.start_again().unwrap();
    Probe::connect(proxy.address()).unwrap().ping().unwrap();
    wait_until("all is closed", SOON, || proxy.open_connections() == 0);
}

#[test]
fn dropping_it_closes_everything() {
    let proxy = FaultProxy::start(shared_server().address()).unwrap();
    let clients: Vec<Probe> = (0..10).map(|_| Probe::connect(proxy.address()).unwrap()).collect();
    assert_eq!(proxy.open_connections(), 10);
    let address = proxy.address();
    drop(proxy);
    assert!(TcpStream::connect(address).is_err());
    for client in clients {
        assert!(client.ping().is_err());
    }
}
