//! Fencing tokens.

use zoolock::{Client, DistributedLock, Hold, LossReason};
use zoolock_test_support::{Op, fresh_path, shared_probe};

use super::{SHORT, lost_at};
use common::basics::hold_of;
use common::{Stage, assert_lost, client, delete_node, place, stat};

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
fn a_token_is_known_whatever_becomes_of_its_hold() {
    let stage = Stage::new("token", SHORT);
    let taken = || {
        stage.lock.lock().unwrap();
        let hold = hold_of(&stage.lock);
        let token = stat(&format!("{}/{}", stage.path, hold.node())).czxid as u64;
        (hold, token)
    };
    let (released, first) = taken();
    stage.lock.unlock().unwrap();
    assert_eq!(released.fencing_token().unwrap(), first, "{released:?}");

    let (deleted, second) = taken();
    delete_node(&deleted);
    assert_eq!(deleted.fencing_token().unwrap(), second);
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::NodeDeleted);
    assert_eq!(deleted.fencing_token().unwrap(), second, "{deleted:?}");

    let (expired, third) = taken();
    let asked = stage.proxy.requests(Op::Exists) + stage.proxy.requests(Op::GetData);
    stage.proxy.refuse(true);
    stage.proxy.cut();
    assert_eq!(expired.fencing_token().unwrap(), third, "{expired:?}");
    lost_at(&expired);
    assert_eq!(expired.fencing_token().unwrap(), third, "{expired:?}");
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::LeaseExpired);
    assert_eq!(expired.fencing_token().unwrap(), third);
    let now = stage.proxy.requests(Op::Exists) + stage.proxy.requests(Op::GetData);
    assert_eq!(now, asked, "the servers were not asked");
    assert!(first < second && second < third);
}
