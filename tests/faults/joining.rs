//! Getting a place while answers are lost and sessions end.

use zoolock_test_support::{Op, Then, fresh_path, shared_probe, wait_until};

use common::line::{Line, has_one_node_until_unlocked};
use common::{
    SESSION, SOON, Task, TwoWays, await_resumed, children, client, client_of, lock_of, place,
    shared_proxy,
};

#[test]
fn a_node_whose_answer_was_lost_is_found_and_keeps_its_place() {
    let path = fresh_path("found");
    let holders = client();
    let held = lock_of(&holders, &path);
    held.lock().unwrap();
    for then in [Then::Cut, Then::Hold] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let lost = proxy.on(Op::Create).path_contains(&path);
        let lost = lost.drop_answer(then);
        // The client must not be back before the next one is queued.
        proxy.refuse(true);
        let mut line = Line::at(&path);
        line.join(&client);
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        line.join(&holders);
        let before = children(&path);
        assert_eq!(before.len(), 3, "{before:?}");
        proxy.cut();
        proxy.refuse(false);
        let took = await_resumed(&client, 1);
        wait_until("it watches the one ahead", SOON, || proxy.requests(Op::GetData) > 0);
        println!("{then:?}: {before:?} {took:?} after the cut, {:?}", client.stats());
        assert_eq!(children(&path), before);
        assert!(!line.is_let_in());
        held.unlock().unwrap();
        line.comes_in_order();
        assert_eq!(children(&path), [""; 0]);
        assert_eq!(client.stats().sessions, 1);
        held.lock().unwrap();
    }
}

#[test]
fn nothing_of_a_session_that_expired_before_the_answer_is_adopted() {
    let path = fresh_path("expired");
    shared_probe().unwrap().create_all(&path).unwrap();
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let lost = proxy.on(Op::Create).path_contains(&path);
    let lost = lost.drop_answer(Then::Hold);
    let lock = lock_of(&client, &path);
    let locking = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    assert!(lost.wait(SOON), "{:#?}", proxy.log());
    let old = children(&path);
    assert_eq!(old.len(), 1, "{:#?}", proxy.log());
    let ended = proxy.expire_sessions().unwrap();
    assert_eq!(children(&path), [""; 0], "{ended} sessions ended");
    assert!(!locking.is_done(), "it was never told that it has the lock");
    proxy.cut();
    locking.result("lock()").unwrap();
    let node = lock.hold().unwrap().node();
    println!("{ended} sessions ended, {old:?} went, {node} came; {:?}", client.stats());
    assert_ne!(old, [node]);
    assert_eq!((client.stats().resumed, client.stats().sessions), (0, 2));
    has_one_node_until_unlocked(&lock);
    wait_until("nothing is left to delete", SOON, || client.stats().deleting == 0);
}

#[test]
fn a_node_that_was_found_as_its_session_expired_is_not_adopted() {
    let path = fresh_path("found-expired");
    shared_probe().unwrap().create_all(&path).unwrap();
    let ways = TwoWays::start(SESSION);
    let lost = ways.first.on(Op::Create).path_contains(&path);
    let lost = lost.drop_answer(Then::Hold);
    let finding = ways.second.on(Op::GetChildren).path_contains(&path);
    let finding = finding.hold_answer();
    let lock = lock_of(&ways.client, &path);
    let locking = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    assert!(lost.wait(SOON), "{}", ways.log());
    let old = children(&path).pop().expect("its node");
    ways.leave_the_first();
    assert!(finding.wait(SOON), "it was looked for: {}", ways.log());
    ways.first.expire_sessions().unwrap();
    assert_eq!(children(&path), [""; 0]);
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    rival.lock().unwrap();
    let own = rival.hold().unwrap().node();
    // It comes, but its connection ends right behind it.
    finding.release();
    let mut new = String::new();
    wait_until("it has queued behind the rival", SOON, || {
        let mut others = children(&path);
        others.retain(|node| *node != own && place(node) > place(&own));
        new = others.pop().unwrap_or_default();
        !new.is_empty() && children(&path).len() == 2
    });
    println!("{old}, then {own} of the rival, then {new}; {:?}", ways.client.stats());
    assert!(rival.is_held() && !locking.is_done());
    rival.unlock().unwrap();
    locking.result("lock()").unwrap();
    assert_eq!(ways.client.stats().sessions, 2);
    has_one_node_until_unlocked(&lock);
}
