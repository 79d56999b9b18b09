//! Who hears of it when a holder is asked, and how often.

use zoolock::Client;
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::{REVOKE, contender_of, ends, every_hold, is_asked, is_not_asked, node_of};
use common::basics::await_nodes;
use common::{SESSION, SOON, Task, await_resumed, client, client_of, lock_of, shared_proxy};

/// Waits until the client has had an event more, and a request behind it.
fn await_event(client: &Client, before: zoolock::Stats) {
    wait_until("the event was seen to", SOON, || {
        let now = client.stats();
        now.events > before.events && now.requests > before.requests
    });
}

#[test]
fn every_hold_hears_of_it_when_asked_after_it_listens() {
    let (own, other) = (client(), client());
    for held in every_hold(&own) {
        let what = held.what;
        let asked: Vec<_> = held.holds.iter().map(|h| h.revocation().unwrap()).collect();
        for (number, hold) in held.holds.iter().enumerate() {
            is_not_asked(&asked[number], what);
            let contender = contender_of(&other, hold);
            other.revoke(&contender).unwrap();
            is_asked(&asked[number], what);
            // Nobody else was meant.
            for later in &asked[number + 1..] {
                is_not_asked(later, what);
            }
            assert!(hold.is_held(), "{what}: it is up to the holder");
        }
        println!("{what}: asked, {:?}", held.holds);
        (held.release)().unwrap();
        asked.iter().for_each(|asked| ends(asked, what));
    }
}

#[test]
fn every_hold_hears_of_it_when_asked_before_it_listens() {
    let (own, other) = (client(), client());
    for held in every_hold(&own) {
        let what = held.what;
        for hold in &held.holds {
            other.revoke(&contender_of(&other, hold)).unwrap();
            is_asked(&hold.revocation().unwrap(), what);
            // Also who comes later still.
            is_asked(&hold.revocation().unwrap(), what);
        }
        println!("{what}: asked, {:?}", held.holds);
        (held.release)().unwrap();
    }
}

#[test]
fn raw_data_written_by_anybody_ask_every_hold() {
    let own = client();
    let probe = shared_probe().unwrap();
    for held in every_hold(&own) {
        for hold in &held.holds {
            let asked = hold.revocation().unwrap();
            probe.set(&node_of(&own, hold), REVOKE).unwrap();
            is_asked(&asked, held.what);
            // Once more is one message more.
            probe.set(&node_of(&own, hold), REVOKE).unwrap();
            is_asked(&asked, held.what);
        }
        (held.release)().unwrap();
    }
}

#[test]
fn other_data_are_no_request_and_harm_nobody() {
    let (own, other) = (client(), client());
    let probe = shared_probe().unwrap();
    for held in every_hold(&own) {
        for hold in &held.holds {
            let asked = hold.revocation().unwrap();
            let node = node_of(&own, hold);
            let long = vec![b'x'; 500 * 1000];
            let revoke = [&b"__revoke__"[..], b"__REVOKE__\n", b"", b"\xff", &long];
            for data in revoke {
                let before = own.stats();
                // Again and again, since the watch may not be set yet.
                wait_until("the event was seen to", SOON, || {
                    probe.set(&node, data).unwrap();
                    let now = own.stats();
                    now.events > before.events && now.requests > before.requests
                });
                is_not_asked(&asked, held.what);
            }
            assert!(hold.is_held(), "{}: {hold:?}", held.what);
            other.revoke(&contender_of(&other, hold)).unwrap();
            is_asked(&asked, held.what);
        }
        (held.release)().unwrap();
        println!("{}: released", held.what);
    }
}

#[test]
fn every_listener_hears_of_it_in_every_thread() {
    let (own, other) = (client(), client());
    let guard = lock_of(&own, &fresh_path("listeners")).acquire().unwrap();
    let listeners: Vec<_> = (0..5)
        .map(|_| {
            let asked = guard.hold().revocation().unwrap();
            Task::spawn(move || (asked.recv_timeout(SOON), asked.recv_timeout(SOON)))
        })
        .collect();
    let unread = guard.revocation().unwrap();
    other.revoke(&contender_of(&other, &guard)).unwrap();
    is_asked(&guard.revocation().unwrap(), "a late one");
    guard.release().unwrap();
    for listener in listeners {
        let (first, then) = listener.result("a listener");
        assert_eq!(first, Ok(()));
        assert!(then.is_err_and(|error| error.is_disconnected()), "{then:?}");
    }
    assert_eq!(unread.recv(), Ok(()), "kept for who has not looked");
    ends(&unread, "unread");
}

#[test]
fn a_waiter_that_was_asked_hears_of_it_when_it_holds() {
    for cut in [false, true] {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let other = client();
        let path = fresh_path("asked-waiter");
        let ahead = lock_of(&other, &path).acquire().unwrap();
        let lock = lock_of(&own, &path);
        let waiter = Task::spawn(move || lock.acquire());
        await_nodes(&path, 2);
        let waiting = other.contenders(&path).unwrap().pop().unwrap();
        assert!(!waiting.holds);
        other.revoke(&waiting).unwrap();
        if cut {
            proxy.cut();
            await_resumed(&own, 1);
        }
        ahead.release().unwrap();
        let guard = waiter.result("the waiter").unwrap();
        is_asked(&guard.revocation().unwrap(), "who had waited");
        println!("cut {cut}: {guard:?}");
        guard.release().unwrap();
    }
}

#[test]
fn a_request_to_the_one_ahead_wakes_its_successor_for_nothing() {
    let (own, other) = (client(), client());
    let path = fresh_path("successor");
    let ahead = lock_of(&own, &path).acquire().unwrap();
    let lock = lock_of(&other, &path);
    let waiter = Task::spawn(move || lock.acquire().and_then(|guard| guard.release()));
    await_nodes(&path, 2);
    let asked = ahead.revocation().unwrap();
    for _ in 0..3 {
        let before = other.stats();
        own.revoke(&contender_of(&own, &ahead)).unwrap();
        is_asked(&asked, "the holder");
        await_event(&other, before);
        assert!(!waiter.is_done(), "the waiter was let in");
    }
    ahead.release().unwrap();
    waiter.result("the waiter").unwrap();
}
