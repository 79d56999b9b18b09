//! Missing events: servers with the fix of CVE-2024-23944 send events of a node only to clients
//! that may read it by then. No code relies on events alone, so a missing event costs a few session
//! timeouts, and no more.

use zookeeper::{Acl, Permissions, ZooKeeper};
use zoolock::{HoldState, Kind, LossReason};
use zoolock_test_support::connect_string;

use super::*;
use common::{await_lost, every_subject, every_subject_that, in_time};

/// The shortest that a busy machine does not end.
const T: Duration = Duration::from_secs(4);

/// So long is a look away at most, and a client looks after its holds each quarter of a session
/// timeout.
const LOOK: Duration = T.saturating_mul(4).saturating_add(Duration::from_secs(1));

/// Somebody who may change what others may do.
struct Operator(ZooKeeper);

impl Operator {
    fn connect() -> Operator {
        Operator(ZooKeeper::connect(&connect_string(), LONG).unwrap())
    }

    fn set(&self, path: &str, permissions: Permissions) {
        let acl = [Acl::new(permissions, "world", "anyone")];
        self.0.set_acl(path, &acl, None).unwrap();
    }

    /// Nobody may read this from now on.
    fn hide(&self, path: &str) {
        let others = Permissions::WRITE | Permissions::CREATE | Permissions::DELETE;
        self.set(path, others | Permissions::ADMIN);
    }

    fn show(&self, path: &str) {
        self.set(path, Permissions::ALL);
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.close();
    }
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

/// Has the scene's waiter been told that it watches this node? Of a permit it is the directory.
fn is_watched(scene: &Scene, node: &str) -> bool {
    let answer = match scene.subject.shown_as()[0] {
        Kind::Permit => format!("< GetChildren {}", above(node)),
        _ => format!("< GetData {node}"),
    };
    scene.log().contains(&answer)
}

#[test]
fn waiter_looks_again_without_an_event() {
    every_subject(|subject| {
        let (scene, operator) = (Scene::start(subject, "untold", T), Operator::connect());
        scene.rival.lock().unwrap();
        // The turn for a permit is deleted behind the grant.
        let held = subject.await_nodes(&scene.path, subject.nodes_of_one());
        let waiter = Visitor::start(scene.own.clone());
        let watches = || held.iter().any(|node| is_watched(&scene, node));
        wait_until("it watches what is ahead", SOON, watches);
        held.iter().for_each(|node| operator.hide(node));
        held.iter().for_each(|node| operator.hide(above(node)));
        scene.rival.unlock().unwrap();
        held.iter().for_each(|node| operator.show(above(node)));
        in_time(subject.name, LOOK, || waiter.comes_in());
        waiter.leaves();
        scene.leaves_nothing("a release that was not told");
    });
}

#[test]
fn holder_looks_again_without_an_event() {
    every_subject_that(Subject::is_plain, |subject| {
        let (scene, operator) = (Scene::start(subject, "untold", T), Operator::connect());
        scene.own.lock().unwrap();
        let hold = scene.own.hold();
        let node = subject.holding(&scene.path).remove(0);
        let _asked = hold.revocation().unwrap();
        let watches = format!("< GetData {node}");
        wait_until("its node is watched", SOON, || scene.log().contains(&watches));
        operator.hide(&node);
        shared_probe().unwrap().delete(&node).unwrap();
        in_time(subject.name, LOOK, || await_lost(&hold));
        assert_eq!(hold.state(), HoldState::Lost(LossReason::NodeDeleted), "{}", subject.name);
        assert!(scene.own.unlock().is_err_and(|error| error.is_lost()), "{}", subject.name);
        scene.leaves_nothing("an end that was not told");
    });
}

/// A list shows what may not be read; of a single node nothing can be seen.
#[test]
fn waiter_that_may_not_read_the_node_ahead_polls_or_is_denied() {
    let is_one = |subject: Subject| subject.is_plain() && subject.is_one_lock();
    every_subject_that(is_one, |subject| {
        let (scene, operator, name) =
            (Scene::start(subject, "untold", T), Operator::connect(), subject.name);
        scene.rival.lock().unwrap();
        let held = subject.await_nodes(&scene.path, subject.nodes_of_one()).remove(0);
        let waiter = Visitor::start(scene.own.clone());
        wait_until("it watches what is ahead", SOON, || is_watched(&scene, &held));
        operator.hide(&held);
        if !subject.queues() {
            let refused = waiter.result();
            println!("{name}: {refused:?}");
            assert!(says(refused, |error| matches!(error, Error::Denied { .. })), "{name}");
            return scene.rival.unlock().unwrap();
        }
        let lists = scene.proxy.requests(Op::GetChildren);
        in_time(name, LOOK, || {
            let looks = || scene.proxy.requests(Op::GetChildren) > lists;
            wait_until("it looks again", SOON, looks);
        });
        assert!(!waiter.is_in() && scene.rival.is_held(), "{name}: two at once");
        scene.rival.unlock().unwrap();
        in_time(name, LOOK, || waiter.comes_in());
        waiter.leaves();
        scene.leaves_nothing("a node ahead that may not be read");
    });
}
