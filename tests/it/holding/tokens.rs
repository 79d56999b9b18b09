//! Fencing tokens.

use zoolock::{Client, DistributedLock, Error, Hold, LossReason};
use zoolock_test_support::{fresh_path, shared_probe};

use super::{SHORT, lost_at};
use crate::lock::core::hold_of;
use crate::util::{Stage, assert_lost, client, delete_node, place};

#[test]
fn tokens_rise_over_release_crash_and_a_new_directory() {
    let path = fresh_path("tokens");
    let mut tokens: Vec<(&str, u64)> = Vec::new();
    let mut enter = |how: &'static str, client: &Client| {
        let lock = DistributedLock::new(client, &path).unwrap();
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        tokens.push((how, hold.fencing_token().unwrap()));
        assert_eq!(hold.fencing_token().unwrap(), tokens.last().unwrap().1);
        (lock, hold)
    };
    let survivor = client();
    enter("first", &survivor).0.unlock().unwrap();
    enter("after a release", &survivor).0.unlock().unwrap();

    let closed = client();
    let (_closed_while_held, hold) = enter("another client", &closed);
    closed.close().unwrap();
    println!("known after the end, too: {:?}", hold.fencing_token());
    enter("after a close", &survivor).0.unlock().unwrap();

    let stage = Stage::new("tokens", SHORT);
    let (_killed_while_held, hold) = enter("a third client", &stage.client);
    stage.proxy.refuse(true);
    stage.proxy.cut();
    enter("after a crash", &survivor).0.unlock().unwrap();
    assert!(!hold.is_held(), "{hold:?}");

    let sequence = |hold: &Hold| place(&hold.node()).to_owned();
    let (lock, hold) = enter("once more", &survivor);
    let last = sequence(&hold);
    lock.unlock().unwrap();
    shared_probe().unwrap().delete(&path).unwrap();
    let (lock, hold) = enter("in a new directory", &survivor);
    let first = sequence(&hold);
    lock.unlock().unwrap();
    println!("sequences {last}, then {first}; {tokens:#?}");
    assert!(first < last, "the sequence began anew");
    assert!(tokens.is_sorted_by(|a, b| a.1 < b.1), "{tokens:?}");
}

#[test]
fn a_token_that_nobody_asked_for_in_time_is_an_error() {
    let stage = Stage::new("no_token", SHORT);
    stage.lock.lock().unwrap();
    let released = hold_of(&stage.lock);
    stage.lock.unlock().unwrap();
    let token = released.fencing_token();
    assert!(matches!(token, Err(Error::NotHeld { .. })), "{token:?}");

    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    delete_node(&hold);
    assert_lost(&hold.fencing_token(), &stage.path, LossReason::NodeDeleted);
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::NodeDeleted);

    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    stage.proxy.refuse(true);
    stage.proxy.cut();
    let token = hold.fencing_token();
    println!("while disconnected: {token:?}");
    let disconnected = matches!(token, Err(Error::Disconnected { .. }));
    assert!(disconnected, "{token:?}");
    lost_at(&hold);
    assert_lost(&hold.fencing_token(), &stage.path, LossReason::LeaseExpired);
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::LeaseExpired);
    assert_lost(&hold.fencing_token(), &stage.path, LossReason::LeaseExpired);
}
