//! Clients that connect, are cut off and end. Nothing of them is left.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Error, HoldState};

use common::*;

const CYCLES: usize = 200;
const AT_ONCE: usize = 4;
const SHORT: Duration = Duration::from_secs(5);

/// Open files and threads of this process.
fn footprint() -> (usize, usize) {
    let count = |what| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    (count("fd"), count("task"))
}

/// One client holds a lock and another waits. The connection is cut, and the client ends.
fn cycle(proxy: &FaultProxy, number: usize) {
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("cycle");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let waiting = number.is_multiple_of(4).then(|| {
        let other = lock_of(&client, &path);
        Task::spawn(move || other.lock())
    });
    match number % 3 {
        0 => proxy.cut(),
        1 => proxy.reset(),
        _ => {}
    }
    let is_cut = number % 3 != 2;
    // Every second client ends during the cut.
    if number.is_multiple_of(2) {
        wait_until("it is back", SOON, || {
            let state = lock.hold().map(|hold| hold.state());
            client.stats().connections > u64::from(is_cut) && state == Some(HoldState::Held)
        });
        if waiting.is_none() {
            lock.unlock().unwrap();
        }
    }
    // The third way to end is a drop.
    if !number.is_multiple_of(5) || waiting.is_some() {
        let closed = client.close();
        assert!(closed.is_ok(), "cycle {number}: {closed:?}\n{:#?}", proxy.log());
    }
    if let Some(waiting) = waiting {
        let seen = waiting.result("the waiter");
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    }
}

fn run_cycles(server: SocketAddr) {
    let proxies: Vec<_> = (0..AT_ONCE).map(|_| FaultProxy::start(server).unwrap()).collect();
    let before = footprint();
    let begun = Instant::now();
    thread::scope(|scope| {
        for (worker, proxy) in proxies.iter().enumerate() {
            scope.spawn(move || {
                for number in (worker..CYCLES).step_by(AT_ONCE) {
                    cycle(proxy, number);
                }
            });
        }
    });
    println!("{CYCLES} cycles in {:?}; files and threads: {before:?} before", begun.elapsed());
    // The threads of a client dropped during a cut end in the background.
    wait_until("files and threads are as few as before", SOON, || footprint() <= before);
    println!("back at {:?}", footprint());
}

#[test]
fn short_lived_clients_leave_nothing_behind() {
    const NAME: &str = "cycles::short_lived_clients_leave_nothing_behind";
    if let Ok(server) = env::var(OWN_PROCESS) {
        return run_cycles(server.parse().unwrap());
    }
    let server = Server::start().unwrap();
    let left =
        || ["zk_watch_count", "zk_ephemerals_count"].map(|name| server.metric(name).unwrap());
    let said = run_again(NAME, OWN_PROCESS, &server.address().to_string());
    assert!(said.contains("back at"), "it did not run: {said}");
    wait_until("the server has no watch and no node of them", SOON, || left() == [0, 0]);
}
