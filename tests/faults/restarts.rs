//! The only server goes and comes back while locks are held and waited for.

use std::time::{Duration, Instant};

use zoolock::HoldState;
use zoolock_test_support::{Probe, Server};

use common::basics::hold_of;
use common::line::Line;
use common::{await_resumed, client_of, lock_of};

/// Time enough for a start of the server on a busy machine.
const LONG: Duration = Duration::from_secs(20);

fn nodes(probe: &Probe, path: &str) -> Vec<String> {
    match probe.exists(path).unwrap() {
        true => probe.children(path).unwrap(),
        false => Vec::new(),
    }
}

fn sorted(probe: &Probe, path: &str) -> Vec<String> {
    let mut nodes = nodes(probe, path);
    nodes.sort();
    nodes
}

/// Restarts the server in some way while locks are held and waited for.
fn everything_is_kept(how: &str, restart: impl FnOnce(&Server)) {
    const LOCKS: usize = 4;
    const WAITERS: usize = 4;
    let server = Server::start().unwrap();
    let clients = [(); 2].map(|()| client_of(&server.connect_string(), LONG));
    let probe = Probe::connect(server.address()).unwrap();
    let mut held = Vec::new();
    for number in 0..LOCKS {
        let path = format!("/locks/{number}");
        let lock = lock_of(&clients[number % 2], &path);
        lock.lock().unwrap();
        let mut line = Line::at(&path);
        for waiter in 0..WAITERS {
            line.join_seen_by(&clients[waiter % 2], || nodes(&probe, &path).len());
        }
        let before = sorted(&probe, &path);
        held.push((lock, line, before));
    }
    let begun = Instant::now();
    restart(&server);
    let up = begun.elapsed();
    for client in &clients {
        await_resumed(client, 1);
    }
    println!("{how}: up again after {up:?}, resumed {:?} after the end", begun.elapsed());
    let probe = Probe::connect(server.address()).unwrap();
    for (lock, line, before) in held {
        let path = lock.path().to_owned();
        assert_eq!(sorted(&probe, &path), before);
        let hold = hold_of(&lock);
        assert_eq!(hold.state(), HoldState::Held);
        assert!(!line.is_let_in());
        lock.unlock().unwrap();
        line.comes_in_order();
        assert_eq!(nodes(&probe, &path), [""; 0]);
    }
    let lost = clients.iter().map(|client| client.stats().holds_lost).sum::<u64>();
    assert_eq!(lost, 0);
}

#[test]
fn no_lock_and_no_place_is_lost_when_the_only_server_restarts() {
    everything_is_kept("stopped", |server| server.restart().unwrap());
}

#[test]
fn no_lock_and_no_place_is_lost_when_the_only_server_is_killed() {
    everything_is_kept("killed", |server| {
        server.kill().unwrap();
        server.start_again().unwrap();
    });
}
