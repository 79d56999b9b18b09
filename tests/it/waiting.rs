//! Waiting for one's turn: who is woken, by what, and how waiting ends.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};
use zoolock::{Client, ClientState, DistributedLock, DistributedReentrantLock, Error};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, connect_string, fresh_path, shared_probe, wait_until,
};

use crate::util::{
    SESSION, SOON, Task, children, client, client_of, in_time, run_again, shared_proxy,
};

fn lock_of(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::new(client, path).unwrap()
}

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
    seen.sort_by_key(|name| name[name.len() - 10..].to_owned());
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
        Three {
            server,
            clients,
            locks,
            middle,
        }
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
        let nodes: Vec<_> = queue
            .iter()
            .map(|n| format!("{}/{n}", Self::PATH))
            .collect();
        let last = probe.stat(&nodes[2]).unwrap().unwrap().ephemeral_owner;
        wait_for_watcher(&self.server, &nodes[1], last);
        leave(self);
        wait_for_watcher(&self.server, &nodes[0], last);
        assert!(
            !tasks[1].is_done(),
            "the last one entered: {:?}",
            self.locks[2]
        );
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
        shared_probe()
            .unwrap()
            .delete(&format!("{path}/{}", queue[1]))
            .unwrap();
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
    let ahead = probe
        .create(&format!("{path}/lock-"), b"", false, true)
        .unwrap();
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let lock = lock_of(&client, &path);
    let waiting = locking(&lock);
    let queue = wait_for_queue(&path, 2);
    wait_until("it watches the one ahead", SOON, || {
        proxy.requests(Op::GetData) > 0
    });
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

/// How late a call with a deadline may be.
const SLACK: Duration = Duration::from_secs(1);

/// Waits for 1 s for a lock and returns within 2 s.
fn within_its_time(what: &str, lock: &DistributedLock) -> zoolock::Result<bool> {
    let timeout = Duration::from_secs(1);
    in_time(what, timeout + SLACK, || lock.try_lock_for(timeout))
}

fn is_disconnected(what: &str, seen: &zoolock::Result<bool>) {
    assert!(
        matches!(seen, Err(Error::Disconnected { .. })),
        "{what}: {seen:?}"
    );
}

#[test]
fn times_out_when_the_server_is_paused_stopped_or_gone() {
    let server = Server::start().unwrap();
    let session = Duration::from_secs(3);
    let client = client_of(&server.connect_string(), session);
    let lock = lock_of(&client, "/lock");
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();

    server.pause().unwrap();
    is_disconnected("paused", &within_its_time("paused", &lock));
    let what = "paused, try_lock";
    is_disconnected(
        what,
        &in_time(what, session / 3 + SLACK, || lock.try_lock()),
    );
    server.resume().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap(), "it comes back");
    lock.unlock().unwrap();

    // Seen ahead before, but nobody knows at the deadline.
    let other = lock_of(&client, "/lock");
    lock.lock().unwrap();
    let patience = Duration::from_secs(5);
    let what = "killed while waiting";
    let call = move || in_time(what, patience + SLACK, || other.try_lock_for(patience));
    let task = Task::spawn(call);
    wait_until("it is queued", SOON, || client.stats().seats == 2);
    server.kill().unwrap();
    is_disconnected(what, &task.result(what));
    is_disconnected(
        "killed",
        &within_its_time("killed", &lock_of(&client, "/lock")),
    );
    is_disconnected("killed, try_lock", &lock_of(&client, "/lock").try_lock());
    wait_until("the session is given up", SOON, || {
        client.state() == ClientState::Lost
    });
    is_disconnected("gone", &within_its_time("gone", &lock_of(&client, "/lock")));
    // A deadline that the clock cannot hold, cancelled.
    let lock = lock_of(&client, "/lock");
    let cancelled = {
        let lock = lock.clone();
        Task::spawn(move || lock.try_lock_for(Duration::MAX))
    };
    wait_until("the call waits", SOON, || {
        lock.cancel_waiters();
        cancelled.is_done()
    });
    let seen = cancelled.result("cancelled without a server");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
}

#[test]
fn times_out_in_a_black_hole() {
    let path = fresh_path("black-hole");
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let lock = lock_of(&client, &path);
        proxy.black_hole(direction);
        let what = format!("{direction:?}");
        is_disconnected(&what, &within_its_time(&what, &lock));
        proxy.restore();
        assert!(lock.try_lock_for(SOON).unwrap(), "it comes back");
        lock.unlock().unwrap();
        wait_for_queue(&path, 0);
    }
}

#[test]
fn times_out_as_busy_behind_a_holder_and_cleans_up() {
    let path = fresh_path("busy");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    assert!(!within_its_time("held by another client", &behind).unwrap());
    wait_for_queue(&path, 1);
    assert!(!behind.try_lock().unwrap());
    assert!(!behind.try_lock_for(Duration::ZERO).unwrap());
    assert!(!behind.try_lock_until(Instant::now()).unwrap());
    assert_eq!(children(&path), [ahead.hold().unwrap().node()]);
    // On one object, in this process.
    assert!(!within_its_time("held by the object", &ahead).unwrap());
    assert!(!ahead.try_lock().unwrap());
    ahead.unlock().unwrap();
    assert!(behind.try_lock().unwrap());
    behind.unlock().unwrap();
}

#[test]
fn times_out_under_churn_of_predecessors() {
    let path = fresh_path("churn");
    let (_first, _ahead) = holder(&path);
    let probe = shared_probe().unwrap();
    let many: Vec<String> = (0..300)
        .map(|_| {
            probe
                .create(&format!("{path}/lock-"), b"", true, true)
                .unwrap()
        })
        .collect();
    let second = client();
    let behind = lock_of(&second, &path);
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
    let seen = within_its_time("churn", &behind);
    over.store(true, Ordering::SeqCst);
    let gone = churn.result("the churn");
    println!("{gone} predecessors went, {:?}", second.stats());
    assert!(!seen.unwrap());
    wait_until("its node is gone", SOON, || {
        let ours = children(&path).into_iter();
        ours.filter(|name| name.starts_with("_c_")).count() == 1
    });
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
    let locks: Vec<_> = (0..WAITERS)
        .map(|at| lock_of(&clients[at % CLIENTS], &path))
        .collect();
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
    let lists = || proxy.requests(Op::GetChildren) + proxy.requests(Op::GetChildren2);
    let (events_before, lists_before) = (proxy.events(), lists());
    let stats = || {
        clients
            .iter()
            .map(|client| client.stats().events)
            .sum::<u64>()
    };
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
    assert!(
        (RELEASES..=2 * RELEASES).contains(&events),
        "{events} events"
    );
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
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let client = if number % 3 == 0 { &first } else { &second };
        let (lock, order) = (lock_of(client, &path), Arc::clone(&order));
        tasks.push(Task::spawn(move || {
            lock.lock().unwrap();
            order.lock().unwrap().push(number);
            lock.unlock().unwrap();
        }));
        wait_for_queue(&path, number + 2);
    }
    ahead.unlock().unwrap();
    for task in tasks {
        task.result("a waiter");
    }
    let order = order.lock().unwrap();
    assert_eq!(*order, (0..WAITERS).collect::<Vec<_>>());
}

fn is_cancelled(seen: &zoolock::Result<()>) {
    assert!(
        matches!(seen, Err(error) if error.is_cancelled()),
        "{seen:?}"
    );
}

#[test]
fn cancel_wakes_all_waiters_of_the_object_and_poisons_nothing() {
    let path = fresh_path("cancel");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    let other = lock_of(&second, &path);
    // One of them is in the queue, the others wait for it in this process.
    let tasks: Vec<_> = (0..3).map(|_| locking(&behind)).collect();
    let bystander = locking(&other);
    let before = wait_for_queue(&path, 3);
    wait_until("all are cancelled", SOON, || {
        // A thread may still be on its way to the call.
        behind.cancel_waiters();
        tasks.iter().all(Task::is_done)
    });
    for task in &tasks {
        is_cancelled(&task.result("a cancelled waiter"));
    }
    let after = wait_for_queue(&path, 2);
    println!("{before:?} became {after:?}");
    assert!(!bystander.is_done(), "another object is not affected");
    assert!(ahead.is_held(), "the holder is not affected");
    // Cancelling where nobody waits does nothing to later calls.
    behind.cancel_waiters();
    let later = locking(&behind);
    wait_for_queue(&path, 3);
    assert!(!later.is_done());
    ahead.cancel_waiters();
    assert!(ahead.is_held(), "the holder is not affected");
    ahead.unlock().unwrap();
    bystander.result("the bystander").unwrap();
    other.unlock().unwrap();
    later.result("a later call").unwrap();
    behind.unlock().unwrap();
    wait_for_queue(&path, 0);
}

#[test]
fn cancel_wakes_the_waiters_of_a_reentrant_lock_and_not_its_owner() {
    let path = fresh_path("cancel-reentrant");
    let client = client();
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let guard = lock.acquire().unwrap();
    let waiting = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    wait_until("the waiter is cancelled", SOON, || {
        lock.cancel_waiters();
        waiting.is_done()
    });
    is_cancelled(&waiting.result("the waiter"));
    assert!(guard.is_held());
    lock.lock().unwrap();
    assert_eq!(lock.hold_count(), 2);
    lock.unlock().unwrap();
    drop(guard);
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn cancel_wakes_a_waiter_without_a_connection() {
    let path = fresh_path("cancel-disconnected");
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let lock = lock_of(&client, &path);
    proxy.refuse(true);
    proxy.cut();
    wait_until("the connection is gone", SOON, || {
        client.state() != ClientState::Connected
    });
    let waiting = locking(&lock);
    wait_until("the call waits", SOON, || client.stats().seats == 1);
    lock.cancel_waiters();
    is_cancelled(&waiting.result("the waiter"));
    proxy.restore();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

#[test]
fn close_ends_every_wait() {
    let path = fresh_path("close");
    let (_first, ahead) = holder(&path);
    let proxy = shared_proxy();
    let connected = client();
    // Its close() takes a session timeout.
    let disconnected = client_of(&proxy.connect_string(), Duration::from_secs(3));
    proxy.refuse(true);
    proxy.cut();
    for (client, nodes) in [(connected, 2), (disconnected, 1)] {
        let lock = lock_of(&client, &path);
        // In the queue or without a connection; and behind that one in this process.
        let tasks: Vec<_> = (0..2).map(|_| locking(&lock)).collect();
        wait_until("one waits", SOON, || client.stats().seats == 1);
        wait_for_queue(&path, nodes);
        let begun = Instant::now();
        let closing = Task::spawn(move || client.close());
        for task in tasks {
            let seen = task.result("a waiter of a closed client");
            assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
        }
        let took = begun.elapsed();
        println!("woken within {took:?}");
        assert!(
            !closing.is_done() || nodes == 2,
            "only woken by the end of close()"
        );
        println!(
            "close(): {:?} after {:?}",
            closing.result("close()"),
            begun.elapsed()
        );
        wait_for_queue(&path, 1);
    }
    ahead.unlock().unwrap();
}

#[test]
fn close_at_any_moment_of_a_call_is_closed() {
    const ROUNDS: u64 = 60;
    let path = fresh_path("close-any-moment");
    let (_first, ahead) = holder(&path);
    for round in 0..ROUNDS {
        let client = client();
        let locks = [lock_of(&client, &path), lock_of(&client, &path)];
        let before = client.stats().requests;
        let [waiting, trying] = locks;
        let tasks = [
            Task::spawn(move || waiting.lock()),
            Task::spawn(move || trying.try_lock_for(SOON).map(drop)),
        ];
        // Somewhere between the first request and the wait.
        wait_until("requests are sent", SOON, || {
            client.stats().requests >= before + round % 6
        });
        client.close().unwrap();
        for task in tasks {
            let seen = task.result("a call of a closed client");
            assert!(
                matches!(seen, Err(Error::Closed)),
                "round {round}: {seen:?}"
            );
        }
    }
    wait_for_queue(&path, 1);
    ahead.unlock().unwrap();
}

#[test]
fn a_waiter_that_reconnects_is_not_behind_its_own_old_node() {
    let path = fresh_path("old-node");
    let (_first, ahead) = holder(&path);
    let proxies = [shared_proxy(), shared_proxy()];
    let hosts = proxies.each_ref().map(FaultProxy::connect_string).join(",");
    let second = client_of(&hosts, Duration::from_secs(60));
    let behind = lock_of(&second, &path);
    let waiting = locking(&behind);
    let queue = wait_for_queue(&path, 2);
    wait_until("it watches the one ahead", SOON, || {
        proxies.iter().any(|proxy| proxy.requests(Op::GetData) > 0)
    });
    // Its old session lives on for a minute: there is no way back to end it.
    let own = match proxies[0].requests(Op::GetData) {
        0 => &proxies[1],
        _ => &proxies[0],
    };
    own.refuse(true);
    own.cut();
    // The garbage list alone would come back to the old node after 20 s.
    let prompt = Duration::from_secs(10);
    let took = wait_until("its old node has made way for a new one", prompt, || {
        let seen = children(&path);
        seen.len() == 2 && !seen.contains(&queue[1])
    });
    println!("queued again after {took:?}");
    ahead.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    assert_eq!(children(&path), [behind.hold().unwrap().node()]);
    behind.unlock().unwrap();
}

#[test]
fn a_waiter_below_a_chroot_is_told_of_its_own_node_by_the_watch() {
    let server = Server::start().unwrap();
    let hosts = format!("{}/below", server.connect_string());
    let (first, second) = (
        client_of(&hosts, SESSION),
        client_of(&hosts, Duration::from_secs(4)),
    );
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

/// Names the server for the process that a test starts of its own.
const CHILD: &str = "ZOOLOCK_TEST_CHILD";

/// The library traces a request when its answer is there and nothing was made of it yet: this
/// logger stops the thread there, for the requests of one kind that name a path.
struct Stop {
    what: &'static str,
    here: Mutex<Option<String>>,
    /// What was answered with NoNode last.
    missed: Mutex<String>,
    stopped: (Sender<()>, Receiver<()>),
    go_on: (Sender<()>, Receiver<()>),
}

static STOP: OnceLock<Stop> = OnceLock::new();

impl log::Log for Stop {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if line.ends_with("Some(NoNode)") {
            self.missed.lock().unwrap().clone_from(&line);
        }
        let mut here = self.here.lock().unwrap();
        let is_it = |path: &String| line.starts_with(self.what) && line.contains(path.as_str());
        if here.as_ref().is_some_and(is_it) {
            // Once.
            *here = None;
            drop(here);
            println!("stopped: {line}");
            self.stopped.0.send(()).unwrap();
            self.go_on.1.recv_timeout(SOON).unwrap();
        }
    }

    fn flush(&self) {}
}

impl Stop {
    fn set_up(what: &'static str) -> &'static Stop {
        let stop = STOP.get_or_init(|| Stop {
            what,
            here: Mutex::new(None),
            missed: Mutex::default(),
            stopped: bounded(1),
            go_on: bounded(1),
        });
        log::set_logger(stop).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        stop
    }

    fn at(&self, path: &str) {
        *self.here.lock().unwrap() = Some(path.to_owned());
    }

    fn wait(&self) {
        self.stopped.1.recv_timeout(SOON).unwrap();
    }

    fn go_on(&self) {
        self.go_on.0.send(()).unwrap();
    }
}

/// Runs a test again, in a process with a logger of its own. True in that process.
fn is_child(name: &str) -> bool {
    if env::var(CHILD).is_ok() {
        return true;
    }
    let said = run_again(&format!("waiting::{name}"), CHILD, "1");
    assert!(said.contains("stopped"), "it did not run: {said}");
    false
}

#[test]
fn an_event_that_overtakes_the_answer_of_its_watch_is_not_missed() {
    if !is_child("an_event_that_overtakes_the_answer_of_its_watch_is_not_missed") {
        return;
    }
    let stop = Stop::set_up("getData");
    let path = fresh_path("overtaken");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    stop.at(&ahead.hold().unwrap().node());
    let waiting = locking(&behind);
    stop.wait();
    // The watch is set; the waiter does not know yet.
    ahead.unlock().unwrap();
    wait_until("the event has come", SOON, || second.stats().events > 0);
    stop.go_on();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}

#[test]
fn a_signal_that_comes_between_list_and_watch_is_not_missed() {
    if !is_child("a_signal_that_comes_between_list_and_watch_is_not_missed") {
        return;
    }
    let stop = Stop::set_up("getChildren");
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let first = client_of(&server.connect_string(), SESSION);
    let second = client_of(&server.connect_string(), Duration::from_secs(4));
    let (ahead, behind) = (lock_of(&first, "/lock"), lock_of(&second, "/lock"));
    ahead.lock().unwrap();
    let middle = probe.create("/lock/lock-", b"", true, true).unwrap();
    let _waiting = locking(&behind);
    let held = ahead.hold().unwrap().node();
    let mut own = String::new();
    let mut new_node = |old: &str| {
        wait_until("the waiter has a node", SOON, || {
            let mut seen = probe.children("/lock").unwrap();
            seen.retain(|name| name.starts_with("_c_") && *name != held && *name != old);
            own = seen.pop().unwrap_or_default();
            !own.is_empty()
        });
        own.clone()
    };
    let old = new_node("");
    let node = format!("/lock/{old}");
    let session = probe.stat(&node).unwrap().unwrap().ephemeral_owner;
    wait_for_watcher(&server, &node, session);
    stop.at("/lock");
    probe.delete(&middle).unwrap();
    stop.wait();
    // The list still has its own node, which goes now; the watch over that tells it.
    probe.delete(&node).unwrap();
    wait_until("its own node was looked for", SOON, || {
        stop.missed.lock().unwrap().contains(&old)
    });
    stop.go_on();
    println!("{old} became {}", new_node(&old));
    second.close().unwrap();
}
