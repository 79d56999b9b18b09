//! The directories of locks, which come and go with their use. `every` has the cost of a new one.

use std::time::Duration;

use zoolock::Client;
use zoolock_test_support::{FaultProxy, fresh_path, shared_probe, wait_until};

use common::{Object, SOON, Subject, behind_a_proxy, cost, every_subject_that, exists, lock_of};

const TURNS: u64 = 10;

fn has_one_that_goes(subject: Subject) -> bool {
    subject.has_a_directory() && subject.goes_with_its_unlock()
}

/// A client that has used a lock in the directory of its new paths.
fn seasoned() -> (FaultProxy, Client, String) {
    let (proxy, client) = behind_a_proxy(Duration::from_secs(60));
    let above = fresh_path("orders");
    lock_of(&client, &format!("{above}/first")).acquire().unwrap().release().unwrap();
    (proxy, client, above)
}

fn take_a_turn(object: &Object) {
    object.lock().unwrap();
    object.unlock().unwrap();
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts a waiting call lists once more")]
fn directory_of_another_client_costs_three_requests_a_turn() {
    every_subject_that(has_one_that_goes, |subject| {
        let (proxy, client, above) = seasoned();
        let path = format!("{above}/lock");
        shared_probe().unwrap().create(&path, b"", false, false).unwrap();
        let object = subject.at(&client, &path);
        for turn in 0..TURNS {
            let cost = cost(&proxy, || {
                take_a_turn(&object);
                subject.await_nodes(&path, 0);
            });
            // The first call finds out that it exists.
            let refused = if turn == 0 { 2 } else { 0 };
            assert_eq!(cost, [1, 1, 1, 0, refused], "{}, turn {turn}", subject.name);
        }
    });
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn path_that_is_used_again_costs_two_requests_a_turn() {
    every_subject_that(has_one_that_goes, |subject| {
        let (proxy, client, above) = seasoned();
        let path = format!("{above}/lock");
        let object = subject.at(&client, &path);
        // The next turn may come before the answer to a release in the background.
        let cost = cost(&proxy, || {
            (0..TURNS).for_each(|_| take_a_turn(&object));
            wait_until("the directory is gone", SOON, || !exists(&path));
        });
        assert_eq!(cost, [0, 0, 0, 0, 2 * TURNS], "{}", subject.name);
    });
}
