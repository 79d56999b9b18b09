//! `DistributedSemaphore` with lost requests, answers or nodes, while calls hold several permits or wait for them.

use zoolock::{ClientState, Error, Hold, HoldState, LossReason};

use super::SHORT;
use common::semaphore::*;
use common::*;

#[test]
fn availability_is_unknown_without_a_connection() {
    let (proxy, cut) = behind_a_proxy(SESSION);
    let own = semaphore(&cut, &fresh_path("disconnected"), 2);
    proxy.cut_off();
    wait_until("it is suspended", SOON, || cut.state() == ClientState::Suspended);
    let seen = own.available();
    assert!(
        matches!(&seen, Err(Error::Disconnected { path, .. }) if path == own.path()),
        "{seen:?}"
    );
    proxy.refuse(false);
    is_free(&own, &[&cut]);
}

/// When the observer is notified of the loss, it must find that the guard holds no permit any longer.
#[test]
fn deletion_of_one_permit_loses_all_permits_of_the_guard() {
    // The client detects the deletion a quarter of a session timeout after the grant, or when it releases the permits.
    for noticed in [true, false] {
        let timeout = if noticed { SHORT } else { SESSION * 3 };
        let client = client_of(&shared_address().to_string(), timeout);
        let path = fresh_path("node-deleted");
        let own = semaphore(&client, &path, 4);
        let (permits, others) = (own.acquire(3).unwrap(), own.acquire(1).unwrap());
        let holds = permits.holds();
        // If all are deleted, the release finds each of them deleted, which is still one loss.
        for hold in if noticed { &holds[1..2] } else { &holds[..] } {
            shared_probe().unwrap().delete(&format!("{path}/leases/{}", hold.node())).unwrap();
        }
        if noticed {
            for lost in holds.iter().map(Hold::ended).chain([permits.ended()]) {
                let received = lost.recv_timeout(SOON);
                assert!(received.is_err_and(|error| error.is_disconnected()));
                assert!(!holds.iter().any(Hold::is_held) && !permits.is_held());
            }
            assert_eq!(permits.state(), HoldState::Lost(LossReason::NodeDeleted));
            assert!(permits.valid_for().is_zero());
            // The permits of the other call are still held.
            assert!(others.ended().try_recv().is_err_and(|error| error.is_empty()));
            // The guard's other two permits are released.
            await_leases(&path, 1);
        }
        let released = permits.release().expect_err("one was lost");
        println!("noticed: {noticed}; {released}");
        assert!(is_lost(&released, &path, LossReason::NodeDeleted));
        assert_eq!(client.stats().holds_lost, 1, "one loss");
        assert_eq!(await_leases(&path, 1), nodes(&others), "two were released");
        others.release().unwrap();
        is_free(&own, &[&client]);
    }
}

/// The turn node is deleted later, in the background.
#[test]
fn permits_are_shown_as_held_before_their_turn_is_given_back() {
    let ((proxy, own), others) = (behind_a_proxy(SESSION), client());
    let path = fresh_path("late-turn");
    let held = semaphore(&others, &path, 2).acquire(2).unwrap();
    let waits = semaphore(&own, &path, 2);
    let waiter = Task::spawn_blocked(move || waits.acquire(2));
    await_leases(&path, 4);
    let giving_back = proxy.on(Op::Multi).path_contains("/locks").hold_request();
    held.release().unwrap();
    let permits = waiter.result("the call with the turn").unwrap();
    assert!(giving_back.wait(SOON), "its turn is still there");
    let seen = others.contenders(&path).unwrap();
    assert!(seen.len() == 2 && seen.iter().all(|one| one.holds), "{seen:#?}");
    for hold in permits.holds() {
        assert!(others.verify_token(&path, hold.fencing_token()).unwrap(), "{hold:?}");
    }
    giving_back.release();
    permits.release().unwrap();
}
