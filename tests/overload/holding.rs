//! Clients that hold as many locks as a client is allowed to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, Error, HoldState};

use crate::leftovers::strict_server;
use common::*;

/// So long that no hold is lost while a busy machine creates all the nodes.
const SESSION: Duration = Duration::from_secs(30);
const THREADS: usize = 32;

/// Locks as many paths of 20 bytes as the client is allowed to.
fn hold_all(client: &Client, of: &str) -> Vec<DistributedLock> {
    let next = AtomicUsize::new(0);
    let hold = || {
        let mut held = Vec::new();
        loop {
            let lock =
                lock_of(client, &format!("/{of}/{:012}", next.fetch_add(1, Ordering::SeqCst)));
            match lock.lock() {
                Ok(()) => held.push(lock),
                Err(Error::LimitExceeded { .. }) => return held,
                Err(error) => panic!("{error}"),
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(hold)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn are_held(locks: &[DistributedLock]) -> bool {
    locks.iter().all(|lock| lock.hold().is_some_and(|hold| hold.state() == HoldState::Held))
}

#[test]
fn client_holds_ten_thousand_locks_and_the_server_survives_its_end() {
    let server = strict_server();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (closed, cut_off) =
        (client_of(&server.connect_string(), SESSION), client_of(&proxy.connect_string(), SESSION));
    let locks = [hold_all(&closed, "closed"), hold_all(&cut_off, "cutoff")];
    assert_eq!(locks[0][0].path().len(), 20);
    for locks in &locks {
        println!("{} are held", locks.len());
        assert!(locks.len() >= 10_000);
        wait_until("all are held", SOON, || are_held(locks));
    }
    // All nodes are watched a quarter of a session timeout after the last grant, and again after a reconnect.
    let all = locks.iter().map(Vec::len).sum::<usize>();
    let watches = || server.metric("zk_watch_count").unwrap();
    wait_until("all are watched", SOON, || watches() >= all as u64);
    proxy.cut();
    wait_until("all are held again", SOON, || {
        cut_off.stats().connections == 2 && watches() >= all as u64 && are_held(&locks[1])
    });
    assert!(are_held(&locks[0]));
    closed.close().unwrap();
    proxy.cut_off();
    let nodes = || server.metric("zk_ephemerals_count").unwrap();
    wait_until("the sessions are over", SOON, || nodes() == 0);
    wait_until("all losses are detected", SOON, || {
        cut_off.stats().holds_lost == locks[1].len() as u64
    });
    // The server can read its log when it is restarted.
    server.restart().unwrap();
    proxy.refuse(false);
    let lock = lock_of(&cut_off, "/cutoff/again");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(cut_off.stats().held, 0);
}
