//! Missing events. Servers with the fix of CVE-2024-23944 send no event for a node to clients that are not allowed to
//! read it at that time. No call depends on an event alone: a missing one delays it by a few session timeouts at most.

use zoolock::{CancelToken, LockKind};

use super::*;
use crate::{SHORT, hide};

/// The longest time until a client checks again. It checks its holds every quarter of a session timeout.
const LOOK: Duration = SHORT.saturating_mul(4).saturating_add(Duration::from_secs(1));

/// Returns whether the scene's waiter watches this node, or its directory if it is a permit.
fn is_watched(scene: &Scene, node: &str) -> bool {
    let answer = match scene.subject.shown_as()[0] {
        LockKind::Semaphore => format!("< GetChildren {}", node.rsplit_once('/').unwrap().0),
        _ => format!("< GetData {node}"),
    };
    scene.log().contains(&answer)
}

/// Lists show unreadable nodes, but an unreadable node of an `EphemeralLock` shows nothing.
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

/// A request for watches does not reveal that a node is unreadable. Therefore, the first wait reads the node, and so
/// does the next wait after one that had to list again.
#[test]
fn waiter_is_denied_at_a_node_that_could_never_be_read() {
    let (path, others) = (fresh_path("unreadable"), client());
    let (proxy, own) = behind_a_proxy(SHORT);
    let (own, rival) = (lock_of(&own, &path), lock_of(&others, &path));
    // The directory is persistent, so the client keeps its record of it.
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
