//! Guarded writes that are on their way when their lock goes to somebody else, or have no answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{DistributedLock, Error, LockOptions, LossReason};
use zoolock_test_support::{Op, Then, fresh_path, shared_probe, wait_until};

use common::{
    SOON, Subject, Task, Visitor, assert_lost, await_resumed, client, client_of,
    every_subject_that, lock_of, shared_proxy,
};

/// No lease ends in it, however slow the machine is, but where it has to.
const LONG: Duration = Duration::from_secs(30);

fn node(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create(&path, b"old", false, false).unwrap();
    path
}

fn data(path: &str) -> String {
    let (data, _) = shared_probe().unwrap().get(path).unwrap().expect("it is there");
    String::from_utf8(data).unwrap()
}

/// How a lock goes to somebody else while its holder hears nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gone {
    Deleted,
    Expired,
}

#[test]
fn a_write_that_comes_when_somebody_else_has_the_lock_is_refused() {
    every_subject_that(
        |subject| subject.marker().is_some() && subject.is_one_lock(),
        |subject: Subject| {
            for gone in [Gone::Deleted, Gone::Expired] {
                let what = format!("{}, {gone:?}", subject.name);
                let (proxy, path, guarded) = (shared_proxy(), fresh_path("late"), node("guarded"));
                let own = client_of(&proxy.connect_string(), LONG);
                let (object, others) = (subject.at(&own, &path), client());
                let rival = subject.rival(&others, &path);
                object.lock().unwrap();
                let hold = object.hold();
                let on_its_way = proxy.hold_request(Op::Multi, 1);
                let write = hold.transaction().set(&guarded, "late", None);
                let commit = Task::spawn(move || write.commit());
                assert!(on_its_way.wait(LONG), "{what}");
                match gone {
                    Gone::Deleted => {
                        shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
                    }
                    Gone::Expired => drop(proxy.expire_sessions().unwrap()),
                }
                rival.lock().unwrap();
                rival.hold().transaction().set(&guarded, "new", None).commit().unwrap();
                on_its_way.release();
                let refused = commit.result(&what);
                println!("{what}: {refused:?}");
                match (gone, &refused) {
                    (Gone::Deleted, _) => {
                        assert_lost(&refused, hold.path(), LossReason::NodeDeleted);
                    }
                    // The server has hung up, which does not say why.
                    (Gone::Expired, Err(Error::Disconnected { .. } | Error::Lost { .. })) => {}
                    _ => panic!("{what}: {refused:?}"),
                }
                wait_until("it hears of its loss", SOON, || !hold.is_held());
                assert_eq!(data(&guarded), "new", "{what}");
                assert!(rival.is_held(), "{what}");
                rival.unlock().unwrap();
            }
        },
    );
}

/// With its node it would be carried out for whoever has the lock by then.
#[test]
fn nothing_is_left_to_another_thread_while_a_write_may_yet_be_carried_out() {
    let options = LockOptions::new;
    for (what, options, is_left) in [
        ("handed on", options().local_handoffs(8), true),
        ("kept", options().keep_idle(LONG), true),
        ("handed on, unanswered", options().local_handoffs(8), false),
        ("kept, unanswered", options().keep_idle(LONG), false),
    ] {
        let (proxy, guarded) = (shared_proxy(), node("guarded"));
        let own = client_of(&proxy.connect_string(), LONG);
        let lock = DistributedLock::with(&own, fresh_path("unanswered"), options).unwrap();
        let visitor = Visitor::start_asleep(lock.clone());
        let hold = visitor.hold();
        let next = Visitor::start_asleep(lock.clone());
        let write = hold.transaction().set(&guarded, "new", None);
        if is_left {
            write.commit().unwrap();
        } else {
            let lost = proxy.drop_answer(Op::Multi, 1, Then::Cut);
            let unknown = write.commit();
            println!("{what}: {unknown:?}");
            assert!(matches!(unknown, Err(Error::Disconnected { .. })), "{what}: {unknown:?}");
            assert!(lost.fired());
            await_resumed(&own, 1);
            hold.transaction().commit().unwrap();
        }
        visitor.leaves();
        let heir = next.hold();
        println!("{what}: {} and {}", hold.node(), heir.node());
        assert_eq!(heir.node() == hold.node(), is_left, "{what}");
        next.leaves();
    }
}

/// Whoever holds the lock writes its name and reads it again; those who had it before go on writing theirs, by
/// the holds that they had, over cuts.
#[test]
fn no_write_of_a_hold_that_is_over_is_carried_out_in_the_next_one_however_the_lock_goes_on() {
    let options = LockOptions::new;
    for (what, options) in [
        ("plain", options()),
        ("handed on", options().local_handoffs(8)),
        ("kept", options().keep_idle(LONG)),
        ("both", options().local_handoffs(2).keep_idle(LONG)),
        ("in the background", options().background_release(true)),
    ] {
        let (proxy, path, guarded) = (shared_proxy(), fresh_path("late-writes"), node("by"));
        let own = client_of(&proxy.connect_string(), LONG);
        let lock = DistributedLock::with(&own, &*path, options).unwrap();
        let rival = lock_of(&client(), &path);
        let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
        let [turns, late, unknown] = [(); 3].map(|()| AtomicU64::new(0));
        thread::scope(|scope| {
            for locks in [lock.clone(), lock.clone(), lock.clone(), rival] {
                let (own, guarded, stop, next) = (&own, &guarded, &stop, &next);
                let (turns, late, unknown) = (&turns, &late, &unknown);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        locks.lock().unwrap();
                        let hold = locks.hold().unwrap();
                        let name = next.fetch_add(1, Ordering::SeqCst).to_string();
                        let write = hold.transaction().set(guarded, &*name, None);
                        while let Err(error) = write.clone().commit() {
                            assert!(matches!(error, Error::Disconnected { .. }), "{error:?}");
                        }
                        for _ in 0..3 {
                            let read = loop {
                                match own.read(guarded) {
                                    Ok(read) => break read.unwrap().0,
                                    Err(error) => println!("{error}"),
                                }
                            };
                            if read != name.as_bytes() {
                                let read = String::from_utf8(read).unwrap();
                                panic!("{what}: {read} instead of {name}");
                            }
                        }
                        scope.spawn(move || {
                            loop {
                                match write.clone().commit() {
                                    Ok(()) => {}
                                    Err(Error::Disconnected { .. }) => {
                                        unknown.fetch_add(1, Ordering::SeqCst);
                                    }
                                    Err(error) => {
                                        late.fetch_add(1, Ordering::SeqCst);
                                        return error;
                                    }
                                }
                            }
                        });
                        locks.unlock().unwrap();
                        turns.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for times in 1..=12 {
                let seen = turns.load(Ordering::SeqCst);
                wait_until("turns go on", SOON, || turns.load(Ordering::SeqCst) >= seen + 20);
                proxy.cut();
                await_resumed(&own, times);
            }
            stop.store(true, Ordering::SeqCst);
        });
        println!(
            "{what}: {turns:?} turns, {late:?} refused, {unknown:?} unknown, {:?}",
            own.stats()
        );
    }
}
