//! The end of the only predecessor is the grant, without a list, while the own node exists.

use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, Lock, LockOptions};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use common::line::held_in_its_observer;
use common::{
    BRIEFLY, SOON, Task, Visitor, await_resumed, behind_a_proxy, children, client, client_of,
    lock_of, shared_proxy,
};

/// Neither the session nor half of its timeout ends during a test.
const LONG: Duration = Duration::from_secs(30);

/// Waits until the server has confirmed this many requests for watches.
fn are_watched(proxy: &FaultProxy, times: usize) {
    let answers = || proxy.log().iter().filter(|line| line.contains("< SetWatches")).count();
    wait_until(&format!("it has watched {times} times"), SOON, || answers() == times);
}

/// Queues one more waiter, and returns it with its node.
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

#[test]
fn end_of_an_old_predecessor_grants_nothing_in_a_new_session() {
    let (path, proxy, others) = (fresh_path("next-place"), shared_proxy(), client());
    let own = client_of(&proxy.connect_string(), LONG);
    let ahead = lock_of(&others, &path);
    ahead.lock().unwrap();
    // The observer makes it read the first contender, after the read that shows that it may.
    let options = LockOptions::new().on_queue_position(Duration::MAX, |_| {});
    let read = proxy.on(Op::GetData).nth(2).hold_request();
    let (waiter, node) = joins(DistributedLock::with_options(&own, &path, options).unwrap(), &path);
    assert!(read.wait(SOON), "{:#?}", proxy.log());
    are_watched(&proxy, 1);
    let (rival, _) = queues(&client(), &path);
    ahead.unlock().unwrap();
    wait_until("it is told, and cannot hear", SOON, || own.stats().events >= 1);
    assert!(!rival.is_in() && !waiter.is_in(), "{node}");
    proxy.expire_sessions().unwrap();
    rival.comes_in();
    wait_until("it has queued again", SOON, || children(&path).len() == 2);
    are_watched(&proxy, 2);
    thread::sleep(BRIEFLY);
    assert!(!waiter.is_in(), "beside the rival");
    rival.leaves();
    waiter.comes_in();
    waiter.leaves();
    println!("{:#?}, {:?}", proxy.log(), own.stats());
}

/// An event carries no transaction id. The server of a resumed session may lag behind the event that grants
/// the lock, and still show data that the previous holder has overwritten.
#[test]
fn first_read_after_a_resume_follows_a_write() {
    let (others, data) = (client(), fresh_path("data"));
    shared_probe().unwrap().create(&data, b"", false, false).unwrap();
    for round in 0..20 {
        let ((proxy, own), path, new) =
            (behind_a_proxy(LONG), fresh_path("read"), round.to_string());
        let ahead = lock_of(&others, &path).acquire().unwrap();
        let (options, told, go_on) = held_in_its_observer();
        let (lock, reader) =
            (DistributedLock::with_options(&own, &path, options).unwrap(), own.clone());
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
