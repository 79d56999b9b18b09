//! Waiting for one's turn: who is woken, by what, and how waiting ends.

mod deadlines;
mod signals;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, ClientState, DistributedLock};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, connect_string, fresh_path, shared_probe, wait_until,
};

use common::{
    Arrivals, SESSION, SOON, Task, await_resumed, children, client, client_of, lock_of, place,
    shared_proxy,
};

/// A call of `lock()` on a thread of its own.
fn locking(lock: &DistributedLock) -> Task<zoolock::Result<()>> {
    let lock = lock.clone();
    Task::spawn(move || lock.lock())
}

/// A client that holds a lock of the shared server, for others to wait for.
fn holder(path: &str) -> (Client, DistributedLock) {
    let client = client();
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    (client, lock)
}

fn wait_for_queue(path: &str, length: usize) -> Vec<String> {
    let mut seen = Vec::new();
    wait_until(&format!("{length} are queued"), SOON, || {
        seen = children(path);
        seen.len() == length
    });
    // By the sequence, which is the end of the name.
    seen.sort_by_key(|name| place(name).to_owned());
    seen
}

/// The sessions that watch a node, as a private server says.
fn watchers(server: &Server, node: &str) -> Vec<i64> {
    let answer = server.four_letter("wchp").unwrap();
    let lines = answer.lines().skip_while(|line| line.trim_end() != node);
    lines
        .skip(1)
        .map_while(|line| line.strip_prefix("\t0x"))
        .map(|id| i64::from_str_radix(id.trim(), 16).unwrap())
        .collect()
}

fn wait_for_watcher(server: &Server, node: &str, session: i64) {
    wait_until(&format!("{session:#x} watches {node}"), SOON, || {
        watchers(server, node).contains(&session)
    });
}

fn no_watch_is_left(server: &Server) {
    let mut seen = String::new();
    wait_until("no watch is left", SOON, || {
        seen = server.four_letter("wchp").unwrap();
        seen.trim().is_empty()
    });
}

#[test]
fn a_predecessor_that_vanishes_between_list_and_watch_wakes_and_leaks_no_watch() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let first = client_of(&server.connect_string(), SESSION);
    let second = client_of(&proxy.connect_string(), SESSION);
    let ahead = lock_of(&first, "/lock");
    let behind = lock_of(&second, "/lock");
    for answer_too in [false, true] {
        ahead.lock().unwrap();
        // The second one has listed; its read of the node ahead is held ..
        let read = proxy.on(Op::GetData).path_contains("/lock/");
        let held = match answer_too {
            false => read.hold_request(),
            true => read.hold_answer(),
        };
        let waiting = locking(&behind);
        assert!(held.wait(SOON), "{}", proxy.log().join("\n"));
        // .. while that goes. With the answer held, the event comes right behind it.
        ahead.unlock().unwrap();
        held.release();
        waiting.result("the waiter").unwrap();
        behind.unlock().unwrap();
        no_watch_is_left(&server);
    }
    println!("{:?}", second.stats());
}

/// A queue of three clients of one private server.
struct Three {
    server: Server,
    clients: [Client; 3],
    locks: [DistributedLock; 3],
    middle: FaultProxy,
}

impl Three {
    const PATH: &str = "/lock";

    fn start(middle_timeout: Duration) -> Three {
        let server = Server::start().unwrap();
        let middle = FaultProxy::start(server.address()).unwrap();
        let clients = [
            client_of(&server.connect_string(), SESSION),
            client_of(&middle.connect_string(), middle_timeout),
            client_of(&server.connect_string(), SESSION),
        ];
        let locks = clients.each_ref().map(|client| lock_of(client, Self::PATH));
        Three { server, clients, locks, middle }
    }

    /// The middle one goes by `leave`: the last must not enter, but watch the first.
    fn check(&self, leave: impl FnOnce(&Three)) {
        let probe = Probe::connect(self.server.address()).unwrap();
        self.locks[0].lock().unwrap();
        let mut queue = vec![self.locks[0].hold().unwrap().node()];
        let mut tasks = Vec::new();
        for lock in &self.locks[1..] {
            tasks.push(locking(lock));
            wait_until("the next is queued", SOON, || {
                let mut seen = probe.children(Self::PATH).unwrap();
                seen.retain(|name| !queue.contains(name));
                queue.extend(seen.pop());
                queue.len() == tasks.len() + 1
            });
        }
        let nodes: Vec<_> = queue.iter().map(|n| format!("{}/{n}", Self::PATH)).collect();
        let last = probe.stat(&nodes[2]).unwrap().unwrap().ephemeral_owner;
        wait_for_watcher(&self.server, &nodes[1], last);
        leave(self);
        wait_for_watcher(&self.server, &nodes[0], last);
        assert!(!tasks[1].is_done(), "the last one entered: {:?}", self.locks[2]);
        let seen = probe.children(Self::PATH).unwrap();
        assert!(!seen.contains(&queue[1]), "{queue:?}, {seen:?}");
        println!("left of {queue:?}: {seen:?}");
        self.locks[0].unlock().unwrap();
        tasks[1].result("the last one").unwrap();
        self.locks[2].unlock().unwrap();
        println!("the middle one: {:?}", self.clients[1].state());
    }
}

#[test]
fn a_successor_watches_the_next_one_when_a_waiter_gives_up() {
    let three = Three::start(SESSION);
    three.check(|three| three.locks[1].cancel_waiters());
    no_watch_is_left(&three.server);
}

#[test]
fn a_successor_watches_the_next_one_when_a_waiter_dies() {
    let three = Three::start(Duration::from_secs(2));
    three.check(|three| three.middle.black_hole(Direction::Both));
}

#[test]
fn survives_cut() {
    let path = fresh_path("cut-waiting");
    let (_first, ahead) = holder(&path);
    let proxy = shared_proxy();
    let second = client_of(&proxy.connect_string(), SESSION);
    let behind = lock_of(&second, &path);
    let waiting = locking(&behind);
    for cut in [FaultProxy::cut, FaultProxy::reset] {
        let before = wait_for_queue(&path, 2);
        let connections = second.stats().connections;
        cut(&proxy);
        wait_until("the client is back", SOON, || {
            second.stats().connections > connections && second.state() == ClientState::Connected
        });
        println!("{before:?} became {:?}", children(&path));
    }
    let seen = wait_for_queue(&path, 2);
    assert_eq!(seen[0], ahead.hold().unwrap().node(), "{seen:?}");
    assert!(!waiting.is_done(), "entered a held lock: {seen:?}");
    ahead.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    wait_for_queue(&path, 1);
    behind.unlock().unwrap();
    wait_for_queue(&path, 0);
}

#[test]
fn gets_a_lock_that_came_free_while_the_connection_was_gone() {
    let path = fresh_path("free-while-gone");
    let (_first, ahead) = holder(&path);
    let proxy = shared_proxy();
    let second = client_of(&proxy.connect_string(), Duration::from_secs(3));
    let behind = lock_of(&second, &path);
    let waiting = locking(&behind);
    wait_for_queue(&path, 2);
    proxy.black_hole(Direction::Both);
    ahead.unlock().unwrap();
    wait_for_queue(&path, 0);
    proxy.restore();
    waiting.result("the waiter").unwrap();
    wait_for_queue(&path, 1);
    behind.unlock().unwrap();
}

#[test]
fn a_waiter_whose_node_was_deleted_queues_again() {
    let path = fresh_path("own-deleted");
    let (_first, ahead) = holder(&path);
    let second = client_of(&connect_string(), Duration::from_secs(4));
    let behind = lock_of(&second, &path);
    let waiting = locking(&behind);
    let probe = shared_probe().unwrap();
    for round in 0..3 {
        let before = wait_for_queue(&path, 2);
        probe.delete(&format!("{path}/{}", before[1])).unwrap();
        let after = wait_for_queue(&path, 2);
        println!("round {round}: {before:?} became {after:?}");
        assert_eq!(before[0], after[0], "the holder's node");
        assert_ne!(before[1], after[1]);
        assert!(!waiting.is_done(), "entered a held lock");
    }
    ahead.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}

#[test]
fn a_waiter_whose_node_was_deleted_gets_the_lock_when_it_is_free() {
    let path = fresh_path("own-deleted-free");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    for round in 0..10 {
        let waiting = locking(&behind);
        let queue = wait_for_queue(&path, 2);
        shared_probe().unwrap().delete(&format!("{path}/{}", queue[1])).unwrap();
        ahead.unlock().unwrap();
        waiting.result("the waiter").unwrap();
        let hold = behind.hold().unwrap();
        assert_ne!(hold.node(), queue[1], "round {round}: {hold:?}");
        assert_eq!(children(&path), [hold.node()], "round {round}");
        behind.unlock().unwrap();
        ahead.lock().unwrap();
    }
}

#[test]
fn a_directory_deleted_under_a_waiters_feet_is_made_again() {
    let path = fresh_path("directory-deleted");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe.create(&format!("{path}/lock-"), b"", false, true).unwrap();
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let lock = lock_of(&client, &path);
    let waiting = locking(&lock);
    let queue = wait_for_queue(&path, 2);
    wait_until("it watches the one ahead", SOON, || proxy.requests(Op::GetData) > 0);
    // All of it goes before the waiter can look.
    proxy.black_hole(Direction::ToServer);
    probe.delete(&format!("{path}/{}", queue[1])).unwrap();
    probe.delete(&ahead).unwrap();
    probe.delete(&path).unwrap();
    proxy.restore();
    waiting.result("the waiter").unwrap();
    assert_eq!(children(&path), [lock.hold().unwrap().node()]);
    lock.unlock().unwrap();
}

#[test]
fn a_release_wakes_exactly_one_of_100_waiters() {
    const CLIENTS: usize = 4;
    const WAITERS: usize = 100;
    const RELEASES: u64 = 20;
    let path = fresh_path("herd");
    let (_first, ahead) = holder(&path);
    let proxy = shared_proxy();
    let clients: [Client; CLIENTS] =
        std::array::from_fn(|_| client_of(&proxy.connect_string(), Duration::from_secs(60)));
    let (inside, entered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let locks: Vec<_> = (0..WAITERS).map(|at| lock_of(&clients[at % CLIENTS], &path)).collect();
    // Each leaves only when it is told, and tells how many were inside.
    let (leave, told) = zoolock::crossbeam_channel::bounded::<()>(0);
    let tasks: Vec<_> = locks
        .iter()
        .map(|lock| {
            let (lock, told) = (lock.clone(), told.clone());
            let (inside, entered) = (Arc::clone(&inside), Arc::clone(&entered));
            Task::spawn(move || -> zoolock::Result<u32> {
                lock.lock()?;
                let together = inside.fetch_add(1, Ordering::SeqCst) + 1;
                entered.fetch_add(1, Ordering::SeqCst);
                let _ = told.recv();
                inside.fetch_sub(1, Ordering::SeqCst);
                lock.unlock()?;
                Ok(together)
            })
        })
        .collect();
    wait_for_queue(&path, WAITERS + 1);
    wait_until("each has listed and watches", SOON, || {
        proxy.requests(Op::GetData) >= WAITERS as u64
    });
    let lists = || proxy.requests(Op::GetChildren);
    let (events_before, lists_before) = (proxy.events(), lists());
    let stats = || clients.iter().map(|client| client.stats().events).sum::<u64>();
    let stats_before = stats();
    for release in 1..=RELEASES {
        match release {
            1 => ahead.unlock().unwrap(),
            _ => leave.send(()).unwrap(),
        }
        wait_until("the next one is inside", SOON, || {
            u64::from(entered.load(Ordering::SeqCst)) == release
        });
    }
    let (events, lists) = (proxy.events() - events_before, lists() - lists_before);
    println!("{RELEASES} releases of {WAITERS}: {events} events, {lists} lists");
    // A holder of more than T/4 watches its own node, which is one event more.
    assert!((RELEASES..=2 * RELEASES).contains(&events), "{events} events");
    assert_eq!(lists, RELEASES, "lists");
    let counted = stats() - stats_before;
    assert!(counted <= events, "{counted} events by the stats");
    assert_eq!(inside.load(Ordering::SeqCst), 1);

    drop(leave);
    let mut together = Vec::new();
    for task in tasks {
        together.push(task.result("a waiter").unwrap());
    }
    assert!(together.iter().all(|count| *count == 1), "{together:?}");
    wait_for_queue(&path, 0);
}

#[test]
fn fifo() {
    const WAITERS: usize = 10;
    let path = fresh_path("fifo");
    let (first, ahead) = holder(&path);
    let second = client();
    let mut arrivals = Arrivals::new();
    for number in 0..WAITERS {
        let client = if number % 3 == 0 { &first } else { &second };
        let lock = lock_of(client, &path);
        arrivals.join(move |inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
        wait_for_queue(&path, number + 2);
    }
    ahead.unlock().unwrap();
    assert_eq!(arrivals.order(), (0..WAITERS).collect::<Vec<_>>());
}

#[test]
fn a_waiter_that_comes_back_by_another_server_keeps_its_node_and_its_place() {
    let path = fresh_path("another-way");
    let (_first, ahead) = holder(&path);
    let proxies = [shared_proxy(), shared_proxy()];
    let hosts = proxies.each_ref().map(FaultProxy::connect_string).join(",");
    let second = client_of(&hosts, Duration::from_secs(60));
    let behind = lock_of(&second, &path);
    let waiting = locking(&behind);
    wait_for_queue(&path, 2);
    let queue = children(&path);
    wait_until("it watches the one ahead", SOON, || {
        proxies.iter().any(|proxy| proxy.requests(Op::GetData) > 0)
    });
    let own = match proxies[0].requests(Op::GetData) {
        0 => &proxies[1],
        _ => &proxies[0],
    };
    own.refuse(true);
    own.cut();
    let took = await_resumed(&second, 1);
    println!("resumed after {took:?}");
    assert_eq!(children(&path), queue);
    ahead.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    assert_eq!(children(&path), [behind.hold().unwrap().node()]);
    assert!(queue.contains(&behind.hold().unwrap().node()));
    behind.unlock().unwrap();
}

#[test]
fn a_waiter_below_a_chroot_is_told_of_its_own_node_by_the_watch() {
    let server = Server::start().unwrap();
    let hosts = format!("{}/below", server.connect_string());
    let (first, second) = (client_of(&hosts, SESSION), client_of(&hosts, Duration::from_secs(4)));
    let (ahead, behind) = (lock_of(&first, "/lock"), lock_of(&second, "/lock"));
    ahead.lock().unwrap();
    let held = ahead.hold().unwrap().node();
    let _waiting = locking(&behind);
    let probe = Probe::connect(server.address()).unwrap();
    let mut own = String::new();
    let mut new_node = |old: &str| {
        wait_until("the waiter has a node", SOON, || {
            let mut seen = probe.children("/below/lock").unwrap();
            seen.retain(|name| *name != held && *name != old);
            own = seen.pop().unwrap_or_default();
            !own.is_empty()
        });
        own.clone()
    };
    let old = new_node("");
    let node = format!("/below/lock/{old}");
    let session = probe.stat(&node).unwrap().unwrap().ephemeral_owner;
    wait_for_watcher(&server, &node, session);
    // It has looked and seen its node; only the event tells it now.
    probe.delete(&node).unwrap();
    println!("{old} became {}", new_node(&old));
    second.close().unwrap();
}
