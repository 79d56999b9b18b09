//! Lost answers to the create, and creates that are still on their way when the caller has gone.

use zoolock_test_support::{Op, Then};

use super::*;
use common::TwoWays;

/// Another client that waits for the lock, and asks at its grant whether the first one holds it.
fn rival_of(lock: &EphemeralLock) -> (Client, EphemeralLock, Task<Result<bool>>) {
    let rivals = client();
    let rival = lock_of(&rivals, lock.path());
    let (waiting, first) = (rival.clone(), lock.clone());
    let granted = Task::spawn(move || waiting.lock().map(|()| first.is_held()));
    (rivals, rival, granted)
}

#[test]
fn a_create_whose_answer_is_lost_is_found_on_the_next_connection() {
    for then in [Then::Cut, Then::Hold] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
        let path = fresh_path("lost");
        make_parents(&path);
        let lock = lock_of(&client, &path);
        let lost = proxy.on(Op::Create).path_contains(&path).drop_answer(then);
        let begun = Instant::now();
        let locking = locking(&lock);
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        let made = node_at(&path).expect("its node");
        locking.result("lock()").unwrap();
        println!("{then:?}: locked in {:?}: {made:?}", begun.elapsed());
        assert_eq!(node_at(&path).as_ref(), Some(&made));
        assert_eq!(hold_of(&lock).fencing_token().unwrap(), made.1.czxid as u64);
        let stats = client.stats();
        assert_eq!((stats.connections, stats.sessions), (2, 1), "{stats:?}");
        lock.unlock().unwrap();
        assert!(!exists(&path));
        is_tidy(&client, SOON);
    }
}

#[test]
fn the_node_of_a_lost_answer_is_found_by_another_way() {
    let ways = TwoWays::start(Duration::from_secs(60));
    let path = fresh_path("another-way");
    make_parents(&path);
    let lock = lock_of(&ways.client, &path);
    let lost = ways.first.on(Op::Create).path_contains(&path).drop_answer(Then::Cut);
    ways.first.refuse(true);
    ways.second.refuse(true);
    let locking = locking(&lock);
    assert!(lost.wait(SOON), "{}", ways.log());
    let made = stat_of(&path);
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    assert!(!rival.try_lock().unwrap(), "busy for everybody");
    ways.second.refuse(false);
    let took = wait_until("it is locked", PROMPT, || locking.is_done());
    locking.result("lock()").unwrap();
    println!("locked {took:?} after there was a way, {:?}", ways.client.stats());
    assert_eq!(stat_of(&path), made);
    assert!(!lock_of(&ways.client, &path).try_lock().unwrap(), "another object is a rival");
    lock.unlock().unwrap();
    assert!(rival.try_lock().unwrap());
    rival.unlock().unwrap();
    assert_eq!(ways.client.stats().sessions, 1);
}

#[test]
fn a_rival_and_the_caller_of_a_lost_create_are_never_both_in() {
    for then in [Then::Cut, Then::Hold] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SHORT);
        let path = fresh_path("both");
        make_parents(&path);
        let lock = lock_of(&client, &path);
        let lost = proxy.on(Op::Create).path_contains(&path).drop_answer(then);
        let locking = locking(&lock);
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        let (_rivals, rival, granted) = rival_of(&lock);
        let mut order = Vec::new();
        wait_until("one of both is in", SOON, || granted.is_done() || locking.is_done());
        for _ in 0..2 {
            wait_until("the next is in", SOON, || lock.is_held() || rival.is_held());
            assert!(!(lock.is_held() && rival.is_held()), "both are in");
            let first = lock.is_held();
            order.push(if first { "caller" } else { "rival" });
            match first {
                true => lock.unlock().unwrap(),
                false => rival.unlock().unwrap(),
            }
        }
        println!("{then:?}: let in {order:?}");
        locking.result("the caller").unwrap();
        assert!(!granted.result("the rival").unwrap(), "both were in");
        assert!(!exists(&path));
    }
}

#[test]
fn try_lock_does_not_know_after_a_lost_answer_and_leaves_nothing() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("try-lost");
    make_parents(&path);
    let lock = lock_of(&client, &path);
    let lost = proxy.on(Op::Create).path_contains(&path).drop_answer(Then::Cut);
    let seen = lock.try_lock();
    println!("{seen:?}");
    assert!(matches!(&seen, Err(Error::Disconnected { path: at }) if *at == path), "{seen:?}");
    assert!(lost.fired(), "{:#?}", proxy.log());
    println!("gone after {:?}", await_gone(&path, SOON));
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
    is_tidy(&client, SOON);
}

/// How a caller gives up.
#[derive(Debug, Clone, Copy, PartialEq)]
enum GivesUp {
    AtItsDeadline,
    Cancelled,
}

#[test]
fn a_create_in_flight_whose_caller_gives_up_leaves_nothing_on_a_healthy_connection() {
    for how in [GivesUp::AtItsDeadline, GivesUp::Cancelled] {
        for answer in [false, true] {
            let proxy = shared_proxy();
            // Nothing ends its session meanwhile.
            let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
            let path = fresh_path("in-flight");
            make_parents(&path);
            let lock = lock_of(&client, &path);
            let create = proxy.on(Op::Create).path_contains(&path);
            let held = match answer {
                true => create.hold_answer(),
                false => create.hold_request(),
            };
            let seen = match how {
                GivesUp::AtItsDeadline => lock.try_lock_for(Duration::from_millis(300)).map(drop),
                GivesUp::Cancelled => {
                    let waiting = locking(&lock);
                    assert!(held.wait(SOON), "{:#?}", proxy.log());
                    lock.cancel_waiters();
                    waiting.result("a cancelled waiter")
                }
            };
            assert!(held.wait(SOON), "{:#?}", proxy.log());
            let there = exists(&path);
            held.release();
            wait_until("it was deleted", PROMPT, || proxy.requests(Op::Delete) == 1);
            let took = await_gone(&path, PROMPT);
            println!(
                "{how:?}, answer held: {answer}: {seen:?}; there before: {there}, gone {took:?} after"
            );
            let expected = match how {
                GivesUp::AtItsDeadline => matches!(seen, Err(Error::Disconnected { .. })),
                GivesUp::Cancelled => matches!(seen, Err(Error::Cancelled { .. })),
            };
            assert!(expected && there == answer, "{seen:?}");
            is_tidy(&client, SOON);
            assert!(lock.try_lock().unwrap());
            lock.unlock().unwrap();
            assert_eq!(client.stats().connections, 1, "{:?}", client.stats());
        }
    }
}

#[test]
fn an_answer_that_belongs_to_another_request_grants_nothing() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let holders = common::client();
    let path = fresh_path("mixed-up");
    let (taken, free) = (format!("{path}/a/lock"), format!("{path}/b/lock"));
    make_parents(&taken);
    make_parents(&free);
    let holder = lock_of(&holders, &taken);
    holder.lock().unwrap();
    let (node, _) = node_at(&taken).unwrap();
    let locks = [lock_of(&client, &taken), lock_of(&client, &free)];
    // From here on every answer could be taken for that to the request before.
    let lost = proxy.on(Op::Create).path_contains(&taken).drop_answer(Then::Continue);
    let tasks = locks.each_ref().map(|lock| {
        let task = locking(lock);
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        task
    });
    // Silence would be noticed after 20 s at the earliest.
    wait_until("the free one is locked, or the taken one", PROMPT, || {
        tasks[1].is_done() || tasks[0].is_done()
    });
    println!("{:?}: {:?}", client.stats(), locks.each_ref().map(|lock| lock.hold()));
    assert!(!tasks[0].is_done() && !locks[0].is_held(), "two hold {taken}");
    assert_eq!(node_at(&taken).unwrap().0, node);
    tasks[1].result("the free one").unwrap();
    assert_eq!(client.stats().connections, 2);
    holder.unlock().unwrap();
    tasks[0].result("the taken one").unwrap();
    for lock in &locks {
        lock.unlock().unwrap();
    }
}
