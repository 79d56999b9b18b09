//! Sessions that must be resumed before the leases end. Delays during that must not cost a hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Hold, HoldState};

use common::*;

const T: Duration = Duration::from_secs(12);

/// Waits until the lease is about as short as the lease of an idle client with good connections may become.
fn await_short_lease(hold: &Hold, timeout: Duration) -> Duration {
    let most = timeout / 20 * 11;
    wait_until("the lease is short", SOON, || hold.valid_for() < most);
    hold.valid_for()
}

/// While it holds nothing, a client tolerates a silent server for two thirds of the session timeout. Its requests from
/// that time are already old when the server answers them.
#[test]
fn lock_acquired_after_a_stall_of_the_server_is_kept() {
    const CLIENTS: u32 = 8;
    let server = Server::start().unwrap();
    let (begun, has_continued) = (Instant::now(), AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            // The clients send their heartbeats at different times.
            let start = T / 4 * number / CLIENTS;
            wait_until("it is time", SOON, || begun.elapsed() > start);
            let client = client_of(&server.connect_string(), T);
            let has_continued = &has_continued;
            scope.spawn(move || {
                let lock = lock_of(&client, &format!("/stall/{number}"));
                while !has_continued.load(Ordering::Relaxed) {
                    let _ = lock.lock_within(T / 24).and_then(|_| lock.unlock());
                }
                let guard = lock.acquire().unwrap();
                let is_over = guard.wait_timeout(T);
                assert!(!is_over, "{:?}, {:?}", guard.state(), client.stats());
                assert_eq!(client.stats().connections, 1);
            });
        }
        wait_until("all have locked for a while", SOON, || begun.elapsed() > T / 2);
        server.pause().unwrap();
        thread::sleep(T / 2);
        server.resume().unwrap();
        has_continued.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_holds_survive_a_cut_of_a_slow_network() {
    const HOLDS: usize = 800;
    const ROUND_TRIP: Duration = Duration::from_millis(160);
    let server = Server::start().unwrap();
    let (proxy, client) = behind_a_proxy_of(&server, T * 2);
    let locks: Vec<_> =
        (0..HOLDS).map(|number| lock_of(&client, &format!("/many/{number}"))).collect();
    thread::scope(|scope| {
        for part in locks.chunks(HOLDS / 16) {
            scope.spawn(move || part.iter().for_each(|lock| lock.lock().unwrap()));
        }
    });
    let left = await_short_lease(&locks[0].hold().unwrap(), T * 2);
    proxy.delay(Direction::Both, ROUND_TRIP / 2);
    let begun = Instant::now();
    proxy.cut();
    await_resumed(&client, 1);
    println!("{left:?} were left; {:?} after {:?}", client.stats(), begun.elapsed());
    // Wait for longer than the lease from before would have lasted.
    wait_until("the lease was renewed", SOON, || {
        assert_eq!(client.stats().holds_lost, 0);
        begun.elapsed() > left + T / 2
    });
    assert!(locks.iter().all(|lock| lock.hold().unwrap().state() == HoldState::Held));
    proxy.restore();
}

#[test]
fn create_refused_by_a_quota_leaves_nothing_to_delete() {
    let flag = "-Dzookeeper.enforceQuota=true";
    let server = Server::builder().jvm_flag(flag).start().unwrap();
    if server.four_letter("srvr").unwrap().starts_with("Zookeeper version: 3.6.") {
        return println!("skipped: this ZooKeeper is 3.6, and quotas are enforced from 3.7 on");
    }
    let probe = Probe::connect(server.address()).unwrap();
    let quota = "/zookeeper/quota/full";
    probe.create_all("/full/lock").unwrap();
    probe.create_all(quota).unwrap();
    let limits = [
        ("zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2"),
        ("zookeeper_stats", "count=2,bytes=0"),
    ];
    for (name, limit) in limits {
        let node = format!("{quota}/{name}");
        probe.create(&node, limit.as_bytes(), false, false).unwrap();
    }
    let client: Client = client_of(&server.connect_string(), T);
    let lock = lock_of(&client, "/full/lock");
    wait_until("the quota counts", SOON, || match lock.lock() {
        Ok(()) => lock.unlock().is_err(),
        Err(_) => true,
    });
    for _ in 0..10 {
        let seen = lock.lock();
        assert!(seen.is_err(), "{seen:?}");
    }
    println!("{:?}: {:?}", lock.lock(), client.stats());
    assert_eq!(client.stats().deleting, 0);
}
