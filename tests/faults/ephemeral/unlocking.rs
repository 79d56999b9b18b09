//! Unlocking whatever the network does: in time, and never somebody else's node.

use zoolock_test_support::{Op, Rule, Then};

use super::*;
use common::{in_time, warnings};

fn lost_delete(proxy: &FaultProxy, answer_only: bool, then: Then) -> Rule {
    match answer_only {
        true => proxy.drop_answer(Op::Delete, 1, then),
        false => proxy.drop_request(Op::Delete, 1, then),
    }
}

#[test]
fn an_unlock_whose_delete_or_answer_is_lost_returns_in_time_and_the_node_goes() {
    for (answer_only, then) in
        [(true, Then::Cut), (true, Then::Hold), (false, Then::Cut), (false, Then::Hold)]
    {
        let proxy = shared_proxy();
        let session = Duration::from_secs(6);
        let client = client_of(&proxy.connect_string(), session);
        let path = fresh_path("lost-delete");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let lost = lost_delete(&proxy, answer_only, then);
        let what = format!("answer only: {answer_only}, then {then:?}");
        in_time(&what, session / 3 + Duration::from_secs(1), || lock.unlock()).unwrap();
        assert!(lost.fired(), "{:#?}", proxy.log());
        assert!(!lock.is_held());
        let begun = Instant::now();
        let locked = lock.try_lock_for(SOON);
        println!("{what}: locked again {:?} later: {locked:?}", begun.elapsed());
        assert!(matches!(locked, Ok(true)), "{locked:?}\n{:#?}", proxy.log());
        let (node, _) = node_at(&path).unwrap();
        proxy.restore();
        is_alone(&client, &path, &node);
        assert!(lock.is_held());
        lock.unlock().unwrap();
        assert!(!exists(&path));
    }
}

/// The delete was carried out, which its sender does not know: it must not be repeated.
#[test]
fn an_unlock_whose_answer_is_lost_leaves_the_next_owners_node_alone() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(20));
    let path = fresh_path("lost-answer");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let lost = lost_delete(&proxy, true, Then::Cut);
    // It keeps the connection that it has.
    proxy.refuse(true);
    lock.unlock().unwrap();
    assert!(lost.fired(), "{:#?}", proxy.log());
    let rivals = common::client();
    let rival = lock_of(&rivals, &path);
    rival.lock().unwrap();
    let (node, _) = node_at(&path).unwrap();
    proxy.refuse(false);
    is_alone(&client, &path, &node);
    takes_over_again(&lock, &rival);
    assert_eq!(client.stats().sessions, 1);
}

/// Whatever the client had on its way has ended, and the node is the one it was.
#[track_caller]
fn is_alone(client: &Client, path: &str, node: &str) {
    wait_until("nothing is on its way", 2 * SOON, || client.stats().deleting == 0);
    let now = node_at(path).map(|(data, _)| data);
    assert_eq!(now.as_deref(), Some(node));
}

/// The rival holds it undisturbed, and the first one can have it after that.
#[track_caller]
fn takes_over_again(lock: &EphemeralLock, rival: &EphemeralLock) {
    assert!(!lock.try_lock().unwrap() && rival.is_held());
    rival.unlock().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

#[test]
fn an_unlock_over_a_dead_connection_leaves_the_next_owners_node_alone() {
    for silent in [false, true] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
        let path = fresh_path("dead");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        match silent {
            // The delete is on its way to the server, and held up, when the session ends.
            true => proxy.black_hole(Direction::Both),
            false => {
                proxy.refuse(true);
                proxy.cut();
                wait_until("it is suspended", SOON, || hold.state() == HoldState::Suspended);
            }
        }
        assert_eq!(proxy.expire_sessions().unwrap(), 1);
        let rivals = common::client();
        let rival = lock_of(&rivals, &path);
        rival.lock().unwrap();
        let (node, _) = node_at(&path).unwrap();
        let unlocked = lock.unlock();
        println!("silent: {silent}, unlock: {unlocked:?}");
        assert!(unlocked.is_ok(), "{unlocked:?}");
        proxy.restore();
        wait_until("the client is back", SOON, || client.stats().connections == 2);
        is_alone(&client, &path, &node);
        takes_over_again(&lock, &rival);
    }
}

/// The client is back on another connection, but in another session: an operator has ended the one
/// that had the node.
#[test]
fn an_unlock_on_the_next_connection_leaves_the_next_owners_node_alone() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(20));
    let path = fresh_path("next");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    proxy.refuse(true);
    proxy.cut();
    assert_eq!(proxy.expire_sessions().unwrap(), 1);
    let rivals = common::client();
    let rival = lock_of(&rivals, &path);
    rival.lock().unwrap();
    let (node, _) = node_at(&path).unwrap();
    proxy.refuse(false);
    let took = common::await_lost(&hold);
    println!("lost {took:?} after there was a way again: {hold:?}");
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    wait_until("the client is back", SOON, || client.stats().connections == 2);
    assert_lost(&lock.unlock(), &path, LossReason::LeaseExpired);
    is_alone(&client, &path, &node);
    assert!(!lock.try_lock().unwrap() && rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn a_delete_held_up_in_the_network_leaves_the_next_owners_node_alone() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("held-up");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let held = proxy.on(Op::Delete).path_contains(&path).hold_request();
    let unlocking = {
        let lock = lock.clone();
        Task::spawn(move || lock.unlock())
    };
    assert!(held.wait(SOON), "{:#?}", proxy.log());
    // Its session expires by itself, since nothing behind the delete passes either.
    let rivals = common::client();
    let rival = lock_of(&rivals, &path);
    let begun = Instant::now();
    assert!(rival.try_lock_for(SOON).unwrap());
    let (node, _) = node_at(&path).unwrap();
    println!("the rival was let in {:?} later", begun.elapsed());
    unlocking.result("unlock").unwrap();
    held.release();
    is_alone(&client, &path, &node);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn stale_guards_and_unlocks_leave_a_newer_hold_alone() {
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("stale");
    warnings(&path);
    let lock = lock_of(&ours, &path);
    let (dropped, released) = (lock.acquire().unwrap(), {
        lock.unlock().unwrap();
        lock.acquire().unwrap()
    });
    lock.unlock().unwrap();
    let rival = lock_of(&rivals, &path);
    rival.lock().unwrap();
    let (node, _) = node_at(&path).unwrap();
    let result = released.release();
    assert!(matches!(&result, Err(Error::NotHeld { .. })), "{result:?}");
    let result = lock.unlock();
    assert!(matches!(&result, Err(Error::NotHeld { .. })), "{result:?}");
    drop(dropped);
    let logged = warnings(&path);
    println!("release: {result:?}; log: {logged:?}");
    assert!(logged.iter().any(|line| line.contains("is not held")), "{logged:?}");
    is_alone(&ours, &path, &node);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn a_guard_of_a_lost_hold_leaves_the_next_owners_node_alone() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("lost-guard");
    warnings(&path);
    let lock = lock_of(&client, &path);
    let guard = lock.acquire().unwrap();
    proxy.refuse(true);
    proxy.cut();
    let rivals = common::client();
    let rival = lock_of(&rivals, &path);
    assert!(rival.try_lock_for(SOON).unwrap());
    let (node, _) = node_at(&path).unwrap();
    assert!(!guard.is_held());
    let before = warnings(&path).len();
    drop(guard);
    let logged = warnings(&path).split_off(before);
    println!("at the drop: {logged:?}");
    assert!(!logged.is_empty());
    proxy.refuse(false);
    wait_until("the client is back", SOON, || client.stats().connections == 2);
    is_alone(&client, &path, &node);
    takes_over_again(&lock, &rival);
}

#[test]
fn an_unlock_right_after_a_cut_deletes_the_node_in_the_same_session() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let path = fresh_path("right-after");
    let lock = lock_of(&client, &path);
    for _ in 0..20 {
        lock.lock().unwrap();
        proxy.cut();
        lock.unlock().unwrap();
        let took = await_gone(&path, PROMPT);
        assert!(lock.try_lock_for(PROMPT).unwrap(), "gone after {took:?}, {:?}", client.stats());
        lock.unlock().unwrap();
    }
    is_tidy(&client, PROMPT);
    assert_eq!((client.stats().sessions, client.stats().holds_lost), (1, 0));
}
