//! The directories of locks: that they are containers, and how servers remove them.

use super::SHORT;
use common::line::has_one_node_until_unlocked;
use common::*;

/// Starts a server that removes empty containers several times a second instead of once a minute.
fn tidy_server() -> Server {
    Server::builder().jvm_flag("-Dznode.container.checkIntervalMs=200").start().unwrap()
}

/// Servers do not report which nodes are containers, but they remove only empty containers.
#[test]
fn lock_creates_its_directories_as_containers_and_recreates_them() {
    let server = tidy_server();
    let client = client_of(&server.connect_string(), SESSION);
    every_subject_that(Subject::is_plain, |subject| {
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
    });
}

#[test]
fn foreign_node_at_the_locks_path_is_never_changed() {
    let server = tidy_server();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    probe.create("/kept", b"a user's", false, false).unwrap();
    let before = probe.get("/kept").unwrap().unwrap();
    let others = client_of(&server.connect_string(), SESSION);
    let (held, waits) = (lock_of(&client, "/kept"), lock_of(&others, "/kept"));
    held.lock().unwrap();
    let waiter = Task::spawn(move || waits.acquire()?.release());
    wait_until("it is queued", SOON, || probe.children("/kept").unwrap().len() == 2);
    held.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    // Each of the releases above left another contender, or followed an event. This node is alone from its grant on.
    lock_of(&client, "/kept").acquire().unwrap().release().unwrap();
    // Waits until the server has removed a directory that was created later, by a lock at another path.
    lock_of(&client, "/other").acquire().unwrap().release().unwrap();
    wait_until("the server has checked its containers", SOON, || !probe.exists("/other").unwrap());
    let after = probe.get("/kept").unwrap().unwrap();
    println!("{after:?}");
    let lasting = |stat: &Stat| (stat.czxid, stat.mzxid, stat.version);
    assert_eq!((after.0, lasting(&after.1)), (before.0, lasting(&before.1)));
    assert_eq!((after.1.ephemeral_owner, after.1.num_children), (0, 0));
}

/// An operator creates the directory on servers that have lost their data. Their transaction ids start again, so its
/// czxid is lower than that of the directory that the client had created.
#[test]
fn directory_that_is_made_by_hand_on_a_wiped_server_stays() {
    let server = Server::start().unwrap();
    let [client, other] = [(); 2].map(|()| client_of(&server.connect_string(), SHORT));
    let [lock, rival] = [&client, &other].map(|client| lock_of(client, "/locks/job"));
    // The second acquisition's directory has a higher czxid than a directory created first on a wiped server.
    lock.lock().unwrap();
    lock.unlock().unwrap();
    lock.lock().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let made = probe.stat("/locks/job").unwrap().unwrap();
    // Because of the rival, this release does not delete the directory, and the client still knows it.
    let waiting = locking(&rival);
    wait_until("it is queued", SOON, || probe.children("/locks/job").unwrap().len() == 2);
    lock.unlock().unwrap();
    waiting.result("the rival").unwrap();
    let sessions = client.stats().sessions;
    server.stop().unwrap();
    server.wipe().unwrap();
    server.start_again().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all("/locks/job").unwrap();
    let by_hand = probe.stat("/locks/job").unwrap().unwrap();
    assert!(by_hand.czxid < made.czxid, "{by_hand:?}, not before {made:?}");
    wait_until("it has another session", SOON, || client.stats().sessions > sessions);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(probe.stat("/locks/job").unwrap().map(|stat| stat.czxid), Some(by_hand.czxid));
}

/// A call creates its node in the directory, and also sends a transaction that creates the directory and a node, in
/// case the directory is missing. Between these requests, an operator deletes the node and the directory, so both
/// requests succeed.
#[test]
fn call_keeps_one_of_two_nodes_if_the_directory_goes_between_their_creates() {
    let (proxy, client) = behind_a_proxy(SESSION);
    let (path, probe) = (fresh_path("between-creates"), shared_probe().unwrap());
    probe.create_all(&path).unwrap();
    let lock = lock_of(&client, &path);
    // The first transaction fails, because it tries to create the directory, which exists.
    let making = proxy.on(Op::Multi).nth(2).hold_request();
    let call = locking(&lock);
    assert!(making.wait(SOON), "{:#?}", proxy.log());
    for child in children(&path) {
        probe.delete(&format!("{path}/{child}")).unwrap();
    }
    probe.delete(&path).unwrap();
    making.release();
    call.result("lock()").unwrap();
    has_one_node_until_unlocked(&lock);
}
