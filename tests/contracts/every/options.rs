//! Each option, for every kind of lock that supports it. All other kinds reject it.

use std::time::{Duration, Instant};

use zoolock::{
    Client, DistributedLock, DistributedSemaphore, EphemeralLock, HoldState, LockOptions,
};

use super::Pair;
use crate::is_invalid;
use common::*;

/// A session timeout so long that clients send no heartbeats during a test.
const QUIET: Duration = Duration::from_secs(60);

#[test]
fn local_handoff_passes_the_node_on() {
    const TIMES: usize = 2;
    // In a multi-lock, a waiter for the first member has not queued for the others when they are released.
    let takes_it =
        |subject: Subject| subject.is_plain() && subject.is_one_lock() && subject.has_a_directory();
    every_subject_that(takes_it, |subject| {
        let Pair { ours, path, .. } = Pair::of(subject, "handed-on", QUIET);
        let options = LockOptions::new().local_handoffs(TIMES as u32);
        let object = subject.with(&ours, &path, options);
        let mut turn = Visitor::start_asleep(object.clone());
        let mut held = turn.hold();
        let (mut tokens, mut cost) = (vec![held.fencing_token()], 0);
        for _ in 1..2 * (TIMES + 1) {
            let next = Visitor::start_asleep(object.clone());
            let before = ours.stats().requests;
            turn.leaves();
            let heir = next.hold();
            let token = heir.fencing_token();
            assert_eq!((held.state(), heir.state()), (HoldState::Released, HoldState::Held));
            await_lost(&held);
            if token == held.fencing_token() {
                cost += ours.stats().requests - before;
                assert_eq!(heir.node(), held.node(), "{}", subject.name);
            }
            tokens.push(token);
            (turn, held) = (next, heir);
        }
        turn.leaves();
        let runs: Vec<_> = tokens.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
        println!("{}: acquisitions with one token {runs:?}, {cost} requests", subject.name);
        // Read locks are not handed over within a process.
        match subject.is_exclusive() {
            true => assert_eq!(runs, [TIMES + 1; 2], "{}", subject.name),
            false => assert_eq!(runs, [1; 2 * (TIMES + 1)], "{}", subject.name),
        }
        assert!(tokens.is_sorted(), "{}: {tokens:?}", subject.name);
        // Two nodes, each read when it is first handed over. A very slow machine may add a heartbeat.
        assert!(cost <= 3, "{}: {cost} requests", subject.name);
        subject.await_nodes(&path, 0);
        await_nothing_left(&ours);
    });
}

#[test]
fn option_that_a_lock_has_no_use_for_is_refused() {
    let (client, path) = (client(), fresh_path("refused"));
    let options = || LockOptions::new().local_handoffs(1);
    is_invalid("local_handoffs", &EphemeralLock::with_options(&client, &path, options()));
    let semaphore = DistributedSemaphore::with_options(&client, &path, 1, options());
    is_invalid("local_handoffs", &semaphore);
}

#[test]
fn background_release_does_not_wait_for_the_answer() {
    every_subject_that(Subject::releases_in_the_background, |subject| {
        let (proxy, path) = (shared_proxy(), fresh_path("background"));
        let (ours, others) = (client_of(&proxy.connect_string(), QUIET), client());
        let object = subject.at(&ours, &path);
        object.lock().unwrap();
        let (hold, nodes) = (object.hold(), subject.holding(&path));
        let op = if subject.queues() { Op::Multi } else { Op::Delete };
        let deletion = proxy.on(op).path_contains(&nodes[0]).hold_request();
        // If `unlock` waited for the missing answer, it would take a third of the session timeout.
        in_time(subject.name, QUIET / 6, || object.unlock()).unwrap();
        assert!(!object.is_held() && hold.state() == HoldState::Released, "{hold:?}");
        assert!(deletion.wait(SOON), "{}: {:#?}", subject.name, proxy.log());
        let rival = subject.rival(&others, &path);
        assert!(!rival.try_lock().unwrap(), "{}: its node is still there", subject.name);
        deletion.release();
        assert!(rival.lock_within(SOON.into()).unwrap(), "{}", subject.name);
        rival.unlock().unwrap();
        subject.await_nodes(&path, 0);
    });
}

/// On most machines, long enough to check the lock before the time is over.
const AT_LEAST: Duration = Duration::from_secs(1);

#[test]
fn hold_at_least_keeps_other_clients_out_after_an_early_unlock() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { ours, path, rival, .. } = Pair::of(subject, "at-least", QUIET);
        let object = subject.with(&ours, &path, LockOptions::new().hold_at_least(AT_LEAST));
        let begun = Instant::now();
        object.lock().unwrap();
        let hold = object.hold();
        object.unlock().unwrap();
        assert_eq!((object.is_held(), hold.state()), (false, HoldState::Released));
        await_lost(&hold);
        let (tried, nodes) = (rival.try_lock().unwrap(), subject.holding(&path).len());
        let seen = begun.elapsed();
        println!("{}: after {seen:?}: let in: {tried}, {nodes} nodes", subject.name);
        assert!(seen >= AT_LEAST || (!tried && nodes == subject.nodes_of_one()));
        if !tried {
            rival.lock().unwrap();
        }
        println!("{}: let in after {:?}", subject.name, begun.elapsed());
        assert!(begun.elapsed() >= AT_LEAST, "{}", subject.name);
        rival.unlock().unwrap();
        await_nothing_left(&ours);
        assert_eq!(ours.stats().holds_lost, 0, "{}", subject.name);
    });
}

/// Returns a lock whose node the threads of this process hand over to each other.
fn handed_on(client: &Client, path: &str, options: LockOptions) -> DistributedLock {
    DistributedLock::with_options(client, path, options.local_handoffs(8)).unwrap()
}

/// A new node is not watched: the client sets a watch when it hands over the node for the first time.
#[test]
fn next_thread_is_notified_of_a_deletion_before_the_handoff() {
    // The hold itself is checked only a quarter of this timeout after its grant, which is longer than the test waits.
    let own = client_of(&connect_string(), QUIET);
    let lock = handed_on(&own, &fresh_path("deleted-young"), LockOptions::new());
    let guard = lock.acquire().unwrap();
    let next = Visitor::start_asleep(lock.clone());
    delete_node(&guard);
    guard.release().unwrap();
    let heir = next.hold();
    wait_until("it is lost", SOON / 8, || !heir.is_held());
}
