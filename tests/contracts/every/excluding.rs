//! Which clients, objects and threads exclude each other, and in which order they acquire a lock.

use zoolock::Wait;

use super::Pair;
use common::line::Line;
use common::*;

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
