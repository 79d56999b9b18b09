//! Where the node may be: what else is in its place, what is above it, and who may touch it.

use std::io::{Read, Write};
use std::net::TcpStream;

use zoolock::{DistributedLock, DistributedReentrantLock};
use zoolock_test_support::Op;

use super::*;
use common::{children, in_time, owner, shared_address};

#[track_caller]
fn is_invalid_path<T: std::fmt::Debug>(what: &str, seen: &Result<T>, path: &str) {
    let invalid = matches!(seen, Err(Error::InvalidPath { path: at, reason })
        if at == path && !reason.is_empty());
    assert!(invalid, "{what}: {seen:?}");
}

/// Every way to lock says that the path is no place for this lock.
#[track_caller]
fn refuses_every_call(lock: &EphemeralLock) {
    let path = lock.path();
    let slack = Duration::from_secs(2);
    let calls: [(&str, &dyn Fn() -> Result<bool>); 4] = [
        ("lock", &|| lock.lock().map(|()| true)),
        ("try_lock", &|| lock.try_lock()),
        ("try_lock_for", &|| lock.try_lock_for(SOON)),
        ("try_acquire", &|| lock.try_acquire().map(|guard| guard.is_some())),
    ];
    for (what, call) in calls {
        is_invalid_path(what, &in_time(what, slack, call), path);
    }
    assert!(!lock.is_held() && lock.hold().is_none());
}

#[test]
fn a_persistent_node_in_its_place_is_an_error_and_not_a_wait() {
    let client = client();
    let path = fresh_path("persistent");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    probe.set(&path, b"of somebody").unwrap();
    let lock = lock_of(&client, &path);
    refuses_every_call(&lock);
    assert_eq!(node_at(&path).unwrap().0, "of somebody");
    is_tidy(&client, SOON);
    probe.delete(&path).unwrap();
    assert!(lock.try_lock().unwrap(), "the object works again");
    lock.unlock().unwrap();
}

/// A waiter whose next create is held up, and nothing is in its place any more.
struct AboutToCreate {
    client: Client,
    lock: EphemeralLock,
    waiting: Task<Result<()>>,
    create: zoolock_test_support::Hold,
    _proxy: FaultProxy,
}

impl AboutToCreate {
    fn at(path: &str) -> AboutToCreate {
        make_parents(path);
        let probe = shared_probe().unwrap();
        probe.create(path, b"", true, false).unwrap();
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let lock = lock_of(&client, path);
        let waiting = locking(&lock);
        wait_until("it watches", SOON, || proxy.requests(Op::GetData) == 1);
        let create = proxy.on(Op::Create).path_contains(path).hold_request();
        probe.delete(path).unwrap();
        assert!(create.wait(SOON), "{:#?}", proxy.log());
        AboutToCreate { client, lock, waiting, create, _proxy: proxy }
    }
}

#[test]
fn a_persistent_node_that_appears_while_it_waits_is_an_error() {
    let path = fresh_path("appears");
    let waiter = AboutToCreate::at(&path);
    let probe = shared_probe().unwrap();
    probe.create(&path, b"", false, false).unwrap();
    waiter.create.release();
    let seen = waiter.waiting.result("the waiter");
    println!("{seen:?}");
    is_invalid_path("lock", &seen, &path);
    is_tidy(&waiter.client, SOON);
}

/// One frame of a conversation with the shared server.
fn converse(stream: &mut TcpStream, body: &[u8]) -> Vec<u8> {
    stream.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Makes a container, as Curator makes the directories of its locks: the server deletes it some
/// time after its last child. The probe cannot.
fn create_container(path: &str) {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let mut stream = TcpStream::connect(shared_address()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let hello = [&[0; 12][..], &10_000_i32.to_be_bytes(), &[0; 8], &16_i32.to_be_bytes(), &[0; 17]];
    converse(&mut stream, &hello.concat());
    // Request number, operation, path, data, one entry of an ACL, kind of node.
    let create = [
        &1_i32.to_be_bytes()[..],
        &19_i32.to_be_bytes(),
        &text(path),
        &0_i32.to_be_bytes(),
        &1_i32.to_be_bytes(),
        &31_i32.to_be_bytes(),
        &text("world"),
        &text("anyone"),
        &4_i32.to_be_bytes(),
    ];
    let answer = converse(&mut stream, &create.concat());
    assert_eq!(answer[12..16], [0; 4], "the server refused the container");
}

#[test]
fn a_container_in_its_place_is_the_directory_of_another_lock_and_an_error() {
    let client = client();
    let path = fresh_path("container");
    make_parents(&path);
    create_container(&path);
    println!("{:?}", stat_of(&path));
    let lock = lock_of(&client, &path);
    // As Curator would hold a lock there.
    let directory = DistributedLock::new(&client, &path).unwrap();
    directory.lock().unwrap();
    refuses_every_call(&lock);
    directory.unlock().unwrap();
}

#[test]
fn the_path_of_another_lock_is_no_place_for_this_one_and_the_other_way_round() {
    let client = client();
    let path = fresh_path("shared");
    let (directory, single) =
        (DistributedLock::new(&client, &path).unwrap(), lock_of(&client, &path));
    // Held first, the single node stands where the other one's directory should be.
    single.lock().unwrap();
    for (what, seen) in [
        ("lock", directory.lock().map(|()| true)),
        ("try_lock", directory.try_lock()),
        ("try_lock_for", directory.try_lock_for(SOON)),
    ] {
        println!("{what} below a single node: {seen:?}");
        is_invalid_path(what, &seen, &path);
    }
    assert!(single.is_held());
    single.unlock().unwrap();
    // The other way round there is a directory from then on.
    directory.lock().unwrap();
    refuses_every_call(&single);
    directory.unlock().unwrap();
    refuses_every_call(&single);
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn missing_parents_are_made() {
    let path = fresh_path("deep") + "/a/b/c/lock";
    let clients = [client(), client()];
    let locks = clients.each_ref().map(|client| lock_of(client, &path));
    let tasks = locks.each_ref().map(|lock| {
        let lock = lock.clone();
        Task::spawn(move || lock.lock().and_then(|()| lock.unlock()))
    });
    for task in &tasks {
        task.result("both make the parents").unwrap();
    }
    let above = path.rsplit_once('/').unwrap().0;
    assert_eq!(stat_of(above).ephemeral_owner, 0);
    assert_eq!(children(above), [""; 0]);
    // Deleted again, while it is waited for as well.
    shared_probe().unwrap().delete(above).unwrap();
    assert!(locks[0].try_lock().unwrap());
    let waiting = locking(&locks[1]);
    await_in_use(&clients[1], 1);
    locks[0].unlock().unwrap();
    waiting.result("the waiter").unwrap();
    locks[1].unlock().unwrap();
    assert!(exists(above));
}

#[test]
fn a_parent_deleted_under_a_waiters_feet_is_made_again() {
    let above = fresh_path("parent");
    let waiter = AboutToCreate::at(&format!("{above}/lock"));
    shared_probe().unwrap().delete(&above).unwrap();
    waiter.create.release();
    waiter.waiting.result("the waiter").unwrap();
    waiter.lock.unlock().unwrap();
}

#[test]
fn a_parent_that_is_ephemeral_is_a_clear_error() {
    let client = client();
    let path = fresh_path("ephemeral");
    let above = lock_of(&client, &path);
    above.lock().unwrap();
    for below in [format!("{path}/lock"), format!("{path}/a/b/lock")] {
        let lock = lock_of(&client, &below);
        refuses_every_call(&lock);
        let said = lock.lock().unwrap_err().to_string();
        println!("{said}");
        assert!(said.contains("ephemeral"), "{said}");
    }
    above.unlock().unwrap();
}

#[test]
fn a_lock_at_the_root_works() {
    let name = fresh_path("root").replace('/', "_");
    let path = format!("/{name}");
    let clients = [client(), client()];
    let locks = clients.each_ref().map(|client| lock_of(client, &path));
    locks[0].lock().unwrap();
    assert_eq!(hold_of(&locks[0]).node(), name);
    assert_eq!(hold_of(&locks[0]).fencing_token().unwrap(), stat_of(&path).czxid as u64);
    assert!(!locks[1].try_lock().unwrap());
    let waiting = locking(&locks[1]);
    await_in_use(&clients[1], 1);
    locks[0].unlock().unwrap();
    waiting.result("the waiter").unwrap();
    locks[1].unlock().unwrap();
    assert!(!exists(&path));
}

#[test]
fn everything_is_below_the_chroot_which_is_made() {
    for name in ["/lock", "/a/lock"] {
        let chroot = fresh_path("chroot") + "/made/by/us";
        let hosts = format!("{}{chroot}", connect_string());
        let clients = [client_of(&hosts, SHORT), client_of(&hosts, SESSION)];
        let locks = clients.each_ref().map(|client| lock_of(client, name));
        locks[0].lock().unwrap();
        let full = format!("{chroot}{name}");
        let hold = hold_of(&locks[0]);
        println!("{hold:?} at {full}");
        assert_eq!(hold.path(), name);
        assert_eq!(hold.fencing_token().unwrap(), stat_of(&full).czxid as u64);
        let waiting = locking(&locks[1]);
        await_in_use(&clients[1], 1);
        // Long enough for heartbeats and the watch over the own node.
        let begun = Instant::now();
        wait_until("the lease was renewed", SOON, || {
            assert!(hold.is_held(), "{hold:?}");
            begun.elapsed() > SHORT
        });
        assert!(!waiting.is_done());
        locks[0].unlock().unwrap();
        waiting.result("the waiter").unwrap();
        locks[1].unlock().unwrap();
        assert!(!exists(&full));
    }
}

#[test]
fn only_the_owners_credentials_count_and_others_are_denied() {
    let path = fresh_path("digest");
    make_parents(&path);
    let (first, second, stranger) = (owner(), owner(), client());
    let (lock, next) = (lock_of(&first, &path), lock_of(&second, &path));
    lock.lock().unwrap();
    let strange = lock_of(&stranger, &path);
    let calls: [(&str, &dyn Fn() -> Result<bool>); 3] = [
        ("lock", &|| strange.lock().map(|()| true)),
        ("try_lock_for", &|| strange.try_lock_for(SOON)),
        ("try_lock", &|| strange.try_lock()),
    ];
    for (what, call) in calls {
        let seen = in_time(what, Duration::from_secs(2), call);
        // A try may see that there is a node and nothing else.
        let busy = what == "try_lock" && matches!(seen, Ok(false));
        let denied = matches!(&seen, Err(Error::Denied { path: at }) if *at == path);
        assert!(denied || busy, "{what}: {seen:?}");
    }
    is_tidy(&stranger, SOON);
    assert!(!next.try_lock().unwrap(), "the same credentials may take part");
    let waiting = locking(&next);
    await_in_use(&second, 1);
    lock.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    next.unlock().unwrap();
    assert!(strange.try_lock().unwrap(), "it was free");
    strange.unlock().unwrap();
}

#[test]
fn a_directory_in_which_nothing_may_be_made_is_denied() {
    let root = fresh_path("closed");
    make_parents(&root);
    let probe = shared_probe().unwrap();
    // READ only.
    probe.create_with_acl(&root, b"", &[(1, "world", "anyone")]).unwrap();
    let client = client();
    for path in [format!("{root}/lock"), format!("{root}/a/lock")] {
        let lock = lock_of(&client, &path);
        for (what, seen) in [("lock", lock.lock().map(|()| true)), ("try_lock", lock.try_lock())] {
            println!("{what} of {path}: {seen:?}");
            assert!(matches!(seen, Err(Error::Denied { .. })), "{what}: {seen:?}");
        }
    }
    is_tidy(&client, SOON);
}

#[test]
fn a_node_that_may_not_be_deleted_goes_with_its_session() {
    let root = fresh_path("undeletable");
    make_parents(&root);
    let probe = shared_probe().unwrap();
    // READ, WRITE and CREATE, no DELETE.
    probe.create_with_acl(&root, b"", &[(7, "world", "anyone")]).unwrap();
    let client = client_of(&connect_string(), SHORT);
    let lock = lock_of(&client, &format!("{root}/lock"));
    lock.lock().unwrap();
    let unlocked = lock.unlock();
    println!("{unlocked:?}");
    assert!(matches!(unlocked, Err(Error::Denied { .. })), "{unlocked:?}");
    assert!(!lock.is_held());
    assert_eq!(client.stats().deleting, 0);
    // Nobody will ever let it in.
    let waiting = locking(&lock);
    let again = waiting.result("lock() behind its own node");
    println!("again: {again:?}");
    assert!(matches!(&again, Err(Error::Denied { path }) if path == lock.path()), "{again:?}");
    let rivals = common::client();
    let rival = lock_of(&rivals, lock.path());
    assert!(!rival.try_lock().unwrap());
    let waiting = locking(&rival);
    await_in_use(&rivals, 1);
    client.close().unwrap();
    waiting.result("the rival").unwrap();
}

#[test]
fn paths_that_cannot_be_locks_are_refused_with_a_reason() {
    let client = client();
    for path in ["", "/", "a", "/a/", "//a", "/a/../b", "/a\0b", "/zookeeper/a"] {
        let before = client.stats().requests;
        let seen = EphemeralLock::new(&client, path).map(drop);
        println!("{seen:?}");
        is_invalid_path("new", &seen, path);
        assert_eq!(client.stats().requests, before, "{path:?} was asked for");
    }
    // A part of 255 bytes is one that a request can carry.
    let long = format!("{}/{}", fresh_path("long"), "x".repeat(255));
    let lock = lock_of(&client, &long);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let owner = DistributedReentrantLock::new(&client, fresh_path("other")).unwrap();
    owner.lock().unwrap();
    // A thread that owns the directory's lock waits for nobody here.
    let inside = lock_of(&client, &format!("{}/x", owner.path()));
    inside.lock().unwrap();
    inside.unlock().unwrap();
    owner.unlock().unwrap();
}
