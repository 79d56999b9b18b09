//! Being let in as the connection ends, and being cut while busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::HoldState;
use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use common::basics::{await_nodes, hold_of};
use common::line::{Line, has_one_node_until_unlocked};
use common::{
    SESSION, SOON, Task, await_resumed, children, client, client_of, lock_of, place, shared_proxy,
};

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
    let proxy = shared_proxy();
    let busy = client_of(&proxy.connect_string(), SESSION);
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
    wait_until("it has been busy for long", SOON, || begun.elapsed() > 2 * SESSION);
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
