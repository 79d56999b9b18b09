//! Clients that hold as much as their quota allows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, Error, HoldState};
use zoolock_test_support::{FaultProxy, Server, wait_until};

use common::{SOON, client_of, lock_of};

const SESSION: Duration = Duration::from_secs(10);
const THREADS: usize = 32;

/// Locks as many as it may, at paths of 20 bytes.
fn hold_all(client: &Client, of: &str) -> Vec<DistributedLock> {
    let next = AtomicUsize::new(0);
    let hold = || {
        let mut held = Vec::new();
        loop {
            let lock =
                lock_of(client, &format!("/{of}/{:012}", next.fetch_add(1, Ordering::SeqCst)));
            match lock.lock() {
                Ok(()) => held.push(lock),
                Err(Error::Limit { .. }) => return held,
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
fn ten_thousand_locks_are_held_by_a_client_over_a_cut_and_no_end_of_its_session_breaks_the_server()
{
    // It reads as little of its log at once as it can be told to, but for `jute.maxbuffer`.
    let flag = "-Dzookeeper.jute.maxbuffer.extrasize=1024";
    let server = Server::builder().jvm_flag(flag).start().unwrap();
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
    // A quarter of the session timeout after the last grant all nodes are watched: so they are
    // behind a cut.
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
    wait_until("it is known that all are lost", SOON, || {
        cut_off.stats().holds_lost == locks[1].len() as u64
    });
    // It can read its log.
    server.restart().unwrap();
    proxy.refuse(false);
    let lock = lock_of(&cut_off, "/cutoff/again");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(cut_off.stats().held, 0);
}
