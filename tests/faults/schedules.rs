//! Schedules of a proxy and an operator that found something in the family of locks.

use std::thread;
use std::time::{Duration, Instant};

use zookeeper::{Acl, Permissions, ZooKeeper};
use zoolock::{DistributedLock, DistributedSemaphore, EphemeralLock};
use zoolock_test_support::{Op, Probe, connect_string, fresh_path, shared_probe, wait_until};

use common::basics::{await_nodes, hold_of};
use common::{SESSION, SOON, Task, children, client, client_of, shared_address, shared_proxy};

/// The session timeout where a quarter of it has to pass.
const SHORT: Duration = Duration::from_secs(4);

fn delete(path: &str) {
    shared_probe().unwrap().delete(path).unwrap();
}

/// All within a quarter of the session timeout: the node is deleted, made by somebody else, and
/// that one is asked to let go.
#[test]
fn a_single_node_that_was_replaced_and_asked_for_is_not_taken_for_ones_own() {
    let (own, rivals) = (client_of(&connect_string(), SHORT), client());
    let path = fresh_path("replaced-and-asked");
    let first = EphemeralLock::new(&own, &path).unwrap();
    let next = EphemeralLock::new(&rivals, &path).unwrap();
    first.lock().unwrap();
    let hold = hold_of(&first);
    delete(&path);
    next.lock().unwrap();
    let who = rivals.contenders(&path).unwrap();
    rivals.revoke(&who[0]).unwrap();
    let lost = hold.lost().recv_timeout(SHORT * 2);
    let tokens = [&hold, &hold_of(&next)].map(|hold| hold.fencing_token());
    println!("{hold:?}, {lost:?}, tokens {tokens:?}");
    let unlocked = first.unlock();
    let stays = shared_probe().unwrap().exists(&path).unwrap();
    println!("unlocked: {unlocked:?}; the next owner's node stays: {stays}");
    assert!(lost.is_err_and(|e| e.is_disconnected()), "it was not told that it is lost");
    assert!(unlocked.is_err_and(|error| error.is_lost()), "nor by the unlock");
    assert!(stays && next.is_held(), "the next owner is gone");
}

/// A server that has too much to do may refuse a read; here it is a permission that was away.
#[test]
fn a_watch_that_was_refused_once_is_set_later() {
    let own = client_of(&connect_string(), SHORT);
    let path = fresh_path("refused-watch");
    let lock = DistributedLock::new(&own, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let node = format!("{path}/{}", hold.node());
    let operator = ZooKeeper::connect(&connect_string(), SESSION).unwrap();
    let allow = |what| {
        let acl = [Acl::new(what, "world", "anyone")];
        operator.set_acl(&node, &acl, None).unwrap();
    };
    let requests = own.stats().requests;
    allow(Permissions::WRITE | Permissions::DELETE | Permissions::ADMIN);
    wait_until("a heartbeat and a refused read", SOON, || own.stats().requests >= requests + 2);
    allow(Permissions::ALL);
    let asked = hold.revocation().unwrap();
    shared_probe().unwrap().set(&node, b"__REVOKE__").unwrap();
    let heard = asked.recv_timeout(SHORT * 2);
    println!("{heard:?}, {hold:?}, {:?}", own.stats());
    operator.close().unwrap();
    assert!(heard.is_ok(), "the request was not heard");
}

/// The look that lets it in is under way when the limit is lowered.
#[test]
fn a_limit_that_was_lowered_counts_for_a_look_that_is_under_way() {
    let proxy = shared_proxy();
    let (own, others) = (client_of(&proxy.connect_string(), SESSION), client());
    let path = fresh_path("stale-limit");
    let leases = format!("{path}/leases");
    let semaphore = DistributedSemaphore::new(&own, &path, 3).unwrap();
    let other = DistributedSemaphore::new(&others, &path, 3).unwrap();
    let held = [1, 1].map(|count| other.acquire(count).unwrap());
    let waiting = semaphore.clone();
    let call = Task::spawn(move || waiting.acquire(3));
    await_nodes(&leases, 5);
    let look = proxy.on(Op::GetChildren).path_contains(&leases);
    let look = look.hold_request();
    let [one, last] = held;
    one.release().unwrap();
    assert!(look.wait(SOON), "{:#?}", proxy.log());
    semaphore.set_limit(2).unwrap();
    last.release().unwrap();
    look.release();
    // The look was answered when this one behind it is.
    own.contenders(&path).unwrap();
    let looks = proxy.requests(Op::GetChildren);
    let note = format!("{leases}/note");
    shared_probe().unwrap().create(&note, b"", false, false).unwrap();
    wait_until("it was let in, or has looked again", SOON, || {
        call.is_done() || proxy.requests(Op::GetChildren) > looks
    });
    delete(&note);
    let out = call.is_done();
    println!("let in: {out}, of {}", semaphore.limit());
    semaphore.set_limit(3).unwrap();
    call.result("the call").unwrap().release().unwrap();
    assert!(!out, "let in by a limit that was gone");
}

/// The turn of a call is deleted shortly before its deadline: it begins again, with next to no time.
#[test]
fn a_call_that_loses_its_turn_at_its_deadline_is_out_of_time_and_not_disconnected() {
    const CALLS: u64 = 40;
    const TIME: Duration = Duration::from_secs(3);
    let own = client_of(&shared_address().to_string(), SHORT);
    let others = client();
    let probe = Probe::connect(shared_address()).unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let path = fresh_path("turn-at-the-deadline");
            let other = DistributedSemaphore::new(&others, &path, 1).unwrap();
            let held = other.acquire(1).unwrap();
            let semaphore = DistributedSemaphore::new(&own, &path, 1).unwrap();
            let begun = Instant::now();
            let call =
                Task::spawn(move || semaphore.try_acquire_for(1, TIME).map(|got| got.is_some()));
            let turns = format!("{path}/locks");
            let turn = await_nodes(&turns, 1).remove(0);
            let early = Duration::from_millis(CALLS - number);
            (begun + TIME - early, format!("{turns}/{turn}"), held, call)
        })
        .collect();
    for (at, turn, _, _) in &calls {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let _ = probe.delete(turn);
    }
    let seen: Vec<_> = calls.iter().map(|call| call.3.result("a call")).collect();
    println!("{seen:?}");
    assert!(seen.iter().all(|seen| matches!(seen, Ok(false))), "{seen:?}");
    for (_, turn, held, _) in calls {
        held.release().unwrap();
        let turns = turn.rsplit_once('/').unwrap().0.to_owned();
        wait_until("no turn is left", SOON, || children(&turns).is_empty());
    }
}
