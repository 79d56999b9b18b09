//! `DistributedSemaphore`: several permits of one call, and those who wait for some, whose requests,
//! answers or nodes are lost.

use std::time::Duration;

use zoolock::{ClientState, DistributedSemaphore, Error, Hold, HoldState, LossReason};
use zoolock_test_support::{Op, Then, fresh_path, shared_probe, wait_until};

use common::semaphore::*;
use common::{
    SESSION, SOON, Task, await_resumed, children, client, client_of, is_lost, shared_address,
    shared_proxy,
};

/// Session timeouts of those that notice what happens to a node, a quarter of it later.
const SHORT: Duration = Duration::from_secs(4);

/// The contracts of all subjects lose each request of a call for one permit.
#[test]
fn a_call_for_two_that_loses_a_request_or_an_answer_has_two_or_does_not_know_and_leaves_none() {
    let requests = [(Op::Create, 2), (Op::Create, 3), (Op::GetChildren, 1), (Op::GetChildren, 2)];
    for (op, nth) in requests {
        for (answer, tries) in [(false, false), (true, false), (false, true), (true, true)] {
            if tries && (op, nth) == (Op::Create, 3) {
                // It does not wait for a turn.
                continue;
            }
            let what = format!("{op:?} {nth}, answer: {answer}, tries: {tries}");
            let proxy = shared_proxy();
            let cut = client_of(&proxy.connect_string(), SESSION);
            let path = fresh_path("two");
            let own = semaphore(&cut, &path, 2);
            semaphore(&client(), &path, 2).acquire(1).unwrap().release().unwrap();
            let rule = proxy.on(op).nth(nth).path_contains(&path);
            let lost = match answer {
                true => rule.drop_answer(Then::Cut),
                false => rule.drop_request(Then::Cut),
            };
            let seen = if tries { own.try_acquire(2) } else { own.acquire(2).map(Some) };
            println!("{what}: {seen:?}");
            assert!(lost.fired(), "{what}: {:#?}", proxy.log());
            match seen {
                Ok(Some(permits)) if !tries => {
                    assert_eq!((permits.count(), permits.is_held()), (2, true), "{what}");
                    wait_until(&what, SOON, || leases(&path) == nodes(&permits));
                    permits.release().unwrap();
                }
                Err(Error::Disconnected { .. }) if tries => {}
                seen => panic!("{what}: {seen:?}"),
            }
            is_free(&own, &[&cut]);
        }
    }
}

#[test]
fn many_permits_outlive_cuts_and_keep_their_tokens_and_the_limit() {
    const COUNT: u32 = 500;
    let proxy = shared_proxy();
    let (cut, others) = (client_of(&proxy.connect_string(), SESSION * 3), client());
    let path = fresh_path("many");
    let [own, rival] = [&cut, &others].map(|client| semaphore(client, &path, COUNT + 1));
    let permits = own.acquire(COUNT).unwrap();
    let seen = || {
        let tokens = permits.holds().into_iter().map(|hold| hold.fencing_token().unwrap());
        (permits.state(), leases(&path), tokens.collect::<Vec<_>>())
    };
    let before = seen();
    for round in 1..=3 {
        proxy.cut();
        let took = await_resumed(&cut, round);
        println!("{COUNT} after {took:?}; valid for {:?}", permits.valid_for());
        assert!(seen() == before && permits.is_held(), "{:?}", permits.state());
        assert!(rival.try_acquire(2).unwrap().is_none(), "more than the limit");
        rival.acquire(1).unwrap().release().unwrap();
    }
    permits.release().unwrap();
    is_free(&own, &[&cut]);
}

/// Of the rest of the permits, whose deletions are lost with the connection.
#[test]
fn a_release_that_is_cut_is_completed_on_the_next_connection() {
    for (nth, answer) in [(1, false), (1, true), (2, false), (3, true)] {
        let proxy = shared_proxy();
        let (cut, others) = (client_of(&proxy.connect_string(), SESSION), client());
        let path = fresh_path("release-cut");
        let own = semaphore(&cut, &path, 3);
        let permits = own.acquire(3).unwrap();
        let waiter = waiting_with_the_turn(&semaphore(&others, &path, 3), 3);
        let rule = proxy.on(Op::Delete).nth(nth).path_contains(&leases_of(&path));
        let lost = match answer {
            true => rule.drop_answer(Then::Cut),
            false => rule.drop_request(Then::Cut),
        };
        permits.release().unwrap();
        assert!(lost.fired(), "delete {nth}, answer: {answer}: {:#?}", proxy.log());
        waiter.result("the waiter").unwrap().release().unwrap();
        is_free(&own, &[&cut, &others]);
    }
}

#[test]
fn without_a_connection_it_is_not_known_what_is_available() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let own = semaphore(&cut, &fresh_path("disconnected"), 2);
    proxy.refuse(true);
    proxy.cut();
    wait_until("it is suspended", SOON, || cut.state() == ClientState::Suspended);
    let seen = own.available();
    assert!(matches!(&seen, Err(Error::Disconnected { path }) if path == own.path()), "{seen:?}");
    proxy.refuse(false);
    is_free(&own, &[&cut]);
}

/// The last look was not answered in time; the one before it saw that others had too many.
#[test]
fn a_deadline_that_comes_during_a_later_look_is_a_timeout_and_not_an_error() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let proxy = shared_proxy();
    let (slow, others) = (client_of(&proxy.connect_string(), SESSION * 3), client());
    let path = fresh_path("slow-look");
    let (own, holder) = (semaphore(&slow, &path, 3), semaphore(&others, &path, 3));
    let [one, other] = [1, 1].map(|count| holder.acquire(count).unwrap());
    let waits = own.clone();
    let waiter = Task::spawn(move || waits.try_acquire_for(3, TIMEOUT));
    let answered = format!("< GetChildren {}", leases_of(&path));
    wait_until("it waits", SOON, || proxy.log().iter().any(|line| line.contains(&answered)));
    let list = proxy.on(Op::GetChildren).path_contains(&leases_of(&path)).hold_answer();
    one.release().unwrap();
    assert!(list.wait(SOON), "{:#?}", proxy.log());
    let seen = waiter.result("a call with a deadline");
    list.release();
    assert!(matches!(seen, Ok(None)), "others had too many: {seen:?}");
    assert_eq!(await_leases(&path, 1), nodes(&other));
    other.release().unwrap();
    is_free(&own, &[&slow, &others]);
}

/// Two clients of one semaphore, the first of which has some permits.
fn two(
    name: &str,
    limit: u32,
    session: Duration,
) -> ([zoolock::Client; 2], [DistributedSemaphore; 2]) {
    let clients = [(); 2].map(|()| client_of(&shared_address().to_string(), session));
    let path = fresh_path(name);
    let own = clients.each_ref().map(|client| semaphore(client, &path, limit));
    (clients, own)
}

/// The turn is granted to the next meanwhile: neither waits for ever for what the other shows.
#[test]
fn a_turn_that_is_deleted_while_its_owner_waits_for_permits_is_queued_for_again() {
    // Long enough that the next one has the turn before the first one notices.
    let (clients, own) = two("turn-lost", 5, SHORT * 3);
    let path = own[0].path();
    let held = own[0].acquire(2).unwrap();
    let first = waiting_with_the_turn(&own[0], 4);
    let turn = turns(path).remove(0);
    let second = acquiring(&own[1], 4);
    await_turns(path, 2);
    delete(&format!("{path}/{LOCKS}/{turn}"));
    // The next one shows what it wants beside what the first one does.
    await_leases(path, 10);
    held.release().unwrap();
    // One of them notices that the turn is lost, and takes away what it has shown.
    wait_until("one is granted", SOON, || first.is_done() || second.is_done());
    let (one, other) = if first.is_done() { (first, second) } else { (second, first) };
    let permits = one.result("one").unwrap();
    assert!(!other.is_done(), "four and four of five");
    permits.release().unwrap();
    other.result("the other").unwrap().release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn the_turn_and_the_nodes_of_a_waiter_that_are_deleted_while_nothing_else_changes_are_made_again() {
    let (clients, own) = two("deleted", 4, SESSION);
    let path = own[0].path();
    let held = own[0].acquire(2).unwrap();
    let keep = nodes(&held);
    let waiter = waiting_with_the_turn(&own[1], 3);
    for (part, count) in [(LOCKS, 1), (LEASES, 1), (LEASES, 3)] {
        let look = || children(&format!("{path}/{part}"));
        let all = if part == LOCKS { 1 } else { 5 };
        wait_until("all are there", SOON, || look().len() == all);
        let mut gone = look();
        gone.retain(|node| !keep.contains(node));
        gone.truncate(count);
        gone.iter().for_each(|node| delete(&format!("{path}/{part}/{node}")));
        wait_until(&format!("{gone:?} are made again"), SOON, || {
            let now = look();
            now.len() == all && gone.iter().all(|node| !now.contains(node))
        });
        assert!(!waiter.is_done(), "too many are out");
    }
    assert_eq!(nodes(&held), keep);
    held.release().unwrap();
    let permits = waiter.result("the waiter").unwrap();
    assert_eq!(leases(path), nodes(&permits));
    permits.release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn a_foreign_node_counts_as_a_permit_and_not_as_a_turn() {
    let client = client();
    let path = fresh_path("foreign");
    let own = semaphore(&client, &path, 2);
    let probe = shared_probe().unwrap();
    let foreign = [LOCKS, LEASES].map(|part| format!("{path}/{part}/hello"));
    for node in &foreign {
        probe.create_all(node.rsplit_once('/').unwrap().0).unwrap();
        probe.create(node, b"", false, false).unwrap();
    }
    assert_eq!(own.available().unwrap(), 1);
    own.acquire(1).unwrap().release().unwrap();
    assert!(own.try_acquire(2).unwrap().is_none());
    let waiter = acquiring(&own, 2);
    await_leases(&path, 3);
    assert!(!waiter.is_done());
    delete(&foreign[1]);
    waiter.result("both").unwrap().release().unwrap();
    assert_eq!(await_turns(&path, 1), ["hello"]);
}

/// Whoever has heard of it must not be told that one of them is held.
#[test]
fn permits_are_lost_together_when_the_node_of_one_is_deleted() {
    // Noticed a quarter of the session timeout after the grant; and by a release in any case.
    for noticed in [true, false] {
        let timeout = if noticed { SHORT } else { SESSION * 3 };
        let client = client_of(&shared_address().to_string(), timeout);
        let path = fresh_path("node-deleted");
        let own = semaphore(&client, &path, 4);
        let (permits, others) = (own.acquire(3).unwrap(), own.acquire(1).unwrap());
        let holds = permits.holds();
        delete(&format!("{path}/{LEASES}/{}", holds[1].node()));
        if noticed {
            for lost in holds.iter().map(Hold::lost).chain([permits.lost()]) {
                let heard = lost.recv_timeout(SOON);
                assert!(heard.is_err_and(|error| error.is_disconnected()));
                assert!(!holds.iter().any(Hold::is_held) && !permits.is_held());
            }
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
