//! Whose directory is removed: one with the ACL of the client.

use zoolock::{Acl, Client, DistributedSemaphore, Permissions};
use zoolock_test_support::{connect_string, fresh_path, shared_probe};

use super::{cycle, is_gone, is_there, tidy, tidy_lock};
use crate::util::{SESSION, Task, children, client, lock_of, owner};

#[test]
fn one_that_another_client_of_ours_made_is_removed() {
    let (maker, other) = (client(), client());
    let path = fresh_path("other-maker");
    cycle(&lock_of(&maker, &path));
    is_there(&path);
    cycle(&tidy_lock(&other, &path));
    is_gone(&path);
    // Or an operator, with the same ACL.
    shared_probe().unwrap().create_all(&path).unwrap();
    cycle(&tidy_lock(&other, &path));
    is_gone(&path);
}

#[test]
fn one_with_another_acl_stays() {
    let client = client();
    let probe = shared_probe().unwrap();
    probe.create_all("/zoolock-test").unwrap();
    let path = fresh_path("other-acl");
    let others = [(15, "world", "anyone"), (31, "ip", "127.0.0.1")];
    for acl in [&others[..1], &others[..], &others[1..]] {
        probe.create_with_acl(&path, b"", acl).unwrap();
        cycle(&tidy_lock(&client, &path));
        is_there(&path);
        probe.delete(&path).unwrap();
    }
}

#[test]
fn one_with_another_acl_stays_also_where_this_client_had_made_one_before() {
    let client = client();
    let probe = shared_probe().unwrap();
    let path = fresh_path("made-before");
    let lock = tidy_lock(&client, &path);
    lock.lock().unwrap();
    // Keeps it at the release; then somebody else takes the path.
    let notes = format!("{path}/notes");
    probe.create(&notes, b"", false, false).unwrap();
    lock.unlock().unwrap();
    probe.delete(&notes).unwrap();
    probe.delete(&path).unwrap();
    probe.create_with_acl(&path, b"", &[(15, "world", "anyone")]).unwrap();
    cycle(&lock);
    is_there(&path);
}

#[test]
fn an_acl_that_says_the_same_twice_is_the_same() {
    let twice = Acl::open().and("world", "anyone", Permissions::ALL);
    let builder = Client::builder(&connect_string()).session_timeout(SESSION);
    let clients = [builder.clone(), builder].map(|b| b.acl(twice.clone()).connect().unwrap());
    let path = fresh_path("twice");
    cycle(&lock_of(&clients[0], &path));
    cycle(&tidy_lock(&clients[1], &path));
    is_gone(&path);
}

#[test]
fn a_creators_own_directory_is_removed() {
    let client = owner();
    let path = fresh_path("creator");
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    for _ in 0..2 {
        cycle(&tidy_lock(&client, &path));
        is_gone(&path);
    }
}

#[test]
fn a_creators_directory_stays_where_another_client_with_the_same_credentials_uses_it() {
    let (maker, other) = (owner(), owner());
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    let path = fresh_path("creators");
    cycle(&lock_of(&maker, &path));
    cycle(&tidy_lock(&other, &path));
    is_there(&path);
}

#[test]
fn a_creators_semaphore_removes_all_that_it_made() {
    let client = owner();
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    let path = fresh_path("creators-semaphore");
    let semaphore = DistributedSemaphore::with(&client, &path, 2, tidy()).unwrap();
    drop(semaphore.try_acquire(1).unwrap().expect("free"));
    is_gone(&path);
    drop(semaphore.acquire(1).unwrap());
    let builder = Client::builder(&connect_string()).auth("digest", "owner:secret");
    let looking = builder.connect().unwrap();
    println!("left: {:?}", looking.contenders(&path));
    is_gone(&path);
}

#[test]
fn threads_of_one_creator_leave_nothing() {
    const ROUNDS: usize = 100;
    let client = owner();
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    let path = fresh_path("creators-threads");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = tidy_lock(&client, &path);
            Task::spawn(move || {
                (0..ROUNDS).try_for_each(|_| lock.lock().and_then(|()| lock.unlock()))
            })
        })
        .collect();
    for thread in threads {
        thread.result("a thread").unwrap();
    }
    is_gone(&path);
}

#[test]
fn a_directory_that_must_not_be_deleted_stays_and_the_release_succeeds() {
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    let client = client();
    let root = fresh_path("not-deletable");
    boss.create_all("/zoolock-test").unwrap();
    // Children may be made, not deleted.
    boss.create_with_acl(&root, b"", &[(31, "auth", ""), (5, "world", "anyone")]).unwrap();
    let path = format!("{root}/lock");
    let lock = tidy_lock(&client, &path);
    for _ in 0..2 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        assert_eq!(children(&path), [""; 0]);
        is_there(&path);
    }
    assert_eq!(client.stats().garbage, 0);
}
