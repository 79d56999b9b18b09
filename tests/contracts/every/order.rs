//! Grants come in order of arrival.

use zoolock::Wait;
use zoolock_test_support::fresh_path;

use super::client;
use common::line::Line;
use common::{SOON, Subject, Task, every_subject_that};

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
        let mut line = Line::at(&path);
        for (number, client) in clients.iter().enumerate() {
            let object = match number % 2 {
                0 => subject.at(client, &path),
                _ => subject.rival(client, &path),
            };
            let wait = if number % 3 == 0 { Wait::within(SOON) } else { Wait::FOREVER };
            line.start(Task::spawn, object, wait);
            subject.await_waiting(&path, &[], number + 1);
        }
        assert_eq!(line.let_in(), 0, "in beside the holder");
        holder.unlock().unwrap();
        line.comes_in_order();
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
            let mut line = Line::at(&path);
            for _ in 0..4 {
                let object = if is_shared { object.clone() } else { subject.at(&client, &path) };
                line.start(Task::spawn_blocked, object, Wait::FOREVER);
            }
            assert_eq!(line.let_in(), 0, "in beside the holder");
            // The threads of a semaphore take turns locally. The thread with the turn waits for the servers.
            let nodes = subject.nodes(&path);
            println!("{}: {nodes:?}", subject.name);
            assert!(nodes.len() <= if subject.guards_the_object() { 1 } else { 3 }, "{nodes:?}");
            object.unlock().unwrap();
            line.comes_in_order();
        });
    }
}
