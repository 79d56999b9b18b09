//! Signals that come at the wrong moment: none may be missed.

use zoolock_test_support::Hold;

use super::*;

/// A release comes while the read that sets the waiter's watch is held up, or its answer.
fn a_release_is_noticed_while(name: &str, held_up: impl FnOnce(&FaultProxy, &str) -> Hold) {
    let proxy = shared_proxy();
    let path = fresh_path(name);
    let (_first, ahead) = holder(&path);
    let behind = lock_of(&client_of(&proxy.connect_string(), SESSION), &path);
    let watch = held_up(&proxy, &path);
    let waiting = locking(&behind);
    assert!(watch.wait(SOON), "{:#?}", proxy.log());
    ahead.unlock().unwrap();
    watch.release();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}

/// The watch is set, and the waiter hears of it in the same moment as of the event.
#[test]
fn an_event_right_behind_the_answer_of_its_watch_is_not_missed() {
    a_release_is_noticed_while("overtaken", |proxy, path| {
        proxy.on(Op::GetData).path_contains(path).hold_answer()
    });
}

/// The waiter has seen the holder in the list.
#[test]
fn a_release_between_the_list_and_the_watch_is_not_missed() {
    a_release_is_noticed_while("between", |proxy, path| {
        proxy.on(Op::GetData).path_contains(path).hold_request()
    });
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
