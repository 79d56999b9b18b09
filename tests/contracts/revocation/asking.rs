//! Who hears of it when a holder is asked, and how often.

use zoolock::{Client, DistributedRwLock};
use zoolock_test_support::{fresh_path, wait_until};

use super::{contender_of, ends, is_asked, is_not_asked};
use common::basics::await_nodes;
use common::{SOON, Task, client, lock_of};

/// Waits until the client has had an event more, and a request behind it.
fn await_event(client: &Client, before: zoolock::Stats) {
    wait_until("the event was seen to", SOON, || {
        let now = client.stats();
        now.events > before.events && now.requests > before.requests
    });
}

#[test]
fn a_request_to_the_one_ahead_wakes_its_successor_for_nothing() {
    let (own, other) = (client(), client());
    let path = fresh_path("successor");
    let ahead = lock_of(&own, &path).acquire().unwrap();
    let lock = lock_of(&other, &path);
    let waiter = Task::spawn(move || lock.acquire().and_then(|guard| guard.release()));
    await_nodes(&path, 2);
    let asked = ahead.revocation().unwrap();
    for _ in 0..3 {
        let before = other.stats();
        own.revoke(&contender_of(&own, &ahead)).unwrap();
        is_asked(&asked, "the holder");
        await_event(&other, before);
        assert!(!waiter.is_done(), "the waiter was let in");
    }
    ahead.release().unwrap();
    waiter.result("the waiter").unwrap();
}

#[test]
fn a_write_and_the_read_under_it_are_asked_each_for_itself() {
    let (own, other) = (client(), client());
    let lock = DistributedRwLock::new(&own, fresh_path("both")).unwrap();
    let write = lock.write_lock().acquire().unwrap();
    let read = lock.read_lock().acquire().unwrap();
    let asked = [write.revocation().unwrap(), read.revocation().unwrap()];
    other.revoke(&contender_of(&other, &write)).unwrap();
    is_asked(&asked[0], "the write");
    is_not_asked(&asked[1], "the read");
    write.release().unwrap();
    ends(&asked[0], "the write");
    other.revoke(&contender_of(&other, &read)).unwrap();
    is_asked(&asked[1], "the read");
    read.release().unwrap();
    ends(&asked[1], "the read");
}
