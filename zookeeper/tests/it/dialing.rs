//! Connecting without a server: what it costs, how it ends, and its log lines.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};
use zoolock_test_support::{Direction, wait_until};
use zoolock_zookeeper::{SessionEventKind, ZooKeeper};

use crate::util::{
    Events, SESSION, SHORT, SOON, client_of, in_own_process, logged, of_clients, said, shared_proxy,
};

/// Returns an address that neither accepts nor refuses connections while the other values are kept.
fn black_hole() -> (String, (Socket, Vec<TcpStream>)) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
    // These connections fill the listener's queue.
    let queue = std::iter::from_fn(connect).collect();
    (address.to_string(), (listener, queue))
}

/// Returns the processor time that this process has used.
fn used() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

#[test]
fn hundred_clients_dialing_a_black_hole_use_little_cpu() {
    in_own_process(|| {
        const TIME: Duration = Duration::from_secs(10);
        let (address, _hole) = black_hole();
        let (begun, before) = (Instant::now(), used());
        thread::scope(|scope| {
            for _ in 0..100 {
                let builder = ZooKeeper::builder(&address).connect_timeout(TIME);
                scope.spawn(|| builder.connect().unwrap_err());
            }
        });
        let cores = (used() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
        assert!(cores < 0.1, "{cores:.3} of a core");
    });
}

#[test]
fn client_dropped_while_it_dials_ends_at_once() {
    in_own_process(|| {
        let (address, _hole) = black_hole();
        let ends_at_once = |_| {
            let begun = Instant::now();
            let builder = ZooKeeper::builder(&address).session_timeout(SESSION);
            said(builder.connect_timeout(Duration::from_millis(100)).connect());
            wait_until("its threads have ended", SOON, || of_clients() == 0);
            // If ending waited for the attempt to connect, it might take three seconds.
            begun.elapsed() < Duration::from_secs(1)
        };
        // On a busy machine, a client may end late.
        assert!((0..10).any(ends_at_once), "each waited for its dial");
    });
}

#[test]
fn outage_of_several_servers_is_one_log_line() {
    let proxies = [0; 3].map(|_| shared_proxy());
    let [refusing, leaving, silent] = &proxies;
    logged("");
    let servers = proxies.each_ref().map(|proxy| proxy.connect_string()).join(",");
    let client = client_of(&servers, SHORT);
    let events = Events::of(&client);
    // Without a request, the connection would count as useless, which would be logged as another cause.
    client.exists("/").unwrap();
    refusing.refuse(true);
    leaving.refuse(true);
    silent.black_hole(Direction::Both);
    // The connections are cut in this order so that no handshake is broken.
    for proxy in [silent, refusing, leaving] {
        proxy.cut();
    }
    events.until(SessionEventKind::Suspended);
    let before = silent.connections();
    wait_until("there were four rounds", SOON, || silent.connections() > before + 4);
    let lines = || {
        let mut lines = logged("no session: ");
        // A round may end before it has tried all servers.
        let servers = proxies.each_ref().map(|proxy| proxy.connect_string());
        lines.retain(|line| servers.iter().any(|server| line.contains(server)));
        lines
    };
    assert_eq!(lines().len(), 1, "{:#?}", lines());
    // The error of this server is now of another kind.
    leaving.refuse(false);
    leaving.accept_and_close(true);
    wait_until("there is something else to say", SOON, || lines().len() > 1);
    let refused = format!("{}: Connection refused", leaving.connect_string());
    assert!(!lines()[1].contains(&refused), "{}", lines()[1]);
}

#[test]
fn end_of_a_client_is_not_reported_as_a_lost_connection() {
    in_own_process(|| {
        logged("");
        let proxy = shared_proxy();
        let have_ended = || wait_until("all is written", SOON, || of_clients() == 0);
        // There is no session yet, so the client has nothing to close.
        proxy.refuse(true);
        said(ZooKeeper::connect(&proxy.connect_string(), SESSION));
        have_ended();
        let lines = logged("zoolock_zookeeper");
        assert!(lines.len() == 1 && lines[0].contains("Connection refused"), "{lines:#?}");
        proxy.refuse(false);
        client_of(&proxy.connect_string(), SESSION).close().unwrap();
        drop(client_of(&proxy.connect_string(), SESSION));
        have_ended();
        assert_eq!(logged("Closed").len(), 2, "both ends are reported");
        assert!(logged("was lost").is_empty());
    });
}
