//! Missing events. Servers with the fix of CVE-2024-23944 send no event of a node to clients that may not
//! read it by then. No call relies on an event alone: a missing one costs a few session timeouts and no more.

use zoolock::{CancelToken, Kind};

use super::*;
use crate::{SHORT, hide};

/// The longest time until the next look. A client checks its holds each quarter of a session timeout.
const LOOK: Duration = SHORT.saturating_mul(4).saturating_add(Duration::from_secs(1));

/// Whether the scene's waiter watches this node. For a permit that is the directory.
fn is_watched(scene: &Scene, node: &str) -> bool {
    let answer = match scene.subject.shown_as()[0] {
        Kind::Permit => format!("< GetChildren {}", node.rsplit_once('/').unwrap().0),
        _ => format!("< GetData {node}"),
    };
    scene.log().contains(&answer)
}

/// A list shows unreadable nodes, but an unreadable single node shows nothing.
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
            wait_until("it looks again", SOON, looks);
        });
        assert!(!waiter.is_in() && scene.rival.is_held(), "{name}: two at once");
        scene.rival.unlock().unwrap();
        in_time(name, LOOK, || waiter.comes_in());
        waiter.leaves();
        scene.leaves_nothing("a node ahead that may not be read");
    });
}

/// A request for watches does not show that a node may not be read. So the first wait reads, and so does the
/// next after one that had to look.
#[test]
fn waiter_is_denied_at_a_node_that_could_never_be_read() {
    let (path, others) = (fresh_path("unreadable"), client());
    let (proxy, own) = behind_a_proxy(SHORT);
    let (own, rival) = (lock_of(&own, &path), lock_of(&others, &path));
    // A directory that stays, and so does what is known of it.
    shared_probe().unwrap().create_all(&path).unwrap();
    let hides = || {
        rival.lock().unwrap();
        hide(&format!("{path}/{}", children(&path)[0]));
    };
    let is_denied = |what: &str| {
        let refused = own.try_lock_for(SHORT);
        println!("{what}: {refused:?}");
        assert!(matches!(refused, Err(Error::PermissionDenied { .. })), "{what}: {refused:?}");
    };
    hides();
    is_denied("at first");
    rival.unlock().unwrap();
    rival.lock().unwrap();
    assert!(!own.try_lock_for(BRIEFLY).unwrap(), "a node that may be read");
    rival.unlock().unwrap();
    hides();
    let sent = |op| proxy.requests(op);
    let watches = sent(Op::SetWatches);
    let token = CancelToken::new();
    let waiting = locking_by(&own, &token);
    wait_until("it watches", SOON, || sent(Op::SetWatches) > watches);
    let lists = sent(Op::GetChildren);
    in_time("a look", LOOK, || wait_until("it looks", SOON, || sent(Op::GetChildren) > lists));
    token.cancel();
    assert!(waiting.result("a waiter").is_err());
    is_denied("after a look");
    rival.unlock().unwrap();
}
