//! Signals that come at the wrong moment: none may be missed.

use super::*;

/// A holder, and a client behind a proxy that is about to wait for it.
fn stage(name: &str) -> (FaultProxy, Client, DistributedLock, DistributedLock) {
    let proxy = shared_proxy();
    let path = fresh_path(name);
    let (first, ahead) = holder(&path);
    let behind = lock_of(&client_of(&proxy.connect_string(), SESSION), &path);
    (proxy, first, ahead, behind)
}

#[test]
fn an_event_right_behind_the_answer_of_its_watch_is_not_missed() {
    let (proxy, _first, ahead, behind) = stage("overtaken");
    let watch = proxy.on(Op::GetData).path_contains(behind.path()).hold_answer();
    let waiting = locking(&behind);
    // The watch is set; the waiter does not know yet.
    assert!(watch.wait(SOON), "{:#?}", proxy.log());
    ahead.unlock().unwrap();
    // It comes in the same moment as the event.
    watch.release();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}

#[test]
fn a_release_between_the_list_and_the_watch_is_not_missed() {
    let (proxy, _first, ahead, behind) = stage("between");
    let watch = proxy.on(Op::GetData).path_contains(behind.path()).hold_request();
    let waiting = locking(&behind);
    // It has seen the holder, whose node goes now.
    assert!(watch.wait(SOON), "{:#?}", proxy.log());
    ahead.unlock().unwrap();
    watch.release();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}

#[test]
fn that_its_own_node_went_between_the_list_and_the_watch_is_noticed() {
    let proxy = shared_proxy();
    let path = fresh_path("own-between");
    let (_first, ahead) = holder(&path);
    let second = client_of(&proxy.connect_string(), Duration::from_secs(4));
    let behind = lock_of(&second, &path);
    let watch = proxy.on(Op::GetData).path_contains(&path).hold_request();
    let waiting = locking(&behind);
    assert!(watch.wait(SOON), "{:#?}", proxy.log());
    let held = ahead.hold().unwrap().node();
    let own = || children(&path).into_iter().find(|node| *node != held);
    let old = own().unwrap();
    shared_probe().unwrap().delete(&format!("{path}/{old}")).unwrap();
    watch.release();
    wait_until("it has queued again", SOON, || own().is_some_and(|node| node != old));
    ahead.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}
