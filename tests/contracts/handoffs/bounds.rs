//! How often in a row, in which order, and at what cost.

use std::sync::atomic::AtomicU32;

use zoolock_test_support::{fresh_path, wait_until};

use super::*;
use common::{PROBES, Witness, await_nothing_left, children, client, lock_of, never_two_inside};

#[test]
fn threads_of_one_object_take_turns_with_few_requests_and_are_never_two_inside() {
    const THREADS: usize = 16;
    const ENTRIES: u32 = 25;
    const TIMES: u32 = 7;
    let client = client();
    let root = fresh_path("crowd");
    for lock in every_lock(&client, &root, TIMES) {
        let before = client.stats().requests;
        let crowd = (0..THREADS).map(|_| Arc::clone(&lock));
        never_two_inside(crowd, ENTRIES, |lock, inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
        let requests = client.stats().requests - before;
        let turns = THREADS as u64 * u64::from(ENTRIES);
        println!("{}: {requests} requests for {turns} turns", lock.path());
        // The first one makes the directory, and at the end nobody may wait.
        let most = (turns / u64::from(TIMES + 1) + THREADS as u64) * 3 + PROBES;
        assert!(requests <= most, "{}: {requests} > {most}", lock.path());
        assert_eq!(children(lock.path()), [""; 0]);
    }
    await_nothing_left(&client);
}

/// Of each visit of another client, queued while all of a crowd want the same lock object: how many
/// turns the crowd has had first.
fn turns_before_each_visit(times: u32) -> Vec<u32> {
    const CROWD: usize = 16;
    const VISITS: usize = 8;
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("rival");
    let lock = lock_with(&ours, &path, times);
    let theirs = [lock_of(&rivals, &path), lock_of(&rivals, &path)];
    let (witness, turns) = (Arc::new(Witness::default()), Arc::new(AtomicU32::new(0)));
    let work = {
        let (turns, witness) = (Arc::clone(&turns), Arc::clone(&witness));
        move |_: &Hold| {
            witness.visit(thread::yield_now);
            turns.fetch_add(1, Ordering::SeqCst);
        }
    };
    let crowd = Passers::start(&lock, CROWD, work);
    let mut inside = Next::waits(&theirs[1]);
    inside.holds();
    let mut before_each = Vec::new();
    for visit in 0..VISITS {
        wait_until("one of the crowd queues", SOON, || children(&path).len() == 2);
        let next = Next::waits(&theirs[visit % 2]);
        wait_until("the next visitor queues", SOON, || children(&path).len() == 3);
        let before = turns.load(Ordering::SeqCst);
        inside.lets_go().unwrap();
        next.holds();
        before_each.push(turns.load(Ordering::SeqCst) - before);
        inside = next;
    }
    inside.lets_go().unwrap();
    let ours = crowd.stop().into_iter().map(|turns| turns.unwrap());
    witness.saw(ours.sum());
    before_each
}

#[test]
fn another_client_waits_for_one_turn_of_a_crowd_more_than_may_be_handed_on() {
    for times in [0, 1, 32] {
        let turns = turns_before_each_visit(times);
        println!("{times} times in a row: {turns:?} turns before each visit");
        let limits = 1..=times + 1;
        assert!(turns.iter().all(|turns| limits.contains(turns)), "{turns:?}");
    }
}
