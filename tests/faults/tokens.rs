//! Fencing tokens: they rise from one hold to the next, whatever happens, and are equal for as
//! long as it is the same hold.

use std::env;

use zoolock::{Client, DistributedReentrantLock};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::basics::{await_nodes, hold_of};
use common::{
    Beside, OWN_PROCESS, SESSION, SOON, Task, Tokens, await_resumed, client, client_of, lock_of,
    shared_proxy,
};

/// Holds the lock until it is killed.
fn hold_for_ever(path: &str) {
    let client = client_of(&connect_string(), std::time::Duration::from_secs(2));
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    println!("token: {}", hold_of(&lock).fencing_token().unwrap());
    let _ = hold_of(&lock).lost().recv();
}

#[test]
fn tokens_rise_over_releases_crashes_cuts_and_a_new_directory() {
    const NAME: &str = "tokens::tokens_rise_over_releases_crashes_cuts_and_a_new_directory";
    if let Ok(path) = env::var(OWN_PROCESS) {
        return hold_for_ever(&path);
    }
    let path = fresh_path("tokens");
    let mut tokens = Tokens::default();
    let survivor = client();
    tokens.turn(&survivor, &path, "nothing");
    tokens.turn(&survivor, &path, "a release");

    let mut holder = Beside::start(NAME, &path);
    tokens.note("a release, in another process", holder.says("token:").parse().unwrap());
    holder.kill();
    tokens.turn(&survivor, &path, "that was killed");

    let dropped = client();
    let lock = lock_of(&dropped, &path);
    lock.lock().unwrap();
    tokens.note("a release, by another client", hold_of(&lock).fencing_token().unwrap());
    drop((lock, dropped));
    tokens.turn(&survivor, &path, "that was dropped");

    // The sequence numbers begin anew.
    wait_until("the directory can be deleted", SOON, || {
        shared_probe().unwrap().delete(&path).is_ok()
    });
    tokens.turn(&survivor, &path, "the directory was deleted");

    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let lock = DistributedReentrantLock::new(&cut, &path).unwrap();
    lock.lock().unwrap();
    let first = hold_of(&lock).fencing_token().unwrap();
    tokens.note("a release, before cuts", first);
    for round in 1..=3 {
        proxy.cut();
        await_resumed(&cut, round);
        lock.lock().unwrap();
        assert_eq!(hold_of(&lock).fencing_token().unwrap(), first, "cut {round}");
    }
    assert_eq!(lock.hold_count(), 4);
    for _ in 0..4 {
        lock.unlock().unwrap();
    }
    tokens.turn(&survivor, &path, "the release of the one that was cut");
    tokens.rise();
}

#[test]
fn a_waiter_that_was_cut_has_a_lower_token_than_those_behind_it() {
    let path = fresh_path("cut-waiter");
    let mut tokens = Tokens::default();
    let others = client();
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    tokens.note("nothing", hold_of(&held).fencing_token().unwrap());
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let lock = lock_of(&cut, &path);
    let wait = |lock: &zoolock::DistributedLock| {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    let waiting = wait(&lock);
    await_nodes(&path, 2);
    let behind = lock_of(&others, &path);
    let last = wait(&behind);
    await_nodes(&path, 3);
    proxy.cut();
    await_resumed(&cut, 1);
    held.unlock().unwrap();
    waiting.result("the waiter that was cut").unwrap();
    let hold = hold_of(&lock);
    let early = hold.fencing_token().unwrap();
    proxy.cut();
    await_resumed(&cut, 2);
    let token = hold.fencing_token().unwrap();
    assert_eq!(token, early);
    tokens.note("cut while waiting and while held", token);
    lock.unlock().unwrap();
    last.result("the last").unwrap();
    tokens.note("behind it", hold_of(&behind).fencing_token().unwrap());
    behind.unlock().unwrap();
    tokens.rise();
}
