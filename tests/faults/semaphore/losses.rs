//! What is lost: permits of clients that are gone, and nodes that operators delete.

use std::time::Duration;

use zoolock::{ClientState, HoldState, LossReason};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::{
    LEASES, LOCKS, acquiring, await_leases, await_turns, delete, is_free, leases, leases_of,
    locks_of, nodes, semaphore, turns, waiting_with_the_turn,
};
use common::{SESSION, SOON, client, client_of, is_lost, places_of, shared_address, shared_proxy};

/// Session timeouts of those that notice what happens to a node, a quarter of it later.
const SHORT: Duration = Duration::from_secs(4);

/// The turn is granted to the next meanwhile: neither waits for ever for what the other shows.
#[test]
fn a_turn_that_is_deleted_while_its_owner_waits_for_permits_is_queued_for_again() {
    // Long enough that the next one has the turn before the first one notices.
    let timeout = SHORT * 3;
    let clients = [0; 2].map(|_| client_of(&shared_address().to_string(), timeout));
    let path = fresh_path("sem-turn-lost");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 5));
    let held = own[0].acquire(2).unwrap();
    let first = waiting_with_the_turn(&own[0], 4);
    let [turn] = turns(&path).try_into().expect("one turn");
    let second = acquiring(&own[1], 4);
    await_turns(&path, 2);
    delete(&format!("{path}/{LOCKS}/{turn}"));
    // The next one shows what it wants beside what the first one does.
    await_leases(&path, 10);
    held.release().unwrap();
    // One of them notices that the turn is lost, and takes away what it has shown.
    wait_until("one is granted", SOON, || first.is_done() || second.is_done());
    let (one, other) = match first.is_done() {
        true => (first, second),
        false => (second, first),
    };
    let permits = one.result("one").unwrap();
    println!("{:?}, {:?}", leases(&path), turns(&path));
    assert!(!other.is_done(), "four and four of five");
    permits.release().unwrap();
    other.result("the other").unwrap().release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn a_turn_that_is_deleted_while_nothing_else_changes_is_queued_for_again() {
    let clients = [client(), client()];
    let path = fresh_path("sem-turn-lost-alone");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 5));
    let held = own[0].acquire(2).unwrap();
    let waiter = waiting_with_the_turn(&own[1], 4);
    let before = turns(&path);
    delete(&format!("{path}/{LOCKS}/{}", before[0]));
    let took = wait_until("there is another turn", SOON, || {
        let now = turns(&path);
        now.len() == 1 && now != before
    });
    println!("queued again after {took:?}");
    held.release().unwrap();
    waiter.result("the waiter").unwrap().release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn the_nodes_of_a_waiter_that_are_deleted_are_made_again() {
    let clients = [client(), client()];
    let path = fresh_path("sem-leases-deleted");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 4));
    let held = own[0].acquire(2).unwrap();
    let keep = nodes(&held);
    let waiter = waiting_with_the_turn(&own[1], 3);
    let mut shown = await_leases(&path, 5);
    shown.retain(|node| !keep.contains(node));
    for count in [1, 3] {
        for node in &shown[..count] {
            delete(&format!("{path}/{LEASES}/{node}"));
        }
        let gone = shown[..count].to_vec();
        let took = wait_until("they are made again", SOON, || {
            let now = leases(&path);
            now.len() == 5 && gone.iter().all(|node| !now.contains(node))
        });
        println!("{count} deleted, made again after {took:?}");
        assert!(!waiter.is_done(), "too many are out");
        shown = leases(&path);
        shown.retain(|node| !keep.contains(node));
    }
    assert_eq!(nodes(&held), keep);
    held.release().unwrap();
    let permits = waiter.result("the waiter").unwrap();
    assert_eq!(leases(&path), nodes(&permits));
    permits.release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn a_foreign_node_counts_as_a_permit_and_not_as_a_turn() {
    let client = client();
    let path = fresh_path("sem-foreign");
    let own = semaphore(&client, &path, 2);
    let probe = shared_probe().unwrap();
    probe.create_all(&locks_of(&path)).unwrap();
    probe.create_all(&leases_of(&path)).unwrap();
    let foreign = [format!("{path}/{LOCKS}/hello"), format!("{path}/{LEASES}/hello")];
    for node in &foreign {
        probe.create(node, b"", false, false).unwrap();
    }
    assert_eq!(own.available().unwrap(), 1);
    own.acquire(1).unwrap().release().unwrap();
    assert!(own.try_acquire(2).unwrap().is_none());
    let waiter = acquiring(&own, 2);
    await_leases(&path, 3);
    assert!(!waiter.is_done());
    probe.delete(&foreign[1]).unwrap();
    waiter.result("both").unwrap().release().unwrap();
    assert_eq!(own.available().unwrap(), 2);
    assert_eq!(await_turns(&path, 1), ["hello"]);
}

/// The turn is lost with the session; the place is, too, and the next one is let in.
#[test]
fn a_turn_that_expires_while_its_owner_waits_for_permits_goes_to_the_next() {
    let proxy = shared_proxy();
    let expired = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let path = fresh_path("sem-turn-expired");
    let (cut, own) = (semaphore(&expired, &path, 3), semaphore(&others, &path, 3));
    let held = own.acquire(2).unwrap();
    let first = waiting_with_the_turn(&cut, 3);
    let second = acquiring(&own, 2);
    let before = await_turns(&path, 2);
    proxy.refuse(true);
    proxy.cut();
    let ended = proxy.expire_sessions().unwrap();
    // The next one has the turn.
    await_leases(&path, 4);
    assert_eq!(turns(&path).len(), 1);
    proxy.refuse(false);
    wait_until("it has queued again", SOON, || {
        expired.state() == ClientState::Connected && turns(&path).len() == 2
    });
    let after = turns(&path);
    println!("{ended} ended; {before:?} became {after:?}");
    assert!(places_of(&after)[1] > places_of(&before)[1], "behind the next");
    assert!(!first.is_done() && !second.is_done());
    wait_until("what it has shown is gone", SOON, || leases(&path).len() == 4);
    held.release().unwrap();
    let second = second.result("the second").unwrap();
    await_leases(&path, 5);
    assert!(!first.is_done());
    second.release().unwrap();
    first.result("the first").unwrap().release().unwrap();
    is_free(&own, &[&expired, &others]);
}

/// Whoever has heard of it must not be told that one of them is held.
#[test]
fn permits_are_lost_together_when_the_node_of_one_is_deleted() {
    // Noticed a quarter of the session timeout after the grant; and by a release in any case.
    for noticed in [true, false] {
        let timeout = if noticed { SHORT } else { SESSION * 3 };
        let client = client_of(&shared_address().to_string(), timeout);
        let path = fresh_path("sem-node-deleted");
        let own = semaphore(&client, &path, 4);
        let (permits, others) = (own.acquire(3).unwrap(), own.acquire(1).unwrap());
        let holds = permits.holds();
        delete(&format!("{path}/{LEASES}/{}", holds[1].node()));
        if noticed {
            for lost in holds.iter().map(zoolock::Hold::lost).chain([permits.lost()]) {
                let heard = lost.recv_timeout(SOON);
                assert!(heard.is_err_and(|error| error.is_disconnected()));
                assert!(!holds.iter().any(zoolock::Hold::is_held) && !permits.is_held());
            }
            println!("{:?}: {holds:?}, {:?}", permits.state(), client.stats());
            assert_eq!(permits.state(), HoldState::Lost(LossReason::NodeDeleted));
            assert!(permits.valid_for().is_zero());
            // Those that were taken apart from them are not.
            assert!(others.lost().try_recv().is_err_and(|error| error.is_empty()));
            // Nobody holds the other two any more.
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
