//! Missing events. Servers with the fix of CVE-2024-23944 do not send the event of a node to clients that may not read
//! the node at that time. No call depends on events alone: a missing event delays it by a few session timeouts at most.

use zoolock::{CancelToken, LockKind};

use super::*;
use crate::{SHORT, hide};

/// The longest time until a waiter checks again. A client checks its holds every quarter of a session timeout.
const LOOK: Duration = SHORT.saturating_mul(4).saturating_add(Duration::from_secs(1));

/// Returns whether the scene's waiter watches this node, or, for a permit, the directory of the node.
fn is_watched(scene: &Scene, node: &str) -> bool {
    let answer = match scene.subject.shown_as()[0] {
        LockKind::Semaphore => format!("< GetChildren {}", node.rsplit_once('/').unwrap().0),
        _ => format!("< GetData {node}"),
    };
    scene.log().contains(&answer)
}

/// A list contains unreadable nodes, so waiters can poll. An `EphemeralLock` has no list, so its waiters are denied.
#[test]
fn waiter_without_read_permission_polls_or_is_denied() {
    let is_one = |subject: Subject| subject.is_plain() && subject.is_one_lock();
    every_subject_that(is_one, |subject| {
        let (scene, name) = (Scene::start(subject, "untold", SHORT), subject.name);
        scene.rival.lock().unwrap();
        let held = subject.await_nodes(&scene.path, subject.nodes_of_one()).remove(0);
        let waiter = Visitor::start(scene.own.clone());
        wait_until("it watches what is ahead", SOON, || is_watched(&scene, &held));
        hide(&held);
        if !subject.queues() {
            let refused = waiter.result();
            println!("{name}: {refused:?}");
            assert!(
                says(refused, |error| matches!(error, Error::PermissionDenied { .. })),
                "{name}"
            );
            return scene.rival.unlock().unwrap();
        }
        let lists = scene.proxy.requests(Op::GetChildren);
        in_time(name, LOOK, || {
            let looks = || scene.proxy.requests(Op::GetChildren) > lists;
            wait_until("it lists again", SOON, looks);
        });
        assert!(!waiter.is_in() && scene.rival.is_held(), "{name}: two holders");
        scene.rival.unlock().unwrap();
        in_time(name, LOOK, || waiter.comes_in());
        waiter.leaves();
        scene.leaves_nothing("a node ahead that may not be read");
    });
}

/// A request to set watches does not reveal that a node is unreadable. Therefore, the first wait also reads the node,
/// and so does each wait that follows one that had to list again.
#[test]
fn waiter_is_denied_at_a_node_that_could_never_be_read() {
    let (path, others) = (fresh_path("unreadable"), client());
    let (proxy, own) = behind_a_proxy(SHORT);
    let (own, rival) = (lock_of(&own, &path), lock_of(&others, &path));
    // This directory is persistent, so what the client has recorded about it remains valid.
    shared_probe().unwrap().create_all(&path).unwrap();
    let hides = || {
        rival.lock().unwrap();
        hide(&format!("{path}/{}", children(&path)[0]));
    };
    let is_denied = |what: &str| {
        let refused = own.lock_within(SHORT);
        println!("{what}: {refused:?}");
        assert!(matches!(refused, Err(Error::PermissionDenied { .. })), "{what}: {refused:?}");
    };
    hides();
    is_denied("at first");
    rival.unlock().unwrap();
    rival.lock().unwrap();
    assert!(!own.lock_within(BRIEFLY).unwrap(), "the node is readable");
    rival.unlock().unwrap();
    hides();
    let sent = |op| proxy.requests(op);
    let watches = sent(Op::SetWatches);
    let token = CancelToken::new();
    let waiting = locking_by(&own, &token);
    wait_until("it watches", SOON, || sent(Op::SetWatches) > watches);
    let lists = sent(Op::GetChildren);
    in_time("a list", LOOK, || wait_until("it lists", SOON, || sent(Op::GetChildren) > lists));
    token.cancel();
    assert!(waiting.result("a waiter").is_err());
    is_denied("after a list");
    rival.unlock().unwrap();
}
