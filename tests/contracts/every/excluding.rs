//! Which clients, objects and threads exclude each other, and in which order they acquire a lock.

use std::sync::{Arc, Barrier};

use zoolock::Wait;

use super::{Pair, client};
use common::line::Line;
use common::*;

/// Threads with several objects call `try_lock` at the same time, and the winner keeps the lock until all have tried.
#[test]
fn exactly_one_of_many_tries_succeeds() {
    const CALLERS: usize = 12;
    every_subject_that(Subject::is_exclusive, |subject| {
        let (clients, path) = ([client(), client()], fresh_path("one_try"));
        let objects: Vec<_> = (0..4).map(|n| subject.at(&clients[n % 2], &path)).collect();
        let barriers = Arc::new([Barrier::new(CALLERS), Barrier::new(CALLERS)]);
        let tries = (0..CALLERS).map(|number| {
            let (object, barriers) = (objects[number % 4].clone(), Arc::clone(&barriers));
            Task::spawn(move || {
                barriers[0].wait();
                let locked = object.try_lock();
                barriers[1].wait();
                if matches!(locked, Ok(true)) {
                    object.unlock().unwrap();
                }
                locked
            })
        });
        let tries: Vec<_> = tries.collect();
        let succeeded = tries.iter().filter(|one| one.result("a try").unwrap()).count();
        assert_eq!(succeeded, 1, "{}", subject.name);
    });
}

#[test]
fn clones_share_a_hold_and_other_objects_are_rivals() {
    every_subject(|subject| {
        let Pair { ours, others, path, object, rival } = Pair::of(subject, "objects", SOON);
        let clone = object.clone();
        object.lock().unwrap();
        assert!(clone.is_held());
        assert_eq!(clone.hold().node(), object.hold().node());
        for rival in [subject.rival(&ours, &path), rival] {
            for tried in [rival.try_lock(), rival.elsewhere(|rival| rival.try_lock())] {
                assert!(matches!(tried, Ok(false)), "{}: {tried:?}", subject.name);
            }
            assert!(!rival.is_held() && rival.unlock().is_err());
            assert!(object.is_held() && clone.is_held());
        }
        // Readers share the lock with other readers; objects of all other subjects exclude each other.
        let like = subject.at(&others, &path).elsewhere(|like| like.try_lock());
        println!("{}: one like it beside it: {like:?}", subject.name);
        assert_eq!(like.unwrap(), !subject.is_exclusive());
        clone.unlock().unwrap();
        assert!(!object.is_held());
    });
}

/// Every second visitor is a rival, because two readers next to each other in the queue would share the lock.
#[test]
fn clients_enter_in_order_of_arrival() {
    every_subject_that(Subject::queues, |subject| {
        let clients = [(); 6].map(|()| client());
        let path = fresh_path("arrival");
        let holder = subject.rival(&client(), &path);
        holder.lock().unwrap();
        // The turn node of a semaphore is deleted only after the grant.
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
        assert_eq!(line.let_in(), 0, "acquired beside the holder");
        holder.unlock().unwrap();
        line.comes_in_order();
    });
}

/// The threads share one object, or each has its own.
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
            assert_eq!(line.let_in(), 0, "acquired beside the holder");
            // A semaphore's threads queue in their process; only the first of them has nodes on the servers.
            let nodes = subject.nodes(&path);
            println!("{}: {nodes:?}", subject.name);
            assert!(nodes.len() <= if subject.guards_the_object() { 1 } else { 3 }, "{nodes:?}");
            object.unlock().unwrap();
            line.comes_in_order();
        });
    }
}
