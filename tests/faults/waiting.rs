//! Waiting for one's turn: who is woken, by what, and how waiting ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::DistributedLock;
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, fresh_path, shared_probe, wait_until,
};

use common::line::{Line, held_in_its_observer};
use common::{
    BRIEFLY, SESSION, SOON, Task, children, client, client_of, in_time, lock_of, shared_proxy,
};

fn locking(lock: &DistributedLock) -> Task<zoolock::Result<()>> {
    let lock = lock.clone();
    Task::spawn(move || lock.lock())
}

/// Waits until a private server says that this session watches the node.
fn await_watcher(server: &Server, node: &str, session: i64) {
    wait_until(&format!("{session:#x} watches {node}"), SOON, || {
        let answer = server.four_letter("wchp").unwrap();
        let of_node = answer.lines().skip_while(|line| line.trim_end() != node).skip(1);
        let mut watchers = of_node.map_while(|line| line.strip_prefix("\t0x"));
        watchers.any(|id| i64::from_str_radix(id.trim(), 16) == Ok(session))
    });
}

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

#[test]
fn a_successor_watches_the_next_one_when_a_waiter_gives_up_or_dies() {
    for dies in [false, true] {
        let server = Server::start().unwrap();
        let middle = FaultProxy::start(server.address()).unwrap();
        let probe = Probe::connect(server.address()).unwrap();
        let session = if dies { Duration::from_secs(2) } else { SESSION };
        let clients = [
            client_of(&server.connect_string(), SESSION),
            client_of(&server.connect_string(), SESSION),
            client_of(&middle.connect_string(), session),
            client_of(&server.connect_string(), SESSION),
        ];
        let locks = clients.each_ref().map(|client| lock_of(client, "/lock"));
        let (mut queue, mut tasks): (Vec<String>, _) = (Vec::new(), Vec::new());
        for lock in &locks {
            tasks.push(locking(lock));
            wait_until("the next is queued", SOON, || {
                let mut seen = probe.children("/lock").unwrap();
                seen.retain(|name| !queue.contains(name));
                queue.extend(seen.pop());
                queue.len() == tasks.len()
            });
        }
        let nodes: Vec<_> = queue.iter().map(|name| format!("/lock/{name}")).collect();
        let last = probe.stat(&nodes[3]).unwrap().unwrap().ephemeral_owner;
        // The nearest one, and the one before that.
        await_watcher(&server, &nodes[2], last);
        await_watcher(&server, &nodes[1], last);
        match dies {
            false => locks[2].cancel_waiters(),
            true => middle.black_hole(Direction::Both),
        }
        await_watcher(&server, &nodes[0], last);
        println!("dies: {dies}, {nodes:?}, {:?}", clients[2].state());
        assert!(!tasks[3].is_done(), "the last one entered: {:?}", locks[3]);
        assert!(!probe.exists(&nodes[2]).unwrap());
        for (number, next) in [(0, 1), (1, 3)] {
            locks[number].unlock().unwrap();
            tasks[next].result("the next one").unwrap();
        }
        locks[3].unlock().unwrap();
        if !dies {
            no_watch_is_left(&server);
        }
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
        let lock = DistributedLock::with(&own, &path, options).unwrap();
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
fn a_waiter_whose_session_or_node_has_gone_waits_with_one_new_node() {
    for deleted in [false, true] {
        let (proxy, holders, path) = (shared_proxy(), client(), fresh_path("new-node"));
        let own = client_of(&proxy.connect_string(), Duration::from_secs(6));
        let (ahead, lock) = (lock_of(&holders, &path), lock_of(&own, &path));
        ahead.lock().unwrap();
        let waiter = locking(&lock);
        // Of the one ahead, and of its own.
        wait_until("both are watched", SOON, || proxy.requests(Op::GetData) >= 2);
        let (first, next) = (children(&path), lock_of(&holders, &path));
        let reads = proxy.requests(Op::GetData);
        match deleted {
            false => drop(proxy.expire_sessions().unwrap()),
            true => {
                proxy.refuse(true);
                proxy.cut();
                let probe = shared_probe().unwrap();
                first.iter().for_each(|node| probe.delete(&format!("{path}/{node}")).unwrap());
                assert!(next.try_lock().unwrap());
                assert!(ahead.unlock().is_err(), "its node was deleted");
                proxy.refuse(false);
            }
        }
        wait_until("it waits again", SOON, || proxy.requests(Op::GetData) > reads);
        wait_until("with one node", SOON, || children(&path).len() == 2);
        println!("deleted: {deleted}: {first:?}, {:?}", children(&path));
        assert!(!waiter.is_done());
        match deleted {
            false => ahead.unlock().unwrap(),
            true => holders.close().unwrap(),
        }
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

#[test]
fn times_out_under_churn_of_predecessors() {
    let (path, first, second) = (fresh_path("churn"), client(), client());
    let ahead = lock_of(&first, &path).acquire().unwrap();
    let probe = shared_probe().unwrap();
    let node = format!("{path}/lock-");
    let many: Vec<_> = (0..900).map(|_| probe.create(&node, b"", true, true).unwrap()).collect();
    let over = Arc::new(AtomicBool::new(false));
    let churn = {
        let over = Arc::clone(&over);
        Task::spawn(move || {
            // The one just ahead goes, again and again.
            let goes = many.iter().rev().take_while(|node| {
                thread::sleep(Duration::from_millis(3));
                probe.delete(node).unwrap();
                !over.load(Ordering::SeqCst)
            });
            goes.count()
        })
    };
    let behind = lock_of(&second, &path);
    let seen = in_time("churn", 2 * BRIEFLY, || behind.try_lock_for(BRIEFLY));
    over.store(true, Ordering::SeqCst);
    println!("{} predecessors went, {:?}", churn.result("the churn"), second.stats());
    assert!(!seen.unwrap());
    wait_until("its node is gone", SOON, || {
        children(&path).iter().all(|node| *node == ahead.node() || !node.starts_with("_c_"))
    });
}
