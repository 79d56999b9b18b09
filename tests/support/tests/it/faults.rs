//! Faults of whole connections, as a client behind the proxy sees them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use zoolock_test_support::{Direction, Probe, wait_until};

use crate::{SOON, Stage};

const A_WHILE: Duration = Duration::from_millis(150);

#[test]
fn cut_sends_fin_and_reset_sends_rst() {
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
fn black_hole_hides_the_end_of_a_session() {
    let stage = Stage::new("hole");
    let mut stream = TcpStream::connect(stage.proxy.address()).unwrap();
    wait_until("both are open", SOON, || stage.proxy.open_connections() == 2);
    stage.proxy.black_hole(Direction::Both);
    // The server would close the connection if this nonsense arrived.
    stream.write_all(&[0, 0, 0, 1, 7]).unwrap();
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(SOON)).unwrap();
    stage.proxy.restore();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn request_outlives_its_sender_in_a_black_hole() {
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
