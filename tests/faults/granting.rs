//! The end of the only one ahead is the grant, without a list, as long as one's own node is there.

use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, DistributedRwLock, Lock, LockOptions};
use zoolock_test_support::{Direction, FaultProxy, Op, fresh_path, shared_probe, wait_until};

use common::line::held_in_its_observer;
use common::{
    BRIEFLY, SOON, Task, Visitor, await_resumed, children, client, client_of, lock_of, place,
    shared_proxy,
};

/// Of a session that does not end in a test, nor half of it.
const LONG: Duration = Duration::from_secs(30);

/// One that holds the lock, and one that waits for it, behind a proxy, and whatever comes then.
struct Queue {
    path: String,
    ahead: DistributedLock,
    proxy: FaultProxy,
    own: Client,
    waiter: Visitor,
    /// The waiter's node.
    node: String,
}

impl Queue {
    fn start(name: &str) -> Queue {
        let (path, proxy) = (fresh_path(name), shared_proxy());
        let own = client_of(&proxy.connect_string(), LONG);
        let ahead = lock_of(&client(), &path);
        ahead.lock().unwrap();
        let (waiter, node) = queues(&own, &path);
        // Its own and the one ahead.
        are_watched(&proxy, 2);
        Queue { path, ahead, proxy, own, waiter, node }
    }

    /// The node of whoever holds the lock.
    fn held(&self) -> String {
        format!("{}/{}", self.path, self.ahead.hold().unwrap().node())
    }

    /// Somebody of another client.
    fn rival(&self) -> Visitor {
        queues(&client(), &self.path).0
    }
}

/// Waits until the server has said so often that it watches a node.
fn are_watched(proxy: &FaultProxy, times: usize) {
    let answers = || proxy.log().iter().filter(|line| line.contains("< GetData")).count();
    wait_until(&format!("{times} nodes are watched"), SOON, || answers() == times);
}

/// One more at the end of the queue, and its node.
fn queues(client: &Client, path: &str) -> (Visitor, String) {
    joins(lock_of(client, path), path)
}

fn joins(lock: impl Into<Box<dyn Lock>>, path: &str) -> (Visitor, String) {
    let before = children(path);
    let visitor = Visitor::start(lock);
    let new = || children(path).into_iter().find(|node| !before.contains(node));
    wait_until("it has queued", SOON, || new().is_some());
    (visitor, format!("{path}/{}", new().unwrap()))
}

/// A waiter that has queued again waits for a rival that holds the lock.
fn queues_again(path: &str, waiter: Visitor, rival: Visitor) {
    wait_until("it has queued again", SOON, || children(path).len() == 2);
    assert!(!waiter.is_in(), "beside the rival at {path}");
    rival.leaves();
    waiter.comes_in();
    waiter.leaves();
}

/// Of its waiter's client many wait at the same time, each at a path of its own.
struct Crossed {
    path: String,
    ahead: DistributedLock,
    waiter: Visitor,
    /// The waiter's node.
    node: String,
    /// Behind the waiter.
    rival: Visitor,
}

impl Crossed {
    /// The waiter's node, and then the one ahead.
    fn goes(&self) {
        shared_probe().unwrap().delete(&self.node).unwrap();
        self.ahead.unlock().unwrap();
        self.rival.comes_in();
    }

    fn has_queued_again(self) {
        queues_again(&self.path, self.waiter, self.rival);
    }
}

#[test]
fn nobody_ahead_needs_a_list_to_let_the_next_one_in() {
    let queue = Queue::start("no-list");
    let proxies = [shared_proxy(), shared_proxy()];
    let clients = proxies.each_ref().map(|proxy| client_of(&proxy.connect_string(), LONG));
    let [second, third] = clients.each_ref().map(|client| queues(client, &queue.path).0);
    // Its own node, the one ahead, and the one before that.
    proxies.iter().for_each(|proxy| are_watched(proxy, 3));
    let lists = |proxy: &FaultProxy| proxy.requests(Op::GetChildren);
    let before = lists(&queue.proxy);
    queue.ahead.unlock().unwrap();
    queue.waiter.comes_in();
    assert_eq!(lists(&queue.proxy), before);
    // Who comes closer has its client list, while the one ahead holds.
    let listed = [lists(&proxies[0]), lists(&proxies[1])];
    wait_until("the second is next", SOON, || lists(&proxies[0]) == 2);
    let unanswered = proxies[1].on(Op::GetChildren).hold_request();
    queue.waiter.leaves();
    second.comes_in();
    assert!(unanswered.wait(SOON), "the third comes closer");
    // Before that is known, only the list can tell.
    second.leaves();
    assert!(!third.is_in());
    unanswered.release();
    third.comes_in();
    let now = [lists(&proxies[0]), lists(&proxies[1])];
    println!("{listed:?} lists, and then {now:?}; {:?}", clients[1].stats());
    assert_eq!(now, [2, 2]);
    third.leaves();
}

#[test]
fn a_waiter_whose_own_node_went_first_is_not_let_in_by_the_end_of_the_one_ahead() {
    let queue = Queue::start("own-first");
    let rival = queue.rival();
    // It hears of everything and can ask nothing.
    queue.proxy.black_hole(Direction::ToServer);
    shared_probe().unwrap().delete(&queue.node).unwrap();
    queue.ahead.unlock().unwrap();
    rival.comes_in();
    wait_until("both events have come", SOON, || queue.own.stats().events >= 2);
    assert!(!queue.waiter.is_in(), "beside the rival");
    queue.proxy.restore();
    let Queue { path, own, waiter, node, .. } = queue;
    queues_again(&path, waiter, rival);
    println!("{}, {:?}", place(&node), own.stats());
}

/// A watch tells once. What it tells may be no end.
#[test]
fn what_somebody_has_written_to_is_watched_again() {
    let queue = Queue::start("written");
    let probe = shared_probe().unwrap();
    for (round, node) in [&queue.held(), &queue.node].into_iter().enumerate() {
        probe.set(node, b"written").unwrap();
        let reads = || queue.proxy.requests(Op::GetData) as usize;
        wait_until("it is watched again", SOON, || reads() == 3 + round);
        assert!(!queue.waiter.is_in(), "{node}");
    }
    queue.ahead.unlock().unwrap();
    queue.waiter.comes_in();
    println!("{:?}", queue.own.stats());
    queue.waiter.leaves();
}

/// What happened while there was no connection is told in any order.
#[test]
fn over_a_resume_the_end_of_the_one_ahead_lets_nobody_in_whose_own_node_has_gone() {
    const WAITERS: usize = 12;
    let (proxy, others) = (shared_proxy(), client());
    let own = client_of(&proxy.connect_string(), LONG);
    let queues: Vec<_> = (0..WAITERS)
        .map(|number| {
            let path = fresh_path(&format!("resumed-{number}"));
            let ahead = lock_of(&others, &path);
            ahead.lock().unwrap();
            let (waiter, node) = queues(&own, &path);
            let rival = self::queues(&client(), &path).0;
            Crossed { path, ahead, waiter, node, rival }
        })
        .collect();
    wait_until("all watch", SOON, || proxy.requests(Op::GetData) as usize == 2 * WAITERS);
    proxy.refuse(true);
    proxy.cut();
    queues.iter().for_each(Crossed::goes);
    proxy.refuse(false);
    await_resumed(&own, 1);
    queues.into_iter().for_each(Crossed::has_queued_again);
    println!("{:?}", own.stats());
}

/// It looks at a list from before, when it has been resumed and has not been told what happened meanwhile.
#[test]
fn over_a_resume_watches_that_were_set_before_are_no_reason_to_expect_a_grant() {
    const WAITERS: usize = 8;
    let (proxy, others) = (shared_proxy(), client());
    let own = client_of(&proxy.connect_string(), LONG);
    let (options, told, go_on) = held_in_its_observer();
    let queues: Vec<_> = (0..WAITERS)
        .map(|number| {
            let path = fresh_path(&format!("before-{number}"));
            let [ahead, nearest] = [&others, &client()].map(|client| lock_of(client, &path));
            ahead.lock().unwrap();
            let (gives_up, _) = joins(nearest.clone(), &path);
            let lock = DistributedLock::with(&own, &path, options.clone()).unwrap();
            let (waiter, node) = joins(lock, &path);
            told.recv_timeout(SOON).unwrap();
            let rival = self::queues(&client(), &path).0;
            nearest.cancel_waiters();
            assert!(gives_up.result().is_err());
            Crossed { path, ahead, waiter, node, rival }
        })
        .collect();
    let lists = || proxy.log().iter().filter(|line| line.contains("< GetChildren")).count();
    wait_until("all are told of a list", SOON, || lists() == 2 * WAITERS);
    proxy.refuse(true);
    proxy.cut();
    queues.iter().for_each(Crossed::goes);
    proxy.delay(Direction::ToClient, Duration::from_secs(1));
    proxy.refuse(false);
    await_resumed(&own, 1);
    let events = own.stats().events;
    drop(go_on);
    thread::sleep(BRIEFLY);
    proxy.restore();
    queues.into_iter().for_each(Crossed::has_queued_again);
    println!("{events} events before, {:?}", own.stats());
}

#[test]
fn a_write_that_waits_is_not_let_in_by_the_end_of_a_write_whose_thread_has_a_read_under_it() {
    let (path, proxy) = (fresh_path("under"), shared_proxy());
    let lock = DistributedRwLock::new(&client(), &path).unwrap();
    lock.write_lock().lock().unwrap();
    let own = client_of(&proxy.connect_string(), LONG);
    let (waiter, _) = queues(&own, &path);
    wait_until("it watches", SOON, || proxy.requests(Op::GetData) == 2);
    // Made after it has looked who is before it.
    lock.read_lock().lock().unwrap();
    lock.write_lock().unlock().unwrap();
    wait_until("it watches the read", SOON, || proxy.requests(Op::GetData) >= 3);
    assert!(!waiter.is_in(), "beside the read");
    lock.read_lock().unlock().unwrap();
    waiter.comes_in();
    waiter.leaves();
    println!("{:?}", own.stats());
}

/// Of what has come it has not heard while it has the next one watched.
#[test]
fn what_has_come_while_the_watches_were_set_is_not_overlooked() {
    let (path, proxy) = (fresh_path("unheard"), shared_proxy());
    let own = client_of(&proxy.connect_string(), LONG);
    let [ahead, nearest] = [(); 2].map(|()| lock_of(&client(), &path));
    ahead.lock().unwrap();
    let (gives_up, _) = joins(nearest.clone(), &path);
    // A read watches its own node and the nearest, and nothing before that.
    let (waiter, node) = joins(DistributedRwLock::new(&own, &path).unwrap().read_lock(), &path);
    are_watched(&proxy, 2);
    let (rival, _) = queues(&client(), &path);
    let watch = proxy.on(Op::GetData).hold_request();
    nearest.cancel_waiters();
    assert!(watch.wait(SOON), "{:#?}", proxy.log());
    let list = proxy.on(Op::GetChildren).hold_request();
    shared_probe().unwrap().delete(&node).unwrap();
    wait_until("its own end has come", SOON, || own.stats().events >= 2);
    watch.release();
    are_watched(&proxy, 3);
    assert!(list.wait(SOON), "{:#?}", proxy.log());
    ahead.unlock().unwrap();
    rival.comes_in();
    wait_until("the end of the one ahead has come", SOON, || own.stats().events >= 3);
    assert!(!waiter.is_in(), "beside the rival");
    list.release();
    queues_again(&path, waiter, rival);
    println!("{:?}, {:?}", gives_up.result(), own.stats());
}

#[test]
fn a_waiter_is_not_let_in_by_the_end_of_one_that_was_ahead_of_its_place_in_another_session() {
    let (path, proxy, others) = (fresh_path("next-place"), shared_proxy(), client());
    let own = client_of(&proxy.connect_string(), LONG);
    let ahead = lock_of(&others, &path);
    ahead.lock().unwrap();
    // For its observer it reads who is first, behind the reads that set the watches.
    let options = LockOptions::new().observe_queue(Duration::MAX, |_| {});
    let read = proxy.on(Op::GetData).nth(3).hold_request();
    let (waiter, node) = joins(DistributedLock::with(&own, &path, options).unwrap(), &path);
    assert!(read.wait(SOON), "{:#?}", proxy.log());
    are_watched(&proxy, 2);
    let (rival, _) = queues(&client(), &path);
    ahead.unlock().unwrap();
    wait_until("it is told, and cannot hear", SOON, || own.stats().events >= 1);
    assert!(!rival.is_in() && !waiter.is_in(), "{node}");
    proxy.expire_sessions().unwrap();
    rival.comes_in();
    wait_until("it has queued again", SOON, || children(&path).len() == 2);
    wait_until("it watches", SOON, || proxy.requests(Op::GetData) >= 6);
    thread::sleep(BRIEFLY);
    assert!(!waiter.is_in(), "beside the rival");
    rival.leaves();
    waiter.comes_in();
    waiter.leaves();
    println!("{:#?}, {:?}", proxy.log(), own.stats());
}

/// As one makes who asks the holder to let go.
#[test]
fn a_write_into_the_node_ahead_that_was_missed_costs_no_wake_up() {
    let queue = Queue::start("missed-write");
    queue.proxy.refuse(true);
    queue.proxy.cut();
    shared_probe().unwrap().set(&queue.held(), b"changed").unwrap();
    queue.proxy.refuse(false);
    await_resumed(&queue.own, 1);
    wait_until("it watches both again", SOON, || queue.proxy.requests(Op::GetData) == 4);
    queue.ahead.unlock().unwrap();
    queue.waiter.comes_in();
    println!("{:?}", queue.own.stats());
    queue.waiter.leaves();
}

/// An event carries no transaction id. The server that a session is resumed on may be behind the event that grants
/// the lock, and show what the holder before has written over.
#[test]
fn the_first_read_of_a_holder_goes_behind_a_write_if_the_session_was_resumed_since_it_was_let_in() {
    let (others, data) = (client(), fresh_path("data"));
    shared_probe().unwrap().create(&data, b"", false, false).unwrap();
    for round in 0..20 {
        let (proxy, path, new) = (shared_proxy(), fresh_path("read"), round.to_string());
        let own = client_of(&proxy.connect_string(), LONG);
        let ahead = lock_of(&others, &path).acquire().unwrap();
        let (options, told, go_on) = held_in_its_observer();
        let (lock, reader) = (DistributedLock::with(&own, &path, options).unwrap(), own.clone());
        let (from, events) = (data.clone(), own.stats().events);
        let waiter = Task::spawn(move || {
            let _guard = lock.acquire()?;
            reader.read(&from)
        });
        told.recv_timeout(SOON).unwrap();
        ahead.transaction().set(&data, new.as_str(), None).commit().unwrap();
        ahead.release().unwrap();
        wait_until("it is told of the grant", SOON, || own.stats().events > events);
        proxy.cut();
        await_resumed(&own, 1);
        let before = proxy.log().len();
        drop(go_on);
        let (read, _) = waiter.result("the waiter").unwrap().expect("it is there");
        let log = proxy.log().split_off(before);
        let sent = || log.iter().filter(|line| line.contains(" > "));
        let at = |what: &str| sent().position(|line| line.contains(what));
        let (write, read_at) = (at("> SetData"), at("> GetData"));
        println!("round {round}: {read:?}, {:?}", sent().collect::<Vec<_>>());
        assert!(at("> GetChildren").is_none(), "granted by the event: {log:#?}");
        assert_eq!(read, new.as_bytes());
        assert!(write.is_some() && write < read_at, "not behind a write: {log:#?}");
    }
}
