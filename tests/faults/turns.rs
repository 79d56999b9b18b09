//! Threads of one object that replace each other in one transaction: it deletes the old node and creates the
//! next one, or does neither.

use std::time::Duration;

use zoolock_test_support::Op;

use common::{SOON, Scene, Subject, Visitor, await_nothing_left, every_subject_that, in_time};

/// No lease of this length ends during a test, and none needs a heartbeat.
const LONG: Duration = Duration::from_secs(60);

/// Limit of calls that wait for nothing.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A release in the background and the next thread's create are one request.
#[test]
fn background_release_waits_for_no_other_thread() {
    let is_one = |subject: Subject| {
        subject.has_a_first_level()
            && subject.has_a_directory()
            && subject.releases_in_the_background()
    };
    every_subject_that(is_one, |subject| {
        let scene = Scene::start(subject, "turn-background", LONG);
        let first = Visitor::start(scene.own.clone());
        first.comes_in();
        let next = Visitor::start_asleep(scene.own.clone());
        let held = scene.proxy.on(Op::Multi).path_contains(&scene.path).hold_request();
        in_time("unlock", AT_ONCE, || first.leaves());
        assert!(held.wait(SOON), "{}: {}", subject.name, scene.log());
        assert!(!next.is_in(), "{}", subject.name);
        held.release();
        next.comes_in();
        next.leaves();
        subject.await_nodes(&scene.path, 0);
        await_nothing_left(&scene.client);
        assert_eq!(scene.client.stats().holds_lost, 0, "{}", subject.name);
    });
}
