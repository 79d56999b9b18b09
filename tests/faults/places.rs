//! Keeping one's place over the end of a connection, and being let in around that moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::{ClientState, DistributedReentrantLock, HoldState};
use zoolock_test_support::{Direction, FaultProxy, Op, Then, fresh_path, wait_until};

use common::basics::{await_nodes, hold_of};
use common::line::{Line, has_one_node_until_unlocked};
use common::{
    SESSION, SOON, Task, TwoWays, await_resumed, children, client, client_of, lock_of, place,
    shared_proxy,
};

/// How a connection ends, and its name.
type End = (&'static str, fn(&FaultProxy));

const ENDS: [End; 3] =
    [("cut", FaultProxy::cut), ("reset", FaultProxy::reset), ("black hole", silence)];

fn silence(proxy: &FaultProxy) {
    proxy.black_hole(Direction::Both);
}

#[test]
fn a_place_is_kept_whatever_ends_the_connection() {
    for (what, end) in ENDS {
        // A silent connection is given up after a third of it while something is held.
        let ways = TwoWays::start(Duration::from_secs(8));
        let path = fresh_path("kept");
        let own = lock_of(&ways.client, &format!("{path}-own"));
        own.lock().unwrap();
        let others = client();
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let mut line = Line::at(&path);
        line.join(&ways.client);
        line.join(&others);
        line.join(&ways.client);
        let before = children(&path);
        end(&ways.first);
        let took = await_resumed(&ways.client, 1);
        assert_eq!(children(&path), before);
        println!("{what}: resumed after {took:?}; {:?}", ways.client.stats());
        assert!(!line.is_let_in());
        assert!(own.is_held(), "{:?}", own.hold());
        held.unlock().unwrap();
        line.comes_in_order();
        has_one_node_until_unlocked(&own);
        assert_eq!(ways.client.stats().holds_lost, 0);
    }
}

#[test]
fn a_turn_that_came_while_the_connection_was_gone_is_taken_on_the_next() {
    for (what, end) in ENDS {
        let ways = TwoWays::start(SESSION);
        let path = fresh_path("turn-came");
        let own = lock_of(&ways.client, &format!("{path}-own"));
        own.lock().unwrap();
        let others = client();
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let mut line = Line::at(&path);
        line.join(&ways.client);
        line.join(&others);
        ways.second.refuse(true);
        ways.first.refuse(true);
        end(&ways.first);
        held.unlock().unwrap();
        assert_eq!(children(&path).len(), 2, "{}", ways.log());
        let begun = Instant::now();
        ways.second.refuse(false);
        line.comes_in_order();
        println!("{what}: both let in {:?} after there was a way again", begun.elapsed());
        await_resumed(&ways.client, 1);
        assert_eq!(own.hold().unwrap().state(), HoldState::Held);
        own.unlock().unwrap();
    }
}

#[test]
fn a_waiter_that_is_cut_again_and_again_keeps_its_place() {
    const CUTS: u64 = 10;
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let path = fresh_path("again");
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let mut line = Line::at(&path);
    line.join(&cut);
    line.join(&others);
    let before = children(&path);
    for round in 1..=CUTS {
        match round % 2 {
            0 => proxy.cut(),
            _ => proxy.reset(),
        }
        await_resumed(&cut, round);
    }
    assert_eq!(children(&path), before);
    println!("{before:?} after {CUTS} cuts: {:?}", cut.stats());
    held.unlock().unwrap();
    line.comes_in_order();
    assert_eq!(children(&path), [""; 0]);
}

/// A waiter whose turn has come, and the list that says so on its way to it.
fn turn_on_its_way(path: &str) -> (FaultProxy, zoolock::Client, Line, zoolock_test_support::Hold) {
    let proxy = shared_proxy();
    let waiting = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let held = lock_of(&others, path);
    held.lock().unwrap();
    let mut line = Line::at(path);
    let watches = proxy.requests(Op::GetData);
    line.join(&waiting);
    wait_until("it watches the one ahead", SOON, || proxy.requests(Op::GetData) > watches);
    let list = proxy.on(Op::GetChildren).path_contains(path).hold_answer();
    held.unlock().unwrap();
    assert!(list.wait(SOON), "{:#?}", proxy.log());
    (proxy, waiting, line, list)
}

#[test]
fn a_grant_that_arrives_as_the_connection_dies_is_checked_on_the_next() {
    let path = fresh_path("grant-cut");
    let (proxy, waiting, line, list) = turn_on_its_way(&path);
    let node = await_nodes(&path, 1);
    assert!(!line.is_let_in());
    // The next look is held, too: nothing is granted before it.
    let look = proxy.on(Op::GetChildren).path_contains(&path).hold_answer();
    proxy.cut();
    assert!(look.wait(SOON), "{:#?}", proxy.log());
    list.release();
    assert_eq!(children(&path), node);
    assert!(!line.is_let_in(), "let in by an answer of a dead connection");
    look.release();
    line.comes_in_order();
    let stats = waiting.stats();
    println!("{stats:?}");
    assert_eq!((stats.resumed, stats.connections), (1, 2));
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_grant_that_arrives_as_the_session_ends_lets_nobody_in_beside_the_next() {
    let path = fresh_path("grant-expired");
    let (proxy, waiting, line, list) = turn_on_its_way(&path);
    proxy.refuse(true);
    proxy.cut();
    list.release();
    let ended = proxy.expire_sessions().unwrap();
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    assert!(rival.try_lock().unwrap(), "{ended} sessions ended");
    proxy.refuse(false);
    let own = hold_of(&rival).node();
    wait_until("it has queued behind the rival", SOON, || {
        let mut others = children(&path);
        others.retain(|node| *node != own);
        matches!(&others[..], [other] if place(other) > place(&own))
    });
    println!("{:?}, the rival's is {own}; {:?}", children(&path), waiting.stats());
    assert!(rival.is_held() && !line.is_let_in());
    rival.unlock().unwrap();
    line.comes_in_order();
    assert_eq!(children(&path), [""; 0]);
}

/// Too busy to send a ping for longer than a session timeout.
#[test]
fn a_busy_client_that_is_cut_keeps_its_locks_and_its_places() {
    const SHORT: Duration = Duration::from_secs(3);
    let proxy = shared_proxy();
    let busy = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("busy");
    let own = lock_of(&busy, &format!("{path}-own"));
    own.lock().unwrap();
    let hold = hold_of(&own);
    let (node, token) = (hold.node(), hold.fencing_token().unwrap());
    let others = client();
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let mut line = Line::at(&path);
    for client in [&busy, &others, &busy, &others] {
        line.join(client);
    }
    let before = children(&path);
    let over = Arc::new(AtomicBool::new(false));
    let work = {
        let (lock, over) = (lock_of(&busy, &format!("{path}-work")), Arc::clone(&over));
        Task::spawn(move || {
            let mut turns = 0_u32;
            while !over.load(Ordering::SeqCst) {
                lock.lock().unwrap();
                lock.unlock().unwrap();
                turns += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            turns
        })
    };
    let begun = Instant::now();
    wait_until("it has been busy for long", SOON, || begun.elapsed() > 3 * SHORT);
    let pings = proxy.requests(Op::Ping);
    proxy.cut();
    let took = await_resumed(&busy, 1);
    println!("{pings} pings, then resumed {took:?} after the cut: {hold:?}");
    assert_eq!(hold.state(), HoldState::Held);
    over.store(true, Ordering::SeqCst);
    let turns = work.result("the busy thread");
    assert_eq!(children(&path), before);
    println!("{turns} turns meanwhile; {:?}", busy.stats());
    assert_eq!(hold.node(), node);
    assert_eq!(hold.fencing_token().unwrap(), token);
    held.unlock().unwrap();
    line.comes_in_order();
    has_one_node_until_unlocked(&own);
    assert_eq!(busy.stats().holds_lost, 0);
}

#[test]
fn an_unlock_that_gets_lost_after_a_cut_does_not_block_the_next_lock() {
    for (what, answer_only) in [("answer", true), ("request", false)] {
        for then in [Then::Cut, Then::Hold] {
            let proxy = shared_proxy();
            let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
            let path = fresh_path("lost-delete");
            let lock = DistributedReentrantLock::new(&client, &path).unwrap();
            lock.lock().unwrap();
            proxy.cut();
            await_resumed(&client, 1);
            await_nodes(&path, 1);
            let old = hold_of(&lock).node();
            let rule = proxy.on(Op::Delete).path_contains(&old);
            let lost = match answer_only {
                true => rule.drop_answer(then),
                false => rule.drop_request(then),
            };
            let unlocked = lock.unlock();
            assert!(lost.wait(SOON), "{:#?}", proxy.log());
            let begun = Instant::now();
            let locked = lock.try_lock_for(SOON);
            println!(
                "delete's {what} lost, then {then:?}: {unlocked:?}; locked again after {:?}: {locked:?}",
                begun.elapsed()
            );
            assert!(unlocked.is_ok() && matches!(locked, Ok(true)), "{:#?}", proxy.log());
            let own = hold_of(&lock).node();
            wait_until("the old node is gone", SOON, || children(&path) == [own.clone()]);
            lock.unlock().unwrap();
            await_nodes(&path, 0);
        }
    }
}

#[test]
fn an_unlock_without_a_connection_is_ok_and_lets_the_next_one_in() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let path = fresh_path("suspended-unlock");
    let lock = lock_of(&cut, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let mut line = Line::at(&path);
    line.join(&others);
    proxy.refuse(true);
    proxy.cut();
    wait_until("it is suspended", SOON, || cut.state() == ClientState::Suspended);
    assert_eq!(hold.state(), HoldState::Suspended);
    lock.unlock().unwrap();
    assert_eq!(hold.state(), HoldState::Released);
    assert!(!line.is_let_in(), "the servers cannot know yet");
    proxy.refuse(false);
    line.comes_in_order();
    assert_eq!(cut.stats().resumed, 1);
    await_nodes(&path, 0);
}
