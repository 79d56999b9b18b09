//! Waiting for one's turn: who is woken, and by what.

use std::thread;
use std::time::Duration;

use zoolock::DistributedLock;
use zoolock_test_support::{FaultProxy, Op, Server, fresh_path, shared_probe, wait_until};

use common::line::{Line, held_in_its_observer};
use common::{BRIEFLY, SESSION, SOON, children, client, client_of, lock_of, locking, shared_proxy};

fn no_watch_is_left(server: &Server) {
    wait_until("no watch is left", SOON, || server.four_letter("wchp").unwrap().trim().is_empty());
}

#[test]
fn a_predecessor_that_vanishes_between_list_and_watch_wakes_and_leaks_no_watch() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let clients =
        [server.connect_string(), proxy.connect_string()].map(|hosts| client_of(&hosts, SESSION));
    let [ahead, behind] = clients.each_ref().map(|client| lock_of(client, "/lock"));
    for answer_too in [false, true] {
        ahead.lock().unwrap();
        let read = proxy.on(Op::GetData).path_contains("/lock/");
        let held = if answer_too { read.hold_answer() } else { read.hold_request() };
        let waiting = locking(&behind);
        assert!(held.wait(SOON), "{}", proxy.log().join("\n"));
        // With the answer held, the event comes right behind it.
        ahead.unlock().unwrap();
        held.release();
        waiting.result("the waiter").unwrap();
        behind.unlock().unwrap();
        no_watch_is_left(&server);
    }
}

/// Lists that came while it was in its observer are older than its next node.
#[test]
fn a_waiter_takes_no_old_list_for_a_new_one() {
    for expires in [false, true] {
        let (proxy, others, path) = (shared_proxy(), client(), fresh_path("old-list"));
        let own = client_of(&proxy.connect_string(), Duration::from_secs(30));
        let [ahead, rival] = [(); 2].map(|()| lock_of(&others, &path));
        ahead.lock().unwrap();
        let before = children(&path);
        let (options, told, go_on) = held_in_its_observer();
        let lock = DistributedLock::with_options(&own, &path, options).unwrap();
        let waiter = locking(&lock);
        told.recv_timeout(SOON).unwrap();
        let node = children(&path).into_iter().find(|node| !before.contains(node)).unwrap();
        let next = locking(&rival);
        wait_until("the rival is queued", SOON, || children(&path).len() == 3);
        let lists = || proxy.log().iter().filter(|line| line.contains("< GetChildren")).count();
        shared_probe().unwrap().delete(&format!("{path}/{node}")).unwrap();
        wait_until("it is told of its own end, and a list", SOON, || lists() == 2);
        ahead.unlock().unwrap();
        next.result("the rival").unwrap();
        wait_until("and of the other end, and a list", SOON, || lists() == 3);
        if expires {
            proxy.expire_sessions().unwrap();
            wait_until("there is another session", SOON, || own.stats().sessions == 2);
        }
        drop(go_on);
        told.recv_timeout(SOON).unwrap();
        thread::sleep(BRIEFLY);
        println!("expires: {expires}: {node}, {:?}, {:?}", children(&path), own.stats());
        assert!(!waiter.is_done(), "beside the rival");
        assert_eq!(children(&path).len(), 2, "it has forgotten a node");
        rival.unlock().unwrap();
        waiter.result("the waiter").unwrap();
        assert_eq!(children(&path).len(), 1);
        lock.unlock().unwrap();
    }
}

#[test]
fn a_release_wakes_exactly_one_of_50_waiters() {
    const WAITERS: u64 = 50;
    let (path, others, proxy) = (fresh_path("herd"), client(), shared_proxy());
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let own = [(); 4].map(|()| client_of(&proxy.connect_string(), Duration::from_secs(60)));
    let mut line = Line::at(&path);
    (0..WAITERS as usize).for_each(|number| drop(line.join(&own[number % 4])));
    // Its own node, the one ahead, and the one before that, which the first one has not.
    wait_until("each watches", SOON, || proxy.requests(Op::GetData) == 3 * WAITERS - 1);
    let seen = || [proxy.events(), proxy.requests(Op::GetChildren)];
    let before = seen();
    held.unlock().unwrap();
    line.comes_in_order();
    let [events, lists] = seen().map(|count| count as i64);
    let [events, lists] = [events - before[0] as i64, lists - before[1] as i64];
    println!("{WAITERS} releases: {events} events, {lists} lists");
    // One for each watch; and its client lists once for each that has come closer, but not for a grant.
    assert_eq!(events, 3 * WAITERS as i64 - 1, "events");
    assert_eq!(lists, WAITERS as i64 - 1, "lists");
    let asked = [Op::Create, Op::GetChildren, Op::GetData, Op::Delete].map(|op| proxy.requests(op));
    println!("creates, lists, reads and deletions: {asked:?}");
    assert_eq!(asked.iter().sum::<u64>(), 7 * WAITERS - 2, "seven a turn, five behind one other");
}
