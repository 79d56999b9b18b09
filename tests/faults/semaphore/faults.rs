//! Connections that end or fall silent, at every request and in every phase.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::{DistributedSemaphore, Error, HoldState, Permits};
use zoolock_test_support::{Op, Then, fresh_path, shared_probe, wait_until};

use super::{
    LEASES, LOCKS, Meter, acquiring, await_leases, await_turns, is_free, leases, nodes, semaphore,
    turns, waiting_with_the_turn,
};
use common::{SESSION, SOON, Task, await_resumed, client, client_of, shared_proxy};

/// What is silent for two thirds of it is given up.
const T: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(60);

/// The requests of an uncontended call for two: what, where, and the how manieth.
type Request = (Op, &'static str, u64);

const ACQUIRE: [Request; 6] = [
    (Op::Create, LOCKS, 1),
    (Op::GetChildren, LOCKS, 1),
    (Op::Create, LEASES, 1),
    (Op::Create, LEASES, 2),
    (Op::GetChildren, LEASES, 1),
    (Op::Delete, LOCKS, 1),
];
const TRY: [Request; 4] = [
    (Op::GetChildren, LEASES, 1),
    (Op::Create, LEASES, 1),
    (Op::Create, LEASES, 2),
    (Op::GetChildren, LEASES, 2),
];

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Lost, and the connection with it, or the connection silent from then on.
    Lost(Then),
    /// Held until the connection is cut.
    Held,
    /// Held for a while.
    Late,
}

const FAULTS: [Fault; 4] =
    [Fault::Lost(Then::Cut), Fault::Lost(Then::Hold), Fault::Held, Fault::Late];

/// Makes a call for two of two, with a fault at one of its requests or at its answer.
fn with_a_fault<R: Send + std::fmt::Debug + 'static>(
    (op, place, nth): Request,
    answer: bool,
    fault: Fault,
    call: fn(&DistributedSemaphore) -> R,
    end: fn(R) -> Option<Permits>,
) {
    let what = format!(
        "{op:?} {nth} in {place}, {}: {fault:?}",
        if answer { "answer" } else { "request" }
    );
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), T);
    let path = fresh_path("sem-fault");
    let probe = shared_probe().unwrap();
    for directory in [LOCKS, LEASES] {
        probe.create_all(&format!("{path}/{directory}")).unwrap();
    }
    let own = semaphore(&cut, &path, 2);
    let rule = proxy.on(op).nth(nth);
    let part = format!("{path}/{place}");
    let rule = rule.path_contains(&part);
    let mut dropped = None;
    let mut held = None;
    match (fault, answer) {
        (Fault::Lost(then), true) => dropped = Some(rule.drop_answer(then)),
        (Fault::Lost(then), false) => dropped = Some(rule.drop_request(then)),
        (_, true) => held = Some(rule.hold_answer()),
        (_, false) => held = Some(rule.hold_request()),
    }
    let begun = Instant::now();
    let calling = {
        let own = own.clone();
        Task::spawn(move || call(&own))
    };
    let came = match (&dropped, &held) {
        (Some(rule), _) => rule.wait(SOON),
        (_, Some(rule)) => rule.wait(SOON),
        _ => false,
    };
    assert!(came, "{what}: {:#?}", proxy.log());
    match fault {
        Fault::Held => proxy.cut(),
        Fault::Late => held.take().expect("a rule").release(),
        Fault::Lost(_) => {}
    }
    let seen = calling.result(&what);
    println!("{what}: {seen:?} after {:?}", begun.elapsed());
    let granted = end(seen);
    if let Some(permits) = &granted {
        assert_eq!((permits.count(), permits.is_held()), (2, true), "{what}");
        // Nodes of creates without an answer are not in the way for long.
        wait_until(&what, SOON, || leases(&path) == nodes(permits));
        await_turns(&path, 0);
    }
    drop(held);
    proxy.restore();
    drop(granted);
    let again = own.try_acquire_for(2, PATIENCE).unwrap();
    let again = again.unwrap_or_else(|| panic!("{what}: they do not come back"));
    again.release().unwrap();
    wait_until(&what, PATIENCE, || {
        let stats = cut.stats();
        common::in_use(&stats) == 0 && stats.deleting == 0
    });
    assert_eq!((leases(&path).len(), turns(&path).len()), (0, 0), "{what}");
    assert_eq!(own.available().unwrap(), 2, "{what}");
}

fn at_every_request<R: Send + std::fmt::Debug + 'static>(
    requests: &[Request],
    call: fn(&DistributedSemaphore) -> R,
    end: fn(R) -> Option<Permits>,
) {
    for fault in FAULTS {
        std::thread::scope(|scope| {
            for &request in requests {
                for answer in [false, true] {
                    scope.spawn(move || with_a_fault(request, answer, fault, call, end));
                }
            }
        });
    }
}

#[test]
fn a_fault_at_any_request_of_an_acquire_costs_neither_permits_nor_leaves_any() {
    at_every_request(&ACQUIRE, |own| own.acquire(2), |seen| Some(seen.unwrap()));
}

#[test]
fn a_fault_at_any_request_of_a_try_is_told_and_leaves_nothing() {
    at_every_request(
        &TRY,
        |own| own.try_acquire(2),
        |seen| match seen {
            Ok(Some(permits)) => Some(permits),
            Ok(None) => panic!("nobody else is there"),
            Err(Error::Disconnected { .. }) => None,
            Err(error) => panic!("{error:?}"),
        },
    );
}

#[test]
fn a_waiter_with_the_turn_that_is_cut_again_and_again_gets_its_permits() {
    const CUTS: u64 = 8;
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let path = fresh_path("sem-cut-again");
    let (own, holder) = (semaphore(&cut, &path, 5), semaphore(&others, &path, 5));
    let held = holder.acquire(1).unwrap();
    let waiter = waiting_with_the_turn(&own, 5);
    let behind = acquiring(&holder, 1);
    let before = await_turns(&path, 2);
    for round in 1..=CUTS {
        match round % 2 {
            0 => proxy.cut(),
            _ => proxy.reset(),
        }
        await_resumed(&cut, round);
    }
    assert_eq!(turns(&path), before);
    await_leases(&path, 6);
    assert!(!waiter.is_done() && !behind.is_done());
    held.release().unwrap();
    let permits = waiter.result("the waiter").unwrap();
    println!("{:?}, {:?}", permits.count(), cut.stats());
    assert!(!behind.is_done(), "all five are out");
    permits.release().unwrap();
    behind.result("the next").unwrap().release().unwrap();
    is_free(&own, &[&cut, &others]);
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
