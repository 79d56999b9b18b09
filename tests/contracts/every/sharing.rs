//! The lock objects of one client at one path share their first level, and nothing else.

use std::time::Duration;

use zoolock::{Client, LockOptions};
use zoolock_test_support::fresh_path;

use super::client;
use super::order::threads_enter_in_call_order_and_wait_locally;
use common::{Object, Subject, Task, await_nothing_left, behind_a_proxy, every_subject_that};

/// Returns whether an object has one hold, for which its threads wait in the process.
fn is_a_lock(subject: Subject) -> bool {
    subject.has_a_first_level() && subject.guards_the_object()
}

#[test]
fn threads_of_many_objects_enter_in_call_order_and_wait_locally() {
    threads_enter_in_call_order_and_wait_locally(false);
}

/// Requests of threads that take turns, each with an object of its own for each turn or all with one.
fn requests(subject: Subject, is_shared: bool) -> u64 {
    const THREADS: u64 = 8;
    const TURNS: u64 = 25;
    let ((_proxy, client), path) = (behind_a_proxy(Duration::from_secs(60)), fresh_path("a-turn"));
    let shared = subject.at(&client, &path);
    shared.lock().unwrap();
    let begun = client.stats().requests;
    let turns = |_| {
        let (client, path, shared) = (client.clone(), path.clone(), shared.clone());
        Task::spawn_blocked(move || {
            for _ in 0..TURNS {
                let object = if is_shared { shared.clone() } else { subject.at(&client, &path) };
                object.lock().unwrap();
                object.unlock().unwrap();
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(turns).collect();
    shared.unlock().unwrap();
    threads.iter().for_each(|thread| thread.result("a thread"));
    await_nothing_left(&client);
    client.stats().requests - begun
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn object_for_each_turn_costs_what_a_shared_object_does() {
    const TURNS: u64 = 200;
    every_subject_that(
        |subject| subject.is_plain() && is_a_lock(subject),
        |subject| {
            let [shared, each] = [true, false].map(|is_shared| requests(subject, is_shared));
            println!("{}: {TURNS} turns, {shared} requests, {each} requests", subject.name);
            // On a slow machine no thread may wait at some moment, and the next one begins with a list.
            for requests in [shared, each] {
                assert!(requests <= 2 * TURNS + TURNS / 5, "{}: {requests}", subject.name);
            }
        },
    );
}

/// Locks the object. Returns what the holder's node says, and the token.
fn identity_inside(client: &Client, object: &Object) -> (Option<String>, u64) {
    object.lock().unwrap();
    let holder = client.contenders(object.path()).unwrap().remove(0);
    object.unlock().unwrap();
    (holder.identity, holder.token)
}

#[test]
fn node_goes_only_to_objects_with_its_identity() {
    every_subject_that(
        |subject| is_a_lock(subject) && subject.is_plain() && subject.may_be_left(),
        |subject| {
            let client = client();
            let object = |path: &str, who: &str| {
                let options = LockOptions::new().local_handoffs(8);
                subject.with(&client, path, options.identity(who))
            };
            for who in ["a", "b"] {
                let path = fresh_path("identity-handed-on");
                let (held, next) = (object(&path, "a"), object(&path, who));
                held.lock().unwrap();
                let first = held.hold().fencing_token();
                let inside = client.clone();
                let next = Task::spawn_blocked(move || identity_inside(&inside, &next));
                held.unlock().unwrap();
                let (said, token) = next.result("the next thread");
                println!("{}: {said:?} has {token} behind {first}", subject.name);
                assert_eq!((said.as_deref(), token == first), (Some(who), who == "a"));
            }
        },
    );
}
