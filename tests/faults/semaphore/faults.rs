//! Connections that end or fall silent, at every request and in every phase.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::{Error, HoldState};
use zoolock_test_support::{Op, Then, fresh_path, wait_until};

use super::{
    LEASES, Meter, await_leases, is_free, leases, nodes, semaphore, waiting_with_the_turn,
};
use common::{SESSION, SOON, Task, await_resumed, client, client_of, shared_proxy};

const T: Duration = Duration::from_secs(6);

/// The contracts of all subjects lose each request of a call for one permit.
#[test]
fn a_call_for_two_that_loses_the_second_create_has_two_or_does_not_know_and_leaves_none() {
    for (answer, tries) in [(false, false), (true, false), (false, true), (true, true)] {
        for then in [Then::Cut, Then::Hold] {
            let what = format!("answer: {answer}, tries: {tries}, then {then:?}");
            let proxy = shared_proxy();
            let cut = client_of(&proxy.connect_string(), T);
            let path = fresh_path("sem-fault");
            let own = semaphore(&cut, &path, 2);
            let part = format!("{path}/{LEASES}");
            let rule = proxy.on(Op::Create).nth(2).path_contains(&part);
            let lost = match answer {
                true => rule.drop_answer(then),
                false => rule.drop_request(then),
            };
            let seen = match tries {
                true => own.try_acquire(2),
                false => own.acquire(2).map(Some),
            };
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
fn permits_that_are_cut_off_again_and_again_are_kept_and_never_more_than_the_limit() {
    const LIMIT: u32 = 6;
    const CUTS: u64 = 6;
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let path: &str = fresh_path("sem-kept").leak();
    let (own, rival) = (semaphore(&cut, path, LIMIT), semaphore(&others, path, LIMIT));
    let held = [own.acquire(3).unwrap(), own.acquire(1).unwrap()];
    let meter = Arc::new(Meter::default());
    let over = Arc::new(AtomicBool::new(false));
    let rivals = {
        let (meter, over) = (Arc::clone(&meter), Arc::clone(&over));
        Task::spawn(move || {
            let mut taken = 0;
            while !over.load(Ordering::SeqCst) {
                if let Some(permits) = rival.try_acquire_for(2, SOON).unwrap() {
                    taken += 1;
                    meter.use_up(permits, |_| {});
                }
                assert!(rival.try_acquire(3).unwrap().is_none(), "four are out");
            }
            taken
        })
    };
    let most = {
        let over = Arc::clone(&over);
        Task::spawn(move || {
            let mut most = 0;
            while !over.load(Ordering::SeqCst) {
                most = most.max(leases(path).len());
            }
            most
        })
    };
    for round in 1..=CUTS {
        match round % 2 {
            0 => proxy.cut(),
            _ => proxy.reset(),
        }
        let took = await_resumed(&cut, round);
        println!("round {round}: resumed after {took:?}");
        for permits in &held {
            assert_eq!(permits.state(), HoldState::Held);
        }
        let (now, mine) = (leases(path), held.iter().flat_map(nodes));
        mine.for_each(|node| assert!(now.contains(&node), "{node} is not among {now:?}"));
    }
    over.store(true, Ordering::SeqCst);
    let taken = rivals.result("the rival");
    // A try that fails shows nothing unless others come or go just then.
    let most = most.result("the witness");
    println!("at most {most} nodes; the rival was let in {taken} times");
    assert!(most <= LIMIT as usize, "{most} nodes");
    assert!(taken > 0);
    assert_eq!(cut.stats().holds_lost, 0);
    for permits in held {
        permits.release().unwrap();
    }
    meter.never_saw_more_than(2);
    is_free(&own, &[&cut, &others]);
}

#[test]
fn many_permits_outlive_a_cut_and_keep_their_tokens() {
    const COUNT: u32 = 500;
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("sem-many");
    let own = semaphore(&cut, &path, COUNT);
    let permits = own.acquire(COUNT).unwrap();
    let holds = permits.holds();
    let tokens = || -> Vec<_> { holds.iter().map(|h| h.fencing_token().unwrap()).collect() };
    let (before, known) = (leases(&path), tokens());
    proxy.cut();
    let took = await_resumed(&cut, 1);
    println!("{COUNT} after {took:?}; valid for {:?}", permits.valid_for());
    assert_eq!(permits.state(), HoldState::Held);
    let after = await_leases(&path, COUNT as usize);
    assert_eq!((after, tokens()), (before, known));
    permits.release().unwrap();
    is_free(&own, &[&cut]);
}

/// Of the rest of the permits, whose deletions are lost with the connection.
#[test]
fn a_release_that_is_cut_is_completed_on_the_next_connection() {
    for (nth, answer) in [(1, false), (1, true), (2, false), (3, true)] {
        let proxy = shared_proxy();
        let cut = client_of(&proxy.connect_string(), T);
        let others = client();
        let path = fresh_path("sem-release-cut");
        let own = semaphore(&cut, &path, 3);
        let permits = own.acquire(3).unwrap();
        let waiter = waiting_with_the_turn(&semaphore(&others, &path, 3), 3);
        let rule = proxy.on(Op::Delete).nth(nth);
        let part = format!("{path}/{LEASES}");
        let rule = rule.path_contains(&part);
        let lost = match answer {
            true => rule.drop_answer(Then::Cut),
            false => rule.drop_request(Then::Cut),
        };
        let begun = Instant::now();
        let released = permits.release();
        println!("delete {nth}, answer: {answer}: {released:?} after {:?}", begun.elapsed());
        released.unwrap();
        assert!(lost.fired());
        waiter.result("the waiter").unwrap().release().unwrap();
        is_free(&own, &[&cut, &others]);
    }
}
