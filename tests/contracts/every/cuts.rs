//! Connections that break: what outlives them, and for how long.

use std::time::Duration;

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{Direction, FaultProxy, fresh_path, wait_until};

use super::client;
use common::{SOON, Task, await_lost, await_resumed, client_of, every_subject, shared_proxy};

#[test]
fn a_cut_costs_neither_a_hold_nor_a_place_and_an_unlock_needs_no_connection() {
    every_subject(|subject| {
        let proxy = shared_proxy();
        // Long enough to be resumed in time; an unlock waits for a third of it.
        let ours = client_of(&proxy.connect_string(), Duration::from_secs(40));
        let (others, path) = (client(), fresh_path("cut"));
        let (object, rival) = (subject.at(&ours, &path), subject.rival(&others, &path));

        rival.lock().unwrap();
        let token = rival.hold().fencing_token().unwrap();
        let waiting = object.clone();
        let waiter = Task::spawn(move || {
            waiting.lock().unwrap();
            let later = waiting.hold().fencing_token().unwrap();
            waiting.unlock().unwrap();
            later
        });
        subject.await_waiting(&path, &[&ours], 1);
        let nodes = subject.nodes(&path);
        proxy.cut();
        await_resumed(&ours, 1);
        assert!(!waiter.is_done(), "{}: the rival still holds it", subject.name);
        assert!(nodes.iter().all(|node| subject.nodes(&path).contains(node)), "{nodes:?}");
        rival.unlock().unwrap();
        let later = waiter.result("a waiter after a cut");
        println!("{}: cut while waiting: {nodes:?}; tokens {token}, {later}", subject.name);
        assert!(later > token);

        object.lock().unwrap();
        let (hold, nodes) = (object.hold(), subject.holding(&path));
        let token = hold.fencing_token().unwrap();
        for (round, cut) in (2..).zip([FaultProxy::cut, FaultProxy::reset]) {
            cut(&proxy);
            await_resumed(&ours, round);
            assert!(object.is_held());
            assert_eq!((hold.state(), subject.holding(&path)), (HoldState::Held, nodes.clone()));
            assert_eq!(hold.fencing_token().unwrap(), token);
        }
        proxy.refuse(true);
        proxy.cut();
        wait_until("suspended", SOON, || hold.state() == HoldState::Suspended);
        assert!(object.is_held() && hold.is_held());
        object.unlock().unwrap();
        assert_eq!(hold.state(), HoldState::Released);
        proxy.refuse(false);
        subject.await_nodes(&path, 0);
        let stats = ours.stats();
        assert_eq!((stats.holds_lost, stats.sessions), (0, 1), "{}", subject.name);
    });
}

#[test]
fn without_a_connection_a_hold_is_lost_before_a_rival_is_granted() {
    every_subject(|subject| {
        let proxy = shared_proxy();
        let ours = client_of(&proxy.connect_string(), Duration::from_secs(3));
        let (others, path) = (client(), fresh_path("lost"));
        let (object, rival) = (subject.at(&ours, &path), subject.rival(&others, &path));
        // So short a lease may end on a busy machine before several have been taken.
        wait_until("it is held", SOON, || object.lock().is_ok());
        let holds = object.holds();
        let (waiting, seen) = (rival.clone(), holds.clone());
        // Asked by the thread that was granted, so that no other needs to be fast.
        let granted = Task::spawn(move || {
            waiting.lock().unwrap();
            let told = seen.iter().all(|hold| hold.lost().try_recv().is_err_and(|e| !e.is_empty()));
            let held = seen.iter().any(|hold| hold.is_held());
            waiting.unlock().unwrap();
            (held, told)
        });
        // Not for what is not plain; to be heard of no more takes longer than to be cut off.
        match subject.is_plain() {
            true => proxy.black_hole(Direction::Both),
            false => {
                proxy.refuse(true);
                proxy.cut();
            }
        }
        for hold in &holds {
            println!("{}: lost {:?} after the cut", subject.name, await_lost(hold));
            assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
        }
        assert!(!object.is_held());
        let unlocked = object.unlock();
        assert!(unlocked.as_ref().is_err_and(is_expired), "{}: {unlocked:?}", subject.name);
        assert_eq!(holds[0].state(), HoldState::Lost(LossReason::LeaseExpired), "it stays lost");
        let (held, told) = granted.result("the rival");
        assert!(!held && told, "{}: {held}, {told}: {holds:?}", subject.name);
        proxy.restore();
        wait_until("it can be used again", SOON, || {
            matches!(object.try_lock_for(SOON), Ok(true)) && object.unlock().is_ok()
        });
        assert!(ours.stats().holds_lost as usize >= holds.len(), "{:?}", ours.stats());
    });
}

/// Also of several, of which each tells it.
fn is_expired(error: &zoolock::Error) -> bool {
    match error {
        zoolock::Error::Lost { reason, .. } => *reason == LossReason::LeaseExpired,
        zoolock::Error::Release { failures } => failures.iter().all(is_expired),
        _ => false,
    }
}
