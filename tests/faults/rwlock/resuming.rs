//! Both sides survive their connection: nodes, places and order are kept.

use zoolock::{Client, HoldState};
use zoolock_test_support::{FaultProxy, fresh_path, wait_until};

use super::{Visitor, rw_of};
use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, await_resumed, children, client, client_of, places, shared_proxy, stat,
};

/// Starts a visitor and returns when its node is there.
fn queued(client: &Client, path: &str, kind: char) -> Visitor {
    let nodes = children(path).len();
    let lock = rw_of(client, path);
    let visitor = match kind {
        'R' => Visitor::start(lock.read_lock()),
        _ => Visitor::start(lock.write_lock()),
    };
    wait_until("it is queued", SOON, || children(path).len() > nodes);
    visitor
}

#[test]
fn reads_held_and_both_sides_queued_keep_their_places_and_their_order_over_cuts() {
    let proxy = shared_proxy();
    let (cut, others) = (client_of(&proxy.connect_string(), SESSION), client());
    let path = fresh_path("reads-resumed");
    // Every second one comes through the proxy: R R R hold, W R R W R wait.
    let visitors: Vec<_> = "RRRWRRWR"
        .chars()
        .enumerate()
        .map(|(number, kind)| queued([&cut, &others][number % 2], &path, kind))
        .collect();
    visitors[..3].iter().for_each(Visitor::comes_in);
    let before = children(&path);
    for (round, end) in [FaultProxy::cut, FaultProxy::reset].iter().enumerate() {
        end(&proxy);
        let took = await_resumed(&cut, round as u64 + 1);
        println!("resumed after {took:?}: {before:?}");
        assert_eq!(children(&path), before);
        let inside: Vec<_> = visitors.iter().map(Visitor::is_in).collect();
        assert_eq!(inside, [true, true, true, false, false, false, false, false]);
    }
    let mut visitors = visitors.into_iter();
    let mut next = || visitors.next().unwrap();
    let (one, two, three) = (next(), next(), next());
    let (writer, readers) = (next(), [next(), next()]);
    let (last_writer, last) = (next(), next());
    one.leaves();
    two.leaves();
    assert!(!writer.is_in());
    three.leaves();
    writer.comes_in();
    assert!(readers.iter().all(|reader| !reader.is_in()) && !last.is_in());
    proxy.cut();
    await_resumed(&cut, 3);
    writer.leaves();
    readers.iter().for_each(Visitor::comes_in);
    assert!(!last_writer.is_in() && !last.is_in());
    readers.into_iter().for_each(Visitor::leaves);
    last_writer.comes_in();
    assert!(!last.is_in());
    last_writer.leaves();
    last.comes_in();
    last.leaves();
    await_nodes(&path, 0);
    println!("{:?}", cut.stats());
    assert_eq!((cut.stats().holds_lost, cut.stats().sessions), (0, 1));
}

#[test]
fn a_write_and_the_read_under_it_outlive_a_cut_and_the_read_goes_on_alone() {
    let proxy = shared_proxy();
    let (cut, others) = (client_of(&proxy.connect_string(), SESSION), client());
    let path = fresh_path("both-resumed");
    let lock = rw_of(&cut, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    write.lock().unwrap();
    read.lock().unwrap();
    let holds = [hold_of(&write), hold_of(&read)];
    let nodes = holds.each_ref().map(zoolock::Hold::node);
    let token = stat(&format!("{path}/{}", nodes[0])).czxid as u64;
    let reader = queued(&others, &path, 'R');
    let writer = queued(&cut, &path, 'W');
    let (before, taken) = (children(&path), places(&path));
    assert_eq!(taken[0], taken[1], "one place for both");
    proxy.cut();
    await_resumed(&cut, 1);
    assert_eq!(children(&path), before);
    for (hold, node) in holds.iter().zip(&nodes) {
        assert_eq!(hold.state(), HoldState::Held);
        assert_eq!(hold.node(), *node);
        assert_eq!(hold.fencing_token().unwrap(), token);
    }
    assert!(!reader.is_in() && !writer.is_in());
    // A read that is new on the new connection is under the same write.
    read.unlock().unwrap();
    read.lock().unwrap();
    assert_eq!(places(&path), taken);
    assert_eq!(hold_of(&read).fencing_token().unwrap(), token);
    write.unlock().unwrap();
    reader.comes_in();
    let left = children(&path);
    proxy.cut();
    await_resumed(&cut, 2);
    assert_eq!(children(&path), left);
    assert_eq!(hold_of(&read).state(), HoldState::Held);
    assert_eq!(hold_of(&read).fencing_token().unwrap(), token);
    assert!(!writer.is_in() && reader.is_in());
    println!("{:?}: {:?}", hold_of(&read), cut.stats());
    reader.leaves();
    assert!(!writer.is_in());
    read.unlock().unwrap();
    writer.comes_in();
    writer.leaves();
    await_nodes(&path, 0);
    assert_eq!(cut.stats().holds_lost, 0);
}
