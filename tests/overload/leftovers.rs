//! Nodes that are left behind on a server that refuses deletions, does not answer, or is cut off. Whatever the calls
//! do, the numbers of such nodes and of requests are bounded.

use std::array;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{CancelToken, Client, Error, Leadership, Wait};

use common::semaphore::semaphore;
use common::*;

const LONG: Duration = Duration::from_secs(40);

/// Starts a server whose limit on log entries is the lowest that its `jute.maxbuffer` allows.
pub(crate) fn strict_server() -> Server {
    Server::builder().jvm_flag("-Dzookeeper.jute.maxbuffer.extrasize=1024").start().unwrap()
}

/// Returns a path of this many bytes.
fn path_of(bytes: usize) -> String {
    let mut path = String::new();
    while path.len() < bytes {
        let name = "p".repeat((bytes - path.len() - 1).min(200));
        path = format!("{path}/{name}");
    }
    path
}

fn children(probe: &Probe, path: &str) -> usize {
    probe.children(path).unwrap().len()
}

/// Creates a directory in which all clients may create nodes, but none may delete them.
fn without_delete(probe: &Probe, path: &str) {
    probe.create_all(path).unwrap();
    probe.delete(path).unwrap();
    probe.create_with_acl(path, b"", &[NO_DELETE]).unwrap();
}

/// Expects that the server can be restarted, for which it must read its log.
fn starts_again(server: &Server) {
    server.restart().unwrap();
    println!("again: {:?}", client_of(&server.connect_string(), LONG).state());
}

#[test]
fn leadership_without_delete_permission_leaves_one_node() {
    let server = strict_server();
    let probe = Probe::connect(server.address()).unwrap();
    let path = "/leader-without-delete";
    without_delete(&probe, path);
    warnings(path);
    let client = client_of(&server.connect_string(), LONG);
    let leadership = Leadership::start(&client, path, |_| {}).unwrap();
    let refused = || warnings(path).iter().filter(|line| line.contains("retrying in")).count();
    wait_until("it has tried again and again", SOON, || refused() > 5);
    assert_eq!(children(&probe, path), 1);
    leadership.shutdown();
    client.close().unwrap();
    starts_again(&server);
}

const THREADS: usize = 100;

/// Returns the timeout for each call: 50 ms, or more on a busy machine.
fn patience(client: &Client) -> Duration {
    let lock = lock_of(client, "/patience");
    let turn = || {
        let begun = Instant::now();
        lock.lock().and_then(|()| lock.unlock()).unwrap();
        begun.elapsed()
    };
    let turns: [Duration; 20] = array::from_fn(|_| turn());
    Duration::from_millis(50).max(4 * turns.into_iter().max().unwrap_or_default())
}

/// A hundred threads call repeatedly, with a short timeout, while the server is paused and afterwards.
fn is_served_again_after_a_stall(session: Duration, path: &str) {
    let stall = Duration::from_secs(6);
    let server = strict_server();
    let client = client_of(&server.connect_string(), session);
    let probe = Probe::connect(server.address()).unwrap();
    let patience = patience(&client);
    let (is_over, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    let served = || turns.load(Ordering::SeqCst);
    let load = || {
        let lock = lock_of(&client, path);
        while !is_over.load(Ordering::SeqCst) {
            if let Ok(true) = lock.lock_within(patience) {
                turns.fetch_add(1, Ordering::SeqCst);
                let _ = lock.unlock();
            }
        }
    };
    let over_the_stall = || {
        wait_until("they are served", SOON, || served() > 20);
        let (requests, begun) = (client.stats().requests, Instant::now());
        server.pause().unwrap();
        wait_until("it has lasted", SOON, || begun.elapsed() > stall);
        let (before, requests) = (served(), client.stats().requests - requests);
        server.resume().unwrap();
        let (resumed, mut nodes) = (Instant::now(), 0);
        // As often as before the stall, which rules out a single success by chance.
        wait_until("they are served again", SOON, || {
            nodes = nodes.max(children(&probe, path));
            served() > before + 20
        });
        (nodes, requests, resumed.elapsed())
    };
    let (nodes, requests, again) = thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(load)));
        let seen = panic::catch_unwind(AssertUnwindSafe(over_the_stall));
        is_over.store(true, Ordering::SeqCst);
        seen.expect("they are served")
    });
    println!("{patience:?}: {nodes} nodes, {requests} requests, served within {again:?}");
    assert!(again < 2 * stall, "served again only after {again:?}");
    assert!(nodes <= 4 * THREADS, "{nodes} nodes");
    assert!(requests < 10 * THREADS as u64, "{requests} requests");
    wait_until("nothing is left", SOON, || {
        children(&probe, path) == 0 && client.stats().deleting == 0
    });
    client.close().unwrap();
    starts_again(&server);
}

/// Runs the two loads one after the other, because they would disturb each other. The first stall breaks connections.
#[test]
fn load_is_served_again_after_a_stall_also_at_a_long_path() {
    is_served_again_after_a_stall(Duration::from_secs(10), "/stalled");
    is_served_again_after_a_stall(LONG, &path_of(400));
}

#[test]
fn permits_lost_in_one_cut_are_found_by_one_search() {
    const COUNT: u32 = 500;
    let server = Server::start().unwrap();
    let (proxy, client) = behind_a_proxy_of(&server, LONG);
    let semaphore = semaphore(&client, "/permits", 2 * COUNT);
    let probe = Probe::connect(server.address()).unwrap();
    semaphore.acquire(1).unwrap().release().unwrap();
    let made = || children(&probe, "/permits/leases");
    // The callers give up, so the client must search for the nodes of all these creates.
    let creates = proxy.on(Op::Create).path_contains("leases").hold_request();
    thread::scope(|scope| {
        let token = CancelToken::new();
        let wait = Wait::FOREVER.cancelled_by(&token);
        let taking = scope.spawn(|| semaphore.acquire_within(COUNT, wait));
        assert!(creates.wait(SOON), "{:#?}", proxy.log());
        token.cancel();
        let seen = taking.join().unwrap();
        assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
    });
    proxy.cut();
    await_resumed(&client, 1);
    let before = client.stats().requests;
    for _ in 0..10 {
        semaphore.acquire(1).unwrap().release().unwrap();
    }
    let requests = client.stats().requests - before;
    println!("{requests} requests for ten acquisitions after it, {:?}", client.stats());
    assert!(client.stats().deleting > 0, "`deleting` does not count the searched nodes");
    assert!(requests <= 10 * 20, "{requests} requests");
    assert_eq!(made(), 0);
}
