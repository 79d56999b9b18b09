//! Creates whose request or answer is lost, or comes when its caller has gone.

use std::time::{Duration, Instant};

use zoolock::Error;
use zoolock_test_support::{Direction, Op, Then, fresh_path, shared_probe, wait_until};

use super::Faulty;
use common::{
    SESSION, SOON, Task, TwoWays, children, client, client_of, lock_of, shared_proxy, stat,
};

#[test]
fn a_create_whose_answer_is_lost_leaves_exactly_one_node() {
    let faulty = Faulty::start("answer-lost", SESSION);
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_answer(Then::Cut);
    let begun = Instant::now();
    faulty.locking().result("lock()").unwrap();
    println!("locked in {:?}, {:?}", begun.elapsed(), faulty.client.stats());
    assert!(lost.fired(), "{}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn a_create_whose_request_is_lost_is_sent_again() {
    let faulty = Faulty::start("request-lost", SESSION);
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_request(Then::Cut);
    faulty.locking().result("lock()").unwrap();
    assert!(lost.fired(), "{}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn several_lost_answers_in_a_row_leave_exactly_one_node() {
    let faulty = Faulty::start("answers-lost", SESSION);
    let on = |op, nth| faulty.proxy.on(op).nth(nth).path_contains(&faulty.path);
    let create = on(Op::Create, 1).drop_answer(Then::Cut);
    // The first list is behind the create.
    let lists = [2, 3, 4].map(|nth| on(Op::GetChildren, nth).drop_answer(Then::Cut));
    let look = on(Op::Exists, 1).drop_answer(Then::Cut);
    faulty.locking().result("lock()").unwrap();
    assert!(create.fired() && lists.iter().all(|list| list.fired()), "{}", faulty.log());
    assert!(look.fired(), "{}", faulty.log());
    assert_eq!(faulty.proxy.requests(Op::Create), 1, "it was found: {}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn several_lost_creates_in_a_row_leave_exactly_one_node() {
    let faulty = Faulty::start("creates-lost", SESSION);
    let on = |nth| faulty.proxy.on(Op::Create).nth(nth).path_contains(&faulty.path);
    let lost = [on(1).drop_request(Then::Cut), on(2).drop_request(Then::Cut)];
    let last = on(3).drop_answer(Then::Cut);
    faulty.locking().result("lock()").unwrap();
    assert!(lost.iter().all(|rule| rule.fired()) && last.fired(), "{}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn try_lock_does_not_know_after_a_lost_answer_and_leaves_nothing() {
    let faulty = Faulty::start("try-answer-lost", Duration::from_secs(3));
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_answer(Then::Cut);
    let seen = faulty.lock.try_lock();
    println!("{seen:?}");
    assert!(matches!(&seen, Err(Error::Disconnected { path }) if *path == faulty.path), "{seen:?}");
    assert!(lost.fired(), "{}", faulty.log());
    faulty.becomes_empty();
    faulty.has_nothing_to_delete();
    assert!(faulty.lock.try_lock_for(SOON).unwrap());
    faulty.lock.unlock().unwrap();
}

#[test]
fn nothing_of_an_expired_session_is_adopted() {
    let faulty = Faulty::start("expired", Duration::from_secs(3));
    // The create gets through, its answer does not.
    faulty.proxy.black_hole(Direction::ToClient);
    let locking = faulty.locking();
    let mut node = None;
    wait_until("the node is there", SOON, || {
        node = children(&faulty.path).pop();
        node.is_some()
    });
    faulty.proxy.black_hole(Direction::Both);
    let node = node.unwrap();
    let old = stat(&format!("{}/{node}", faulty.path)).ephemeral_owner;
    let took = wait_until("the session has expired", SOON, || children(&faulty.path).is_empty());
    println!("{node} of {old:#x} went after {took:?}");
    assert!(!locking.is_done(), "it was never told that it has the lock");
    // Now the old answer comes, too.
    faulty.proxy.restore();
    locking.result("lock()").unwrap();
    let hold = faulty.lock.hold().unwrap();
    let new = stat(&format!("{}/{}", faulty.path, hold.node()));
    println!("{hold:?} of {:#x}", new.ephemeral_owner);
    assert_ne!(hold.node(), node);
    assert_ne!(new.ephemeral_owner, old);
    assert_ne!(new.ephemeral_owner, 0);
    faulty.has_one_node_until_unlocked();
}

#[test]
fn a_create_is_undone_when_its_caller_gave_up_and_its_answer_was_lost() {
    let faulty = Faulty::start("given-up-lost", SESSION);
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_answer(Then::Hold);
    let begun = Instant::now();
    let seen = faulty.lock.try_lock_for(Duration::from_millis(500));
    println!("{seen:?} after {:?}", begun.elapsed());
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    assert!(lost.fired(), "{}", faulty.log());
    assert_eq!(children(&faulty.path).len(), 1, "{}", faulty.log());
    faulty.proxy.cut();
    faulty.becomes_empty();
}

#[test]
fn a_create_in_flight_when_its_caller_gives_up_is_undone_when_it_appears() {
    let faulty = Faulty::start("given-up-held", SESSION);
    let held = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let held = held.hold_request();
    let begun = Instant::now();
    let seen = faulty.lock.try_lock_for(Duration::from_millis(500));
    println!("{seen:?} after {:?}", begun.elapsed());
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    assert!(held.fired(), "{}", faulty.log());
    assert_eq!(children(&faulty.path), [""; 0], "the create is held");
    held.release();
    wait_until("the node is deleted", SOON, || faulty.proxy.requests(Op::Delete) > 0);
    faulty.becomes_empty();
    faulty.has_nothing_to_delete();
    // The object is as good as new.
    assert!(faulty.lock.try_lock_for(SOON).unwrap());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn a_create_answered_after_its_caller_was_cancelled_is_undone() {
    let faulty = Faulty::start("cancelled-held", SESSION);
    let held = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let held = held.hold_answer();
    let locking = faulty.locking();
    assert!(held.wait(SOON), "{}", faulty.log());
    faulty.lock.cancel_waiters();
    let seen = locking.result("the cancelled lock()");
    println!("{seen:?}");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
    held.release();
    faulty.becomes_empty();
}

/// For clients with a session timeout of a minute: sooner than they notice a silence.
const PROMPT: Duration = Duration::from_secs(10);

#[test]
fn the_node_of_a_lost_answer_is_found_by_another_way() {
    let ways = TwoWays::start(Duration::from_secs(60));
    ways.first.refuse(true);
    let path = fresh_path("lives-on");
    shared_probe().unwrap().create_all(&path).unwrap();
    let lost = ways.first.on(Op::Create).path_contains(&path);
    let lost = lost.drop_answer(Then::Cut);
    let lock = lock_of(&ways.client, &path);
    let waiting = lock.clone();
    let locking = Task::spawn(move || waiting.lock());
    let took = wait_until("it is locked", PROMPT, || locking.is_done());
    println!("locked after {took:?}, {:?}", ways.client.stats());
    locking.result("lock()").unwrap();
    assert!(lost.fired(), "{}", ways.log());
    assert_eq!(children(&path), [lock.hold().unwrap().node()]);
    lock.unlock().unwrap();
}

#[test]
fn a_grant_whose_heartbeat_is_given_up_deletes_the_node() {
    let session = Duration::from_secs(6);
    let faulty = Faulty::start("heartbeat", session);
    let holders = client();
    let holder = lock_of(&holders, &faulty.path);
    holder.lock().unwrap();
    let waiting = faulty.locking();
    // Who has waited for more than half of the session timeout has too little left of the lease.
    let begun = Instant::now();
    wait_until("it has waited for long", SOON, || begun.elapsed() > session * 3 / 4);
    let heartbeat = faulty.proxy.on(Op::SetData).path_contains("no-such-node").hold_answer();
    holder.unlock().unwrap();
    assert!(heartbeat.wait(SOON), "{}", faulty.log());
    assert!(!waiting.is_done() && !faulty.lock.is_held());
    faulty.lock.cancel_waiters();
    let seen = waiting.result("the waiter");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
    heartbeat.release();
    faulty.becomes_empty();
    faulty.has_nothing_to_delete();
}

#[test]
fn an_answer_that_belongs_to_another_create_is_not_believed() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let paths = [fresh_path("mixed-up"), fresh_path("mixed-up")];
    let locks = paths.each_ref().map(|path| {
        shared_probe().unwrap().create_all(path).unwrap();
        lock_of(&client, path)
    });
    // From here on every answer could be taken for that to the request before.
    let lost = proxy.on(Op::Create).path_contains(&paths[0]);
    let lost = lost.drop_answer(Then::Continue);
    let locking = locks.each_ref().map(|lock| {
        let lock = lock.clone();
        let task = Task::spawn(move || lock.lock());
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        task
    });
    // Silence would be noticed after 20 s at the earliest.
    let took = wait_until("both are locked", PROMPT, || locking.iter().all(Task::is_done));
    println!("locked after {took:?}");
    for locking in locking {
        locking.result("lock()").unwrap();
    }
    for (lock, path) in locks.iter().zip(&paths) {
        let node = lock.hold().unwrap().node();
        wait_until("its node alone is there", SOON, || children(path) == [node.as_str()]);
        lock.unlock().unwrap();
    }
    println!("{:?}", client.stats());
    assert_eq!(client.stats().connections, 2);
}

#[test]
fn a_directory_deleted_before_the_create_is_made_again() {
    const ROUNDS: u64 = 3;
    let faulty = Faulty::start("deleted-between", SESSION);
    let probe = shared_probe().unwrap();
    let nodes = format!("{}/_c_", faulty.path);
    let mut held = faulty.proxy.on(Op::Create).path_contains(&nodes).hold_request();
    let locking = faulty.locking();
    for round in 1..=ROUNDS {
        assert!(held.wait(SOON), "round {round}: {}", faulty.log());
        probe.delete(&faulty.path).unwrap();
        let next = faulty.proxy.on(Op::Create).path_contains(&nodes);
        let next = next.hold_request();
        held.release();
        held = next;
    }
    held.release();
    locking.result("lock()").unwrap();
    faulty.has_one_node_until_unlocked();
}
