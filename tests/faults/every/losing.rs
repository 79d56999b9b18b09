//! Lost holds: an operator deletes a node, the network falls silent, or the process is stopped. The owner is notified
//! of each loss once, before the next grant, and never deletes the next holder's node.

use std::env;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Error, Hold, HoldState, LockKind, LossReason, Result};

use super::each;
use common::*;

/// Expects that an unlock fails, with an error for each hold that satisfies `so`.
#[track_caller]
fn fails(subject: Subject, unlocked: Result<()>, so: impl Fn(&Error) -> bool) {
    let name = subject.name;
    let failures = each(unlocked.expect_err("an unlock of what is not held"));
    assert_eq!(failures.len(), subject.nodes_of_one(), "{name}: {failures:?}");
    assert!(failures.iter().all(so), "{name}: {failures:?}");
}

#[track_caller]
fn says_lost(subject: Subject, unlocked: Result<()>, why: LossReason) {
    fails(subject, unlocked, |error| matches!(error, Error::Lost { reason, .. } if *reason == why));
}

/// Expects that an operator's deletion has ended all holds, and that each loss is counted once. The next visitor
/// acquires the lock, the unlock reports the loss once, and after that the object can be locked again.
#[track_caller]
fn is_over(subject: Subject, client: &Client, own: &Object, path: &str, next: Visitor) {
    let why = LossReason::NodeDeleted;
    let (name, holds) = (subject.name, own.holds());
    assert!(holds.iter().any(|hold| hold.state() == HoldState::Lost(why)), "{name}: {holds:?}");
    assert!(!own.is_held(), "{name}: {holds:?}");
    next.comes_in();
    // An object may have several permits or reads, but only one hold of any other kind.
    if !matches!(subject.shown_as()[0], LockKind::Semaphore | LockKind::Read) {
        // Other threads must wait, because the owner's code may still be running.
        let tried = own.elsewhere(|own| own.try_lock());
        assert!(matches!(tried, Ok(false)), "{name}: {tried:?}");
        if subject.is_a_threads() {
            let tried = own.try_lock();
            assert!(tried.is_err_and(|error| error.is_lost()), "{name}: the owner got it again");
        }
    }
    let of_next = subject.holding(path);
    says_lost(subject, own.unlock(), why);
    fails(subject, own.unlock(), |error| matches!(error, Error::NotHeld { .. }));
    wait_until("its deletions are done", SOON, || client.stats().deleting == 0);
    let stays = warnings(path).into_iter().find(|line| line.contains("stays until"));
    assert_eq!(stays, None, "{name}: a warning about a deleted node");
    // Only the next holder's node is left, and the owner has not deleted it.
    wait_until("the next one is alone", SOON, || subject.nodes(path).len() == of_next.len());
    assert_eq!(subject.holding(path), of_next, "{name}");
    assert!(holds.iter().all(|hold| hold.state() == HoldState::Lost(why)), "{name}: {holds:?}");
    assert!(holds.iter().all(|hold| hold.valid_for().is_zero()), "{name}: {holds:?}");
    let count = subject.nodes_of_one() as u64;
    wait_until("each is counted", SOON, || client.stats().holds_lost >= count);
    assert_eq!(client.stats().holds_lost, count, "{name}");
    next.leaves();
    assert!(own.lock_within(SOON.into()).unwrap(), "{name}: the object can be locked again");
    assert!(own.is_held());
    own.unlock().unwrap();
    if subject.goes_with_its_unlock() {
        subject.await_nodes(path, 0);
    }
}

#[test]
fn deleted_node_is_a_loss_watched_or_not() {
    every_subject(|subject| {
        // For subjects that unlock in the background, `unlock` returns `Ok`, and the loss is counted later.
        let asks = subject.goes_with_its_unlock() && !subject.releases_in_the_background();
        let unnoticed = asks.then_some((false, false));
        for (noticed, watched) in [(true, false), (true, true)].into_iter().chain(unnoticed) {
            let proxy = shared_proxy();
            // The client sets a watch on the node after a quarter of the session timeout. Before that, only an unlock
            // detects the loss.
            let session = if noticed { SESSION } else { SESSION * 6 };
            let (client, others) = (client_of(&proxy.connect_string(), session), client());
            let path = fresh_path("deleted");
            warnings(&path);
            let own = subject.at(&client, &path);
            own.lock().unwrap();
            let (holds, nodes) = (own.holds(), subject.holding(&path));
            let made = nodes.iter().map(|node| stat(node).czxid as u64).max();
            if watched {
                wait_until("all are watched", SOON, || {
                    let log = proxy.log();
                    let read = |node: &String| {
                        log.iter().any(|line| line.contains("< GetData") && line.contains(node))
                    };
                    nodes.iter().all(read)
                });
            }
            let next = subject.rival(&others, &path);
            let waits = noticed.then(|| {
                let visitor = Visitor::start(next.clone());
                wait_until("the next one waits", SOON, || others.stats().waiting == 1);
                subject.await_nodes(&path, subject.nodes_with_waiters(1));
                visitor
            });
            nodes.iter().for_each(|node| shared_probe().unwrap().delete(node).unwrap());
            if let Some(next) = waits {
                next.comes_in();
                // Each hold still has its own token, not the next holder's.
                let tokens = holds.iter().map(|hold| hold.fencing_token());
                assert_eq!(tokens.max(), made, "{}", subject.name);
                let took: Vec<_> = holds.iter().map(await_lost).collect();
                println!("{}, watched: {watched}: noticed after {took:?}", subject.name);
                is_over(subject, &client, &own, &path, next);
            } else {
                // No other client may have created a node by now, because an `EphemeralLock`'s owner might mistake it
                // for its own.
                says_lost(subject, own.unlock(), LossReason::NodeDeleted);
                assert!(next.try_lock().unwrap());
                next.unlock().unwrap();
                own.lock().unwrap();
                own.unlock().unwrap();
                assert_eq!(client.stats().holds_lost, nodes.len() as u64, "{}", subject.name);
            }
            wait_until("it is logged", SOON, || {
                warnings(&path).iter().any(|line| line.starts_with("ERROR"))
            });
        }
    });
}

/// Polls the hold until it is lost. After a stop, the very first check must report the loss.
fn hold_and_look(subject: Subject, path: &str) {
    let client = client_of(&connect_string(), SESSION);
    let own = subject.at(&client, path);
    own.lock().unwrap();
    let hold = own.hold();
    println!("holding: {}", subject.name);
    let (mut last, mut stood_still) = (Instant::now(), false);
    while !stood_still {
        let begun = Instant::now();
        // If the process was stopped in the middle of a check, the check after that counts.
        let is_late = begun - last > SESSION;
        let held = own.is_held() || hold.is_held();
        last = Instant::now();
        stood_still = is_late;
        assert!(!(held && is_late), "{}: held after {:?}", subject.name, hold);
        if !held {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let took: Vec<_> = own.holds().iter().map(await_lost).collect();
    let unlocked = own.unlock();
    println!("unlocked: {}: {unlocked:?}, told after {took:?}", subject.name);
    says_lost(subject, unlocked, LossReason::LeaseExpired);
    assert!(own.lock_within(SOON.into()).unwrap(), "{}", subject.name);
    let left: Vec<_> = own.holds().iter().map(Hold::valid_for).collect();
    let requests = client.stats().requests;
    println!("again: {}, for {left:?}, after {requests} requests", subject.name);
    // Answers to requests from before the stop do not begin a lease, and it takes time to obtain a new one.
    assert!(left.iter().all(|left| *left > SESSION / 5), "{}: {left:?}", subject.name);
    assert!(requests < 50, "{}: {requests}", subject.name);
    own.unlock().unwrap();
}

#[test]
fn stopped_process_sees_its_losses_first() {
    const NAME: &str = "every::losing::stopped_process_sees_its_losses_first";
    if let Ok(path) = env::var(OWN_PROCESS) {
        return every_subject(|subject| hold_and_look(subject, &subject.path_in(&path)));
    }
    // Either the sessions expire during the stop, or they survive and the nodes of lost holds must be deleted.
    for ended in [true, false] {
        let path = fresh_path("stopped");
        let mut holder = Beside::start(alone(NAME, OWN_PROCESS, &path));
        let others = client();
        every_subject(|_| drop(holder.says("holding:")));
        // By then, the client watches the nodes. It is notified immediately when they are deleted or its session ends.
        let begun = Instant::now();
        wait_until("the leases have aged", SOON, || begun.elapsed() > SESSION / 2);
        let visitors = Mutex::new(Vec::new());
        if ended {
            every_subject(|subject| {
                let next = subject.rival(&others, &subject.path_in(&path));
                visitors.lock().unwrap().push(Visitor::start(next));
                subject.await_nodes(&subject.path_in(&path), subject.nodes_with_waiters(1));
            });
        }
        holder.stop();
        let begun = Instant::now();
        for visitor in visitors.into_inner().unwrap() {
            visitor.comes_in();
            visitor.leaves();
        }
        // Long enough for the holder's own clock to show that the lease has expired.
        let long = if ended { SESSION * 5 / 4 } else { SESSION * 15 / 16 };
        wait_until("it has been stopped for long", SOON, || begun.elapsed() > long);
        holder.signal(Signal::SIGCONT);
        println!("sessions ended: {ended}");
        every_subject(|_| drop(holder.says("again:")));
        assert_eq!(holder.code(), Some(0));
    }
}
