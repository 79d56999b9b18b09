//! Listening ends with the hold.

use std::time::Duration;

use zoolock::{Error, Hold, LossReason};
use zoolock_test_support::{Direction, fresh_path, shared_probe};

use super::ends;
use common::basics::hold_of;
use common::{Task, client, client_of, lock_of, shared_proxy};

#[test]
fn it_ends_with_the_hold_however_that_ends() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), Duration::from_secs(2));
    let path = fresh_path("ends");
    let lock = lock_of(&own, &path);
    // Released.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    lock.unlock().unwrap();
    ends(&asked, "released");
    let over = hold.revocation();
    assert!(matches!(&over, Err(Error::NotHeld { path: at }) if *at == path), "{over:?}");
    // Deleted.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    let node = format!("{path}/{}", hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
    ends(&asked, "deleted");
    is_lost(&hold, LossReason::NodeDeleted);
    lock.unlock().unwrap_err();
    is_lost(&hold, LossReason::NodeDeleted);
    // Expired.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    proxy.black_hole(Direction::Both);
    ends(&asked, "expired");
    is_lost(&hold, LossReason::LeaseExpired);
    proxy.restore();
    lock.unlock().unwrap_err();
    // Closed.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    own.close().unwrap();
    ends(&asked, "closed");
    is_lost(&hold, LossReason::ClientClosed);
}

#[track_caller]
fn is_lost(hold: &Hold, why: LossReason) {
    let seen = hold.revocation();
    println!("{why:?}: {seen:?}");
    let lost = matches!(&seen, Err(Error::Lost { path, reason })
        if path == hold.path() && *reason == why);
    assert!(lost, "{seen:?}");
}

#[test]
fn listening_while_another_thread_releases_never_hangs() {
    const ROUNDS: usize = 200;
    let own = client();
    let lock = lock_of(&own, &fresh_path("racing"));
    let mut refused = 0;
    for round in 0..ROUNDS {
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let listening = Task::spawn(move || {
            let mut kept = Vec::new();
            loop {
                match hold.revocation() {
                    Ok(asked) => kept.push(asked),
                    Err(error) => break (kept, error),
                }
            }
        });
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        lock.unlock().unwrap();
        let (kept, error) = listening.result("the listener");
        assert!(matches!(error, Error::NotHeld { .. }), "{error:?}");
        refused += usize::from(kept.is_empty());
        kept.iter().for_each(|asked| ends(asked, "released"));
    }
    println!("{refused} of {ROUNDS} came too late to listen at all");
}
