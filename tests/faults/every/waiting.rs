//! Waiters whose whole directory is deleted.

use zoolock_test_support::Direction;

use super::*;
use common::{await_resumed, client, every_subject_that, place};

/// The nodes created since `before`, oldest first.
fn since(subject: Subject, path: &str, before: &[String]) -> Vec<String> {
    let mut nodes = subject.nodes(path);
    nodes.retain(|node| !before.contains(node));
    nodes.sort_by_key(|node| place(node).to_owned());
    nodes
}

#[test]
fn waiter_queues_again_when_its_directory_is_deleted() {
    every_subject_that(Subject::queues, |subject| {
        for cut_off in [false, true] {
            let what = format!("{}, cut off: {cut_off}", subject.name);
            let scene = Scene::start(subject, "waiting", LONG);
            scene.rival.lock().unwrap();
            let held = scene.nodes();
            let waiter = Visitor::start(scene.own.clone());
            let watches =
                || [Op::SetWatches, Op::GetData].map(|op| scene.proxy.requests(op)) > [0; 2];
            wait_until("it watches the one ahead", SOON, watches);
            subject.await_nodes(&scene.path, subject.nodes_with_waiters(1));
            // All nodes go before the waiter can look.
            match cut_off {
                false => scene.proxy.black_hole(Direction::ToServer),
                true => {
                    scene.proxy.cut_off();
                }
            }
            let old = since(subject, &scene.path, &held);
            delete_all(&scene.path);
            // A client that does not hold the lock. Its holder learns of the deletion later.
            let other = subject.rival(&client(), &scene.path);
            if cut_off {
                // Another client has taken the waiter's position in the new directory.
                other.lock().unwrap();
            }
            scene.proxy.restore();
            if cut_off {
                await_resumed(&scene.client, 1);
                wait_until("it is queued anew", SOON, || scene.nodes().len() > held.len());
                assert!(!waiter.is_in() && other.is_held(), "{what}");
                other.unlock().unwrap();
            }
            waiter.comes_in();
            let new = subject.await_nodes(&scene.path, subject.nodes_of_one());
            println!("{what}: {old:?} became {new:?}");
            assert!(new.iter().all(|node| !old.contains(node)), "{what}");
            waiter.leaves();
            drop(scene.rival.unlock());
            scene.leaves_nothing(&what);
            assert_eq!(scene.client.stats().sessions, 1, "{what}");
        }
    });
}
