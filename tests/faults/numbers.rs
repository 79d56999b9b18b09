//! Turns without a list: sequence numbers prove that nobody else has queued. When a fault makes the numbers
//! worthless, the client lists again.

use std::time::Duration;

use zoolock_test_support::{Op, Then, wait_until};

use common::{SOON, Scene, Subject, await_resumed, every_subject_that};

/// No lease of this length ends during a test, even on a slow machine.
const LONG: Duration = Duration::from_secs(30);

fn lists(scene: &Scene) -> u64 {
    scene.proxy.requests(Op::GetChildren)
}

/// Takes a turn whose node is gone at the return.
fn turn(scene: &Scene) {
    scene.own.lock().unwrap();
    scene.own.unlock().unwrap();
    scene.subject.await_nodes(&scene.path, 0);
}

/// Clients that take turns without a list by now.
fn every_warm(name: &str, contract: impl Fn(Scene) + Sync) {
    let is_one = |subject: Subject| {
        let [_, _, lists, ..] = subject.cost_of_a_cycle();
        subject.has_a_directory() && subject.goes_with_its_unlock() && lists == 0
    };
    every_subject_that(is_one, |subject| {
        let scene = Scene::start(subject, name, LONG);
        wait_until("no list is asked for", SOON, || {
            let before = lists(&scene);
            turn(&scene);
            before == lists(&scene)
        });
        contract(scene);
    });
}

/// Its node may still exist, and the client remembers it.
#[test]
fn turn_after_an_unanswered_delete_lists_again() {
    every_warm("unanswered", |scene| {
        let lost = scene.proxy.on(Op::Delete).path_contains(&scene.path).drop_answer(Then::Cut);
        turn(&scene);
        assert!(lost.wait(SOON), "{:#?}", scene.proxy.log());
        await_resumed(&scene.client, 1);
        let before = lists(&scene);
        turn(&scene);
        assert!(lists(&scene) > before, "{}", scene.subject.name);
    });
}
