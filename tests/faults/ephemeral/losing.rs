//! Losing a hold: to an operator, to a lease that ran out while the session lived, to a pause of
//! the process.

use std::env;

use rustix::process::Signal;
use zoolock::Hold;

use super::*;
use common::{Beside, OWN_PROCESS, await_lost, warnings};

const DELETED: LossReason = LossReason::NodeDeleted;

/// The watch over a hold's own node is set when it was held for a quarter of the session timeout.
fn hold_for_a_while(hold: &Hold) {
    let begun = Instant::now();
    wait_until("it was held for a while", SOON, || {
        assert!(hold.is_held(), "{hold:?}");
        begun.elapsed() > SHORT / 2
    });
}

#[test]
fn a_node_deleted_by_an_operator_is_noticed_and_told() {
    let client = client_of(&connect_string(), SHORT);
    for for_a_while in [false, true] {
        let path = fresh_path("deleted");
        warnings(&path);
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        if for_a_while {
            hold_for_a_while(&hold);
        }
        shared_probe().unwrap().delete(&path).unwrap();
        let took = await_lost(&hold);
        println!("held for a while: {for_a_while}, noticed {took:?} after the deletion");
        assert!(took < SHORT / 2 + Duration::from_secs(1), "{took:?}");
        assert_eq!(hold.state(), HoldState::Lost(DELETED));
        assert!(!lock.is_held() && hold.valid_for().is_zero());
        assert!(!lock.try_lock().unwrap(), "the object is in use until the unlock");
        let rival = lock_of(&client, &path);
        assert!(rival.try_lock().unwrap(), "the lock itself is free");
        let node = stat_of(&path);
        assert_lost(&lock.unlock(), &path, DELETED);
        assert_eq!(stat_of(&path).czxid, node.czxid, "the rival's node");
        rival.unlock().unwrap();
        lock.lock().unwrap();
        lock.unlock().unwrap();
        wait_until("the loss is logged", SOON, || {
            warnings(&path).iter().any(|line| line.starts_with("ERROR"))
        });
    }
    assert_eq!(client.stats().holds_lost, 2);
}

#[test]
fn an_unlock_tells_of_a_deleted_node_that_nobody_has_noticed() {
    let client = client();
    let path = fresh_path("deleted");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    shared_probe().unwrap().delete(&path).unwrap();
    assert_lost(&lock.unlock(), &path, DELETED);
    let guard = lock.acquire().unwrap();
    shared_probe().unwrap().delete(&path).unwrap();
    assert_lost(&guard.release(), &path, DELETED);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(client.stats().holds_lost, 2);
}

/// The node of a hold is deleted while another client waits for it, which has made its own by the
/// time that the first one looks.
fn replaced(for_a_while: bool) {
    let ours = client_of(&connect_string(), SHORT);
    let rivals = client();
    let path = fresh_path("replaced");
    let (lock, rival) = (lock_of(&ours, &path), lock_of(&rivals, &path));
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let waiting = locking(&rival);
    await_in_use(&rivals, 1);
    if for_a_while {
        hold_for_a_while(&hold);
    }
    shared_probe().unwrap().delete(&path).unwrap();
    waiting.result("the rival").unwrap();
    let node = stat_of(&path);
    let took = await_lost(&hold);
    println!("held for a while: {for_a_while}, noticed {took:?} after the rival was let in");
    assert!(took < SHORT / 2 + Duration::from_secs(1), "{took:?}");
    assert_eq!(hold.state(), HoldState::Lost(DELETED));
    assert_lost(&lock.unlock(), &path, DELETED);
    assert_eq!(node_at(&path).map(|(_, stat)| stat.czxid), Some(node.czxid), "the rival's node");
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn a_node_deleted_under_a_waiters_eyes_is_noticed_though_there_is_another_one_at_once() {
    replaced(true);
}

#[test]
fn a_node_deleted_and_replaced_before_it_was_watched_is_noticed() {
    replaced(false);
}

#[test]
fn a_token_is_never_that_of_the_next_owners_node() {
    let [ours, rivals] = [client_of(&connect_string(), SHORT), client()];
    let path = fresh_path("token");
    let (lock, rival) = (lock_of(&ours, &path), lock_of(&rivals, &path));
    lock.lock().unwrap();
    let (hold, own) = (hold_of(&lock), stat_of(&path).czxid as u64);
    shared_probe().unwrap().delete(&path).unwrap();
    rival.lock().unwrap();
    let (token, others) = (hold.fencing_token().unwrap(), hold_of(&rival).fencing_token().unwrap());
    println!("token of the hold whose node was deleted: {token}; of the next: {others}");
    assert_eq!((token, others), (own, stat_of(&path).czxid as u64));
    assert!(token < others);
    // An unlock before that would delete the node that it finds.
    await_lost(&hold);
    assert_lost(&lock.unlock(), &path, DELETED);
    assert!(rival.is_held() && exists(&path));
    rival.unlock().unwrap();
}

#[test]
fn a_lease_that_ran_out_on_a_live_session_leaves_no_node_behind() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), PAUSED);
    let path = fresh_path("unrenewed");
    make_parents(&path);
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let session = stat_of(&path).ephemeral_owner;
    // The server hears that the client is there, which hears nothing.
    proxy.black_hole(Direction::ToClient);
    println!("lost {:?} after it was locked", await_lost(&hold));
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    assert_lost(&lock.unlock(), &path, LossReason::LeaseExpired);
    let lives = node_at(&path).is_some_and(|(_, stat)| stat.ephemeral_owner == session);
    proxy.restore();
    let took = await_gone(&path, 3 * PAUSED);
    println!("its session lived on: {lives}; gone {took:?} later, {:?}", client.stats());
    assert!(lock.try_lock_for(SOON).unwrap(), "the object works again");
    lock.unlock().unwrap();
    is_tidy(&client, SOON);
}

/// Long enough that between the end of the lease and that of the session there is time to act.
const PAUSED: Duration = Duration::from_secs(8);

fn hold_over_a_pause(path: &str) {
    let client = client_of(&connect_string(), PAUSED);
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    println!("lease: {}", hold.valid_for().as_millis());
    await_lost(&hold);
    println!("lost: {:?}, {:?}", hold.state(), client.stats());
    println!("unlocked: {:?}", lock.unlock());
    let again = lock.try_lock_for(3 * PAUSED / 2);
    println!("again: {again:?}, {:?}", client.stats());
}

#[test]
fn a_process_stopped_for_longer_than_its_lease_leaves_no_node_on_a_session_that_lives() {
    const NAME: &str = "ephemeral::losing::\
        a_process_stopped_for_longer_than_its_lease_leaves_no_node_on_a_session_that_lives";
    if let Ok(path) = env::var(OWN_PROCESS) {
        return hold_over_a_pause(&path);
    }
    let path = fresh_path("stopped");
    let holder = Beside::start(NAME, &path);
    let lease = Duration::from_millis(holder.says("lease:").parse().unwrap());
    // Its lease is renewed every quarter of the session timeout, and this stops it in between.
    let renewed = Instant::now();
    wait_until("it was renewed and has aged", SOON, || renewed.elapsed() > PAUSED / 2);
    let session = stat_of(&path).ephemeral_owner;
    holder.signal(Signal::STOP);
    let stopped = Instant::now();
    wait_until("its lease is over", SOON, || stopped.elapsed() > PAUSED * 15 / 16);
    let seen = node_at(&path).map(|(_, stat)| stat.ephemeral_owner);
    holder.signal(Signal::CONT);
    println!("a lease of {lease:?}; its session lived on: {}", seen == Some(session));
    assert!(holder.says("unlocked:").contains("Lost"));
    let again = holder.says("again:");
    assert!(again.starts_with("Ok(true)"), "{again}");
}

#[test]
fn a_loss_is_counted_whoever_notices_first() {
    for round in 0..4 {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), Duration::from_secs(1));
        let lock = lock_of(&client, &fresh_path("counted"));
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        proxy.refuse(true);
        proxy.cut();
        // No pause: the thread that counts needs some microseconds to wake up.
        while hold.is_held() {}
        let before = client.stats().holds_lost;
        assert_lost(&lock.unlock(), lock.path(), LossReason::LeaseExpired);
        println!("round {round}: {before} counted at the end of the lease");
        wait_until("it is counted", PROMPT, || client.stats().holds_lost == 1);
    }
}

#[test]
fn a_hold_lives_on_while_nothing_happens() {
    let client = client_of(&connect_string(), SHORT);
    let path = fresh_path("renewed");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let node = stat_of(&path);
    let (begun, mut least) = (Instant::now(), SHORT);
    wait_until("it was renewed for long", SOON, || {
        assert_eq!(hold.state(), HoldState::Held, "after {:?}", begun.elapsed());
        least = least.min(hold.valid_for());
        begun.elapsed() > 4 * SHORT
    });
    println!("held for {:?}, at least {least:?} left", begun.elapsed());
    assert_eq!(stat_of(&path), node, "heartbeats change nothing");
    lock.unlock().unwrap();
}

#[test]
fn a_close_is_told_once_to_the_hold() {
    let client = client();
    let path = fresh_path("closed");
    let lock = lock_of(&client, &path);
    let guard = lock_of(&client, &format!("{path}-guard")).acquire().unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    client.close().unwrap();
    assert!(!exists(&path), "close waits for the end");
    let closed = LossReason::ClientClosed;
    assert_eq!((hold.state(), hold.is_held()), (HoldState::Lost(closed), false));
    assert_lost(&lock.unlock(), &path, closed);
    assert_lost(&guard.release(), &format!("{path}-guard"), closed);
    for (what, seen) in
        [("unlock", lock.unlock()), ("lock", lock.lock()), ("try_lock", lock.try_lock().map(drop))]
    {
        assert!(matches!(seen, Err(Error::Closed)), "{what}: {seen:?}");
    }
}
