//! Guarded writes that are on their way when their lock goes to somebody else, or have no answer.

use std::time::Duration;

use zoolock::{DistributedLock, Error, LockOptions, LossReason};
use zoolock_test_support::{Op, Then, fresh_path, shared_probe, wait_until};

use common::{
    SOON, Subject, Task, Visitor, assert_lost, await_resumed, client, client_of,
    every_subject_that, shared_proxy,
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
