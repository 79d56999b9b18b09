//! Turns without a list, because the numbers of the nodes show that no other contender has come.
//! Events that make the numbers worthless are noticed, and then the client lists again.

use std::time::Duration;

use zoolock_test_support::{Op, Then, wait_until};

use common::{SOON, Scene, Subject, await_resumed, every_subject_that};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);

fn lists(scene: &Scene) -> u64 {
    scene.proxy.requests(Op::GetChildren)
}

/// Its node has gone when this returns.
fn turn(scene: &Scene) {
    scene.own.lock().unwrap();
    scene.own.unlock().unwrap();
    scene.subject.await_nodes(&scene.path, 0);
}

/// Clients whose turns take no list any more.
fn every_warm(name: &str, contract: impl Fn(Scene) + Sync) {
    let is_one = |subject: Subject| subject.has_a_directory() && subject.goes_with_its_unlock();
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

/// Its node may be there still, and is not forgotten.
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
