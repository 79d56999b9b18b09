//! Holds that are lost around a hand-off: whoever has it then is told.

use std::time::Instant;

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{Direction, connect_string, fresh_path, shared_probe, wait_until};

use super::*;
use common::{Stage, assert_lost, await_lost, children, client_of, delete_node, in_time, lock_of};

/// A deletion is noticed with a quarter of this and a heartbeat.
const SESSION: Duration = Duration::from_secs(8);

/// Deletes the node of a hold that was taken over, so long after it was; the holder is told.
fn deleted_after(pause: Duration, watched_before: bool) {
    let stage = Stage::new("deleted", SESSION);
    let lock = lock_with(&stage.client, &stage.path, 3);
    // The heartbeats are for others.
    let others: Vec<_> =
        (0..6).map(|n| lock_of(&stage.client, &format!("{}-{n}", stage.path))).collect();
    others.iter().for_each(|other| other.lock().unwrap());
    let guard = lock.acquire().unwrap();
    let _asked = watched_before.then(|| guard.revocation().unwrap());
    let next = Next::waits(&lock);
    guard.release().unwrap();
    let heir = next.holds();
    thread::sleep(pause);
    delete_node(&heir);
    // The watch that there was, or else the next one, and not a heartbeat.
    let limit = if watched_before { SESSION / 5 } else { SESSION / 2 };
    println!("watched before: {watched_before}, deleted after {pause:?}");
    in_time("told", limit, || await_lost(&heir));
    assert_eq!(heir.state(), HoldState::Lost(LossReason::NodeDeleted));
    wait_until("it is counted", SOON, || stage.client.stats().holds_lost == 1);
    assert_lost(&next.lets_go(), &stage.path, LossReason::NodeDeleted);
    others.iter().for_each(|other| other.unlock().unwrap());
}

#[test]
fn a_deletion_after_the_hand_off_is_told_to_the_one_that_took_over() {
    deleted_after(Duration::ZERO, true);
    deleted_after(Duration::ZERO, false);
    deleted_after(SESSION / 3, false);
}

/// While threads hand it on as fast as they can, the loss falls into a hand-off now and then.
#[test]
fn a_deletion_in_the_middle_of_hand_offs_is_always_noticed() {
    const ROUNDS: u32 = 40;
    /// Heartbeats are rare, and for others.
    const RARE: Duration = Duration::from_secs(30);
    let client = client_of(&connect_string(), RARE);
    let root = fresh_path("storm");
    let others = (0..20).map(|n| lock_of(&client, &format!("{root}/{n}")));
    let others: Vec<_> = others.collect();
    others.iter().for_each(|other| other.lock().unwrap());
    let probe = shared_probe().unwrap();
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let path = format!("{root}/round-{round}");
        let lock = lock_with(&client, &path, u32::MAX);
        let handed_on = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&handed_on);
        let passers = Passers::start(&lock, 3, move |hold| {
            // Has it watched.
            let _ = hold.revocation();
            count.fetch_add(1, Ordering::SeqCst);
        });
        wait_until("it is handed on", SOON, || handed_on.load(Ordering::SeqCst) > 20);
        let lost = client.stats().holds_lost;
        wait_until("a node is deleted", SOON, || {
            let nodes = children(&path);
            nodes.iter().any(|node| probe.delete(&format!("{path}/{node}")).is_ok())
        });
        let begun = Instant::now();
        // It may have been the node of a thread that did not hold yet, which queues again then.
        let told = || client.stats().holds_lost > lost || !children(&path).is_empty();
        // By the watch: long before a heartbeat or the end of the row of turns.
        in_time(&format!("round {round}"), RARE / 10, || {
            wait_until("it is noticed", RARE / 2, told)
        });
        longest = longest.max(begun.elapsed());
        let turns = passers.stop();
        let mut lost = turns.iter().filter_map(|turns| turns.as_ref().err());
        assert!(lost.all(zoolock::Error::is_lost), "{turns:?}");
        wait_until("nothing is left", SOON, || children(&path).is_empty());
    }
    println!("{ROUNDS} deletions, noticed within {longest:?}");
    others.iter().for_each(|other| other.unlock().unwrap());
}

/// Somebody writes to the node, which makes the client look at it, again and again: it is there.
#[test]
fn a_look_at_the_node_in_the_middle_of_hand_offs_is_no_loss() {
    let client = client_of(&connect_string(), SESSION);
    let root = fresh_path("looks");
    let probe = shared_probe().unwrap();
    for lock in every_lock(&client, &root, u32::MAX) {
        let nodes = || {
            let nodes = children(lock.path()).into_iter();
            nodes.map(|node| format!("{}/{node}", lock.path()))
        };
        let stop = Arc::new(AtomicBool::new(false));
        let passer = |_| {
            let (lock, stop) = (Arc::clone(&lock), Arc::clone(&stop));
            Task::spawn(move || -> Result<u32> {
                let mut turns = 0;
                while !stop.load(Ordering::SeqCst) {
                    lock.lock()?;
                    // Has it watched.
                    let _ = lock.holds().first().map(|hold| hold.revocation());
                    lock.unlock()?;
                    turns += 1;
                }
                Ok(turns)
            })
        };
        let passers: Vec<_> = (0..4).map(passer).collect();
        let (events, mut written) = (client.stats().events, 0);
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            for node in nodes() {
                // It may be gone by now.
                if let Ok(Some((data, _))) = probe.get(&node) {
                    written += u32::from(probe.set(&node, &data).is_ok());
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
        let turns: Vec<_> = passers.iter().map(|p| p.result("a thread")).collect();
        let looks = client.stats().events - events;
        println!("{}: {written} writes, {looks} looks, {turns:?}", lock.path());
        assert_eq!(client.stats().holds_lost, 0, "{}: {turns:?}", lock.path());
        assert!(turns.iter().all(Result::is_ok), "{}: {turns:?}", lock.path());
        wait_until("its node is gone", SOON, || nodes().next().is_none());
    }
}

#[test]
fn the_end_of_the_lease_is_told_to_the_one_that_took_over() {
    let stage = Stage::new("lease", Duration::from_secs(3));
    let lock = lock_with(&stage.client, &stage.path, 1000);
    let guard = lock.acquire().unwrap();
    let next = Next::waits(&lock);
    guard.release().unwrap();
    let heir = next.holds();
    stage.proxy.black_hole(Direction::Both);
    await_lost(&heir);
    assert_eq!(heir.state(), HoldState::Lost(LossReason::LeaseExpired));
    assert_eq!(heir.valid_for(), Duration::ZERO);
    assert_lost(&next.lets_go(), &stage.path, LossReason::LeaseExpired);
    stage.proxy.restore();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}
