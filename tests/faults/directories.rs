//! The directories of locks: what kind of nodes they are, and that servers remove them.

use zoolock::{
    DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Lock,
};
use zoolock_test_support::{Probe, Server, fresh_path, shared_probe, wait_until};

use common::{SESSION, SOON, Task, children, client_of, lock_of};

/// A server that does not take a minute to look for containers that are empty.
fn tidy_server() -> Server {
    Server::builder().jvm_flag("-Dznode.container.checkIntervalMs=200").start().unwrap()
}

/// Servers do not say which nodes are containers, but remove them.
#[test]
fn every_directory_that_a_lock_makes_is_a_container() {
    let server = tidy_server();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    let at = |name: &str| format!("/root/{name}/lock");
    let locks: [Box<dyn Lock>; 5] = [
        DistributedLock::new(&client, at("any")).unwrap().into(),
        DistributedReentrantLock::new(&client, at("own")).unwrap().into(),
        DistributedRwLock::new(&client, at("read")).unwrap().read_lock().into(),
        DistributedRwLock::new(&client, at("write")).unwrap().write_lock().into(),
        EphemeralLock::new(&client, at("single")).unwrap().into(),
    ];
    locks.iter().for_each(|lock| lock.lock().unwrap());
    let permits = DistributedSemaphore::new(&client, at("permits"), 2).unwrap();
    let permits = permits.acquire(2).unwrap();
    let made = ["any", "own", "read", "write", "permits"].map(at);
    // Nobody is in turn any more, so `locks` may be gone.
    for path in made.iter().chain([&format!("{}/leases", at("permits"))]) {
        let stat = probe.stat(path).unwrap().unwrap();
        assert_eq!(stat.data_length, 0, "{path}");
    }
    permits.release().unwrap();
    locks.iter().for_each(|lock| lock.unlock().unwrap());
    let took = wait_until("all are gone", SOON, || !probe.exists("/root").unwrap());
    println!("all gone after {took:?}");
}

#[test]
fn the_server_removes_them_when_they_are_empty_and_a_lock_makes_them_again() {
    let server = tidy_server();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    let lock = lock_of(&client, "/above/lock");
    for round in 0..3 {
        lock.lock().unwrap();
        assert_eq!(probe.children("/above/lock").unwrap(), [lock.hold().unwrap().node()]);
        lock.unlock().unwrap();
        let took = wait_until("all are gone", SOON, || !probe.exists("/above").unwrap());
        println!("round {round}: gone after {took:?}");
    }
}

/// Containers that are empty between two turns go at any moment, most of all between the create of a
/// directory and that of the first node in it.
#[test]
fn directories_that_the_server_removes_again_and_again_are_in_nobodys_way() {
    let server = Server::builder()
        .jvm_flag("-Dznode.container.checkIntervalMs=1")
        .jvm_flag("-Dznode.container.maxPerMinute=1000000")
        .start()
        .unwrap();
    let turns = (0..4).map(|number| {
        let client = client_of(&server.connect_string(), SESSION);
        let path = format!("/above/lock-{}", number % 2);
        let lock = lock_of(&client, &path);
        Task::spawn(move || {
            for _ in 0..100 {
                lock.lock()?;
                lock.unlock()?;
                std::thread::yield_now();
            }
            client.close()
        })
    });
    for turns in turns.collect::<Vec<_>>() {
        turns.result("a hundred turns").unwrap();
    }
    let probe = Probe::connect(server.address()).unwrap();
    wait_until("all are gone", SOON, || !probe.exists("/above").unwrap());
}

#[test]
fn a_node_of_somebody_elses_at_the_locks_path_is_never_deleted_nor_changed() {
    let server = tidy_server();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    probe.create("/kept", b"a user's", false, false).unwrap();
    let before = probe.get("/kept").unwrap().unwrap();
    let lock = lock_of(&client, "/kept");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    // A lock beside it, made later, has been tidied up.
    let other = lock_of(&client, "/other");
    other.lock().unwrap();
    other.unlock().unwrap();
    wait_until("containers were looked for", SOON, || !probe.exists("/other").unwrap());
    let after = probe.get("/kept").unwrap().unwrap();
    println!("{after:?}");
    assert_eq!(after.0, b"a user's");
    let lasting = |stat: &zoolock_test_support::Stat| (stat.czxid, stat.mzxid, stat.version);
    assert_eq!(lasting(&after.1), lasting(&before.1));
    assert_eq!((after.1.ephemeral_owner, after.1.num_children), (0, 0));

    // In front of a waiter it is a directory like any other.
    let path = fresh_path("kept");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    probe.set(&path, b"a user's").unwrap();
    let [one, two] = [(); 2].map(|()| common::client());
    let (held, waits) = (lock_of(&one, &path).acquire().unwrap(), lock_of(&two, &path));
    let waiter = Task::spawn(move || waits.acquire()?.release());
    wait_until("it is queued", SOON, || children(&path).len() == 2);
    held.release().unwrap();
    waiter.result("the waiter").unwrap();
    assert_eq!(probe.get(&path).unwrap().unwrap().0, b"a user's");
}
