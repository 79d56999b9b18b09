//! Which clients, objects and threads exclude each other.

use std::sync::{Arc, Barrier};
use std::thread;

use zoolock::{DistributedLock, DistributedReentrantLock, DistributedRwLock, Error, Lock, Result};
use zoolock_test_support::fresh_path;

use super::client;
use common::{Object, Subject, Task, every_subject, every_subject_that};

/// Tries on another thread, which owns nothing.
#[track_caller]
fn tries_elsewhere(object: &Object) -> Result<bool> {
    let object = object.clone();
    Task::spawn(move || object.try_lock()).result("a try on another thread")
}

/// Threads of several objects try at once, and no winner leaves before all have tried.
#[test]
fn exactly_one_of_many_tries_succeeds() {
    const CROWD: usize = 12;
    every_subject_that(Subject::is_exclusive, |subject| {
        let clients = [client(), client()];
        let path = fresh_path("one_try");
        let objects: Vec<_> = (0..4).map(|n| subject.at(&clients[n % 2], &path)).collect();
        let barriers = Arc::new([Barrier::new(CROWD), Barrier::new(CROWD)]);
        let tries = (0..CROWD).map(|number| {
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
        let tries: Vec<_> = tries.iter().map(|t| t.result("a try")).collect();
        let succeeded = tries.iter().filter(|t| matches!(t, Ok(true))).count();
        let failed = tries.iter().filter(|t| matches!(t, Ok(false))).count();
        println!("{}: {succeeded} of {CROWD} tries succeeded", subject.name);
        assert_eq!((succeeded, failed), (1, CROWD - 1), "{}: {tries:?}", subject.name);
    });
}

#[test]
fn clones_share_a_hold_and_other_objects_are_rivals() {
    every_subject(|subject| {
        let [ours, others] = [client(), client()];
        let path = fresh_path("objects");
        let object = subject.at(&ours, &path);
        let clone = object.clone();
        object.lock().unwrap();
        assert!(clone.is_held());
        assert_eq!(clone.hold().node(), object.hold().node());
        for rival in [subject.rival(&ours, &path), subject.rival(&others, &path)] {
            for tried in [rival.try_lock(), tries_elsewhere(&rival)] {
                assert!(matches!(tried, Ok(false)), "{}: {tried:?}", subject.name);
            }
            assert!(!rival.is_held() && rival.unlock().is_err());
            assert!(object.is_held() && clone.is_held());
        }
        // Subjects of a shared kind do not exclude their like.
        let like = tries_elsewhere(&subject.at(&others, &path));
        println!("{}: one like it beside it: {like:?}", subject.name);
        assert_eq!(like.unwrap(), !subject.is_exclusive());
        clone.unlock().unwrap();
        assert!(!object.is_held());
    });
}

#[test]
fn queueing_locks_of_all_types_exclude_each_other_on_one_path() {
    let client = client();
    let path = fresh_path("types");
    let rw = DistributedRwLock::new(&client, &path).unwrap();
    let locks: [Arc<dyn Lock>; 4] = [
        Arc::new(DistributedLock::new(&client, &path).unwrap()),
        Arc::new(DistributedReentrantLock::new(&client, &path).unwrap()),
        Arc::new(rw.write_lock()),
        Arc::new(rw.read_lock()),
    ];
    for holder in &locks {
        holder.lock().unwrap();
        for other in &locks {
            let trying = Arc::clone(other);
            let tried = thread::spawn(move || match trying.try_lock()? {
                true => trying.unlock().map(|()| true),
                false => Ok::<_, Error>(false),
            });
            let tried = tried.join().unwrap().unwrap();
            println!("{other:?} beside {holder:?}: {tried}");
            let two_reads = Arc::ptr_eq(holder, other) && Arc::ptr_eq(other, &locks[3]);
            assert_eq!(tried, two_reads, "{other:?} beside {holder:?}");
        }
        holder.unlock().unwrap();
    }
}
