//! Grants come in order of arrival.

use zoolock_test_support::fresh_path;

use super::client;
use common::{Arrivals, SOON, Subject, every_subject_that};

/// Every second visitor is a rival, so that no two neighbours in the queue may share the lock.
#[test]
fn clients_enter_in_order_of_arrival() {
    every_subject_that(Subject::queues, |subject| {
        let clients = [(); 6].map(|()| client());
        let path = fresh_path("arrival");
        let holder = subject.rival(&client(), &path);
        holder.lock().unwrap();
        // The turn for permits is deleted after the grant.
        subject.await_nodes(&path, subject.nodes_of_one());
        let mut arrivals = Arrivals::new();
        for (number, client) in clients.iter().enumerate() {
            let object = match number % 2 {
                0 => subject.at(client, &path),
                _ => subject.rival(client, &path),
            };
            arrivals.join(move |inside| {
                match number % 3 {
                    0 => assert!(object.try_lock_for(SOON).unwrap()),
                    _ => object.lock().unwrap(),
                }
                inside();
                object.unlock().unwrap();
            });
            subject.await_waiting(&path, &[], number + 1);
        }
        assert!(arrivals.is_empty(), "in beside the holder");
        holder.unlock().unwrap();
        assert_eq!(arrivals.order(), [0, 1, 2, 3, 4, 5], "{}", subject.name);
    });
}

/// The threads have one object, or an object each.
#[test]
fn threads_enter_in_call_order_and_wait_locally() {
    for is_shared in [true, false] {
        every_subject_that(Subject::has_a_first_level, |subject| {
            let (client, path) = (client(), fresh_path("threads"));
            let object = subject.at(&client, &path);
            object.lock().unwrap();
            let mut arrivals = Arrivals::new();
            for _ in 0..4 {
                let object = if is_shared { object.clone() } else { subject.at(&client, &path) };
                arrivals.join_asleep(move |inside| {
                    object.lock().unwrap();
                    inside();
                    object.unlock().unwrap();
                });
            }
            assert!(arrivals.is_empty(), "in beside the holder");
            // The threads of a semaphore take turns locally. The thread with the turn waits for the servers.
            let nodes = subject.nodes(&path);
            println!("{}: {nodes:?}", subject.name);
            assert!(nodes.len() <= if subject.guards_the_object() { 1 } else { 3 }, "{nodes:?}");
            object.unlock().unwrap();
            assert_eq!(arrivals.order(), [0, 1, 2, 3], "{}", subject.name);
        });
    }
}
