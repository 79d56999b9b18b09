//! Waiting for one's turn: who is woken, by what, and how waiting ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, fresh_path, shared_probe, wait_until,
};

use common::{
    SESSION, SOON, Task, children, client, client_of, in_time, lock_of, place, shared_proxy,
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
fn times_out_under_churn_of_predecessors() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let path = fresh_path("churn");
    let (_first, ahead) = holder(&path);
    let probe = shared_probe().unwrap();
    let many: Vec<String> = (0..900)
        .map(|_| probe.create(&format!("{path}/lock-"), b"", true, true).unwrap())
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
    let seen = in_time("churn", 2 * TIMEOUT, || behind.try_lock_for(TIMEOUT));
    over.store(true, Ordering::SeqCst);
    let gone = churn.result("the churn");
    println!("{gone} predecessors went, {:?}", second.stats());
    assert!(!seen.unwrap());
    let held = ahead.hold().unwrap().node();
    wait_until("its node is gone", SOON, || {
        children(&path).iter().all(|node| *node == held || !node.starts_with("_c_"))
    });
}
