//! The number of requests that calls send. Session timeouts are so long that clients send no others.

use common::*;

const TURNS: u64 = 10;

fn has_a_directory_that_goes(subject: Subject) -> bool {
    subject.has_a_directory() && subject.goes_with_its_unlock()
}

/// The arrays are the numbers of creates, deletions, lists, reads and transactions.
#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn lock_cycle_try_and_refusal_have_fixed_request_counts() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let (proxy, client) = behind_a_proxy(SOON);
        let path = fresh_path("cost");
        let object = subject.at(&client, &path);
        let rival = subject.rival(&super::client(), &path);
        let [cycle, of_a_try, of_a_refusal] = subject.costs();
        let costs = |what: &str, expected: [u64; 5], step: &dyn Fn()| {
            println!("{}, {what}:", subject.name);
            assert_eq!(cost(&proxy, step), expected, "{}, {what}", subject.name);
            // The answer to this list arrives only after the answer to the last deletion, so nothing is in flight.
            client.contenders(&path).unwrap();
        };
        let leaves = || {
            object.unlock().unwrap();
            subject.await_nodes(&path, 0);
        };
        // This creates the parent directories.
        rival.lock().unwrap();
        rival.unlock().unwrap();
        subject.await_nodes(&path, 0);
        costs("lock, unlock", cycle, &|| {
            object.lock().unwrap();
            leaves();
        });
        if has_a_directory_that_goes(subject) {
            // A call may begin before the answer to the previous release in the background has arrived.
            costs("turn after turn", cycle.map(|count| TURNS * count), &|| {
                (0..TURNS).for_each(|_| visit(object.clone())().unwrap());
                wait_until("the directory is gone", SOON, || !exists(&path));
            });
        }
        costs("try_lock, unlock", of_a_try, &|| {
            assert!(object.try_lock().unwrap());
            leaves();
        });

        object.lock().unwrap();
        subject.await_nodes(&path, subject.nodes_of_one());
        // Contending for a permit costs the same within a process as between processes.
        let lists = if subject.is_one_lock() && !subject.guards_the_object() { 2 } else { 0 };
        costs("entering again, or a local rival", [0, 0, lists, 0, 0], &|| {
            let again = object.try_lock().unwrap();
            assert_eq!(again, subject.is_a_threads());
            if again {
                object.unlock().unwrap();
            }
            if subject.is_exclusive() {
                assert!(!object.elsewhere(|object| object.try_lock()).unwrap());
            }
        });
        leaves();

        rival.lock().unwrap();
        costs("a refusal", of_a_refusal, &|| {
            assert!(!object.try_lock().unwrap());
        });
        rival.unlock().unwrap();
    });
}

#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts a waiting call lists once more")]
fn directory_of_another_client_costs_three_requests_per_acquisition() {
    every_subject_that(has_a_directory_that_goes, |subject| {
        let ((proxy, client), above) = (behind_a_proxy(SOON), fresh_path("orders"));
        // After this, the client knows that the parent directory exists.
        lock_of(&client, &format!("{above}/first")).acquire().unwrap().release().unwrap();
        let path = format!("{above}/lock");
        shared_probe().unwrap().create(&path, b"", false, false).unwrap();
        let object = subject.at(&client, &path);
        for turn in 0..TURNS {
            let cost = cost(&proxy, || {
                visit(object.clone())().unwrap();
                subject.await_nodes(&path, 0);
            });
            // Only the first call has to find out that the directory exists.
            let refused = if turn == 0 { 2 } else { 0 };
            assert_eq!(cost, [1, 1, 1, 0, refused], "{}, turn {turn}", subject.name);
        }
    });
}
