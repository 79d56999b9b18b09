//! The directories of locks are containers, which servers remove.

use zoolock_test_support::{Probe, Server, Stat, fresh_path, wait_until};

use common::{SESSION, SOON, Task, client_of, every_subject_that, lock_of};

/// A server that does not take a minute to look for containers that are empty.
fn tidy_server() -> Server {
    Server::builder().jvm_flag("-Dznode.container.checkIntervalMs=200").start().unwrap()
}

/// Servers do not say which nodes are containers, but remove them.
#[test]
fn every_directory_that_a_lock_makes_is_a_container_and_made_again_when_it_is_gone() {
    let server = tidy_server();
    let client = client_of(&server.connect_string(), SESSION);
    every_subject_that(
        |subject| subject.is_plain(),
        |subject| {
            let probe = Probe::connect(server.address()).unwrap();
            let above = subject.path_in(&fresh_path("above"));
            let lock = subject.at(&client, &format!("{above}/lock"));
            for round in 0..2 {
                lock.lock().unwrap();
                let node = subject.node_of(&lock.hold());
                let (directory, _) = node.rsplit_once('/').unwrap();
                assert_eq!(probe.stat(directory).unwrap().unwrap().data_length, 0, "{directory}");
                lock.unlock().unwrap();
                let took = wait_until("all are gone", SOON, || !probe.exists(&above).unwrap());
                println!("{}, {round}: gone after {took:?}", subject.name);
            }
        },
    );
}

/// Containers that are empty between two turns go at any moment, most of all between the create of
/// a directory and that of the first node in it.
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
    let [held, waits] = [(); 2].map(|()| lock_of(&client, "/kept"));
    held.lock().unwrap();
    let waiter = Task::spawn(move || waits.acquire()?.release());
    wait_until("it is queued", SOON, || probe.children("/kept").unwrap().len() == 2);
    held.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    // A lock beside it, made later, has been tidied up.
    lock_of(&client, "/other").acquire().unwrap().release().unwrap();
    wait_until("containers were looked for", SOON, || !probe.exists("/other").unwrap());
    let after = probe.get("/kept").unwrap().unwrap();
    println!("{after:?}");
    let lasting = |stat: &Stat| (stat.czxid, stat.mzxid, stat.version);
    assert_eq!((after.0, lasting(&after.1)), (before.0, lasting(&before.1)));
    assert_eq!((after.1.ephemeral_owner, after.1.num_children), (0, 0));
}
