//! Holds that are handed on and on: heartbeats and watches go with the node, over cuts, too.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use zoolock_test_support::{Probe, Server, connect_string, fresh_path, wait_until};

use super::*;
use common::{Stage, await_nothing_left, await_resumed, children, client_of};

const SHORT: Duration = Duration::from_secs(4);

#[test]
fn a_node_that_is_handed_on_for_longer_than_the_session_timeout_stays_alive() {
    let client = client_of(&connect_string(), SHORT);
    let path = fresh_path("long");
    let lock = lock_with(&client, &path, u32::MAX);
    // By token: since when, until when, and how often. On a slow machine nobody may wait for once,
    // and the node changes.
    let runs = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&runs);
    let passers = Passers::start(&lock, 4, move |hold| {
        let now = Instant::now();
        let mut runs = seen.lock().unwrap();
        let token = hold.fencing_token().unwrap();
        let run = runs.entry(token).or_insert((now, now, 0));
        (run.1, run.2) = (now, run.2 + 1);
        drop(runs);
        a_moment();
    });
    let longest = || {
        let runs = runs.lock().unwrap();
        let runs = runs.values().map(|(begin, end, times)| (*end - *begin, *times));
        runs.max().unwrap_or_default()
    };
    wait_until("a node has had two session timeouts", 2 * SOON, || longest().0 > SHORT * 2);
    let turns: Vec<_> = passers.stop().into_iter().map(Result::unwrap).collect();
    println!("{turns:?} turns, {:?}, {:?}", longest(), client.stats());
    assert_eq!(client.stats().holds_lost, 0);
    await_nothing_left(&client);
}

#[test]
fn a_hold_that_was_taken_over_outlives_a_cut_and_is_handed_on() {
    let stage = Stage::new("outlives", Duration::from_secs(10));
    let lock = lock_with(&stage.client, &stage.path, 3);
    let guard = lock.acquire().unwrap();
    let (node, token) = (guard.node(), guard.fencing_token().unwrap());
    let next = Next::waits(&lock);
    guard.release().unwrap();
    let heir = next.holds();
    stage.proxy.cut();
    await_resumed(&stage.client, 1);
    assert!(heir.is_held());
    assert_eq!((heir.node(), heir.fencing_token().unwrap()), (node.clone(), token));
    let last = Next::waits(&lock);
    next.lets_go().unwrap();
    assert_eq!(last.holds().node(), node);
    assert_eq!(last.holds.try_recv().ok().map(|hold| hold.node()), None);
    last.lets_go().unwrap();
    await_nothing_left(&stage.client);
    assert_eq!(children(&stage.path), [""; 0]);
}

/// How often nodes are watched, as a server of one's own says.
fn watches(server: &Server) -> usize {
    let answer = server.four_letter("wchp").unwrap();
    answer.lines().filter(|line| line.starts_with('\t')).count()
}

#[test]
fn the_one_watch_goes_with_the_node_and_none_is_left() {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SHORT);
    let lock = lock_with(&client, "/lock", u32::MAX);
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    let passers = Passers::start(&lock, 4, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        a_moment();
    });
    let took = wait_until("the node is watched", SOON, || watches(&server) == 1);
    let node = || probe.children("/lock").unwrap();
    let (watched, before) = (node(), turns.load(Ordering::SeqCst));
    println!("{watched:?} is watched after {took:?}");
    // On a slow machine nobody may wait for once, and the node changes.
    wait_until("many turns more, or another node", SOON, || {
        let seen = watches(&server);
        let same = node() == watched;
        assert!(seen == 1 || !same, "watched {seen} times");
        !same || turns.load(Ordering::SeqCst) > before + 500
    });
    println!("{} turns", turns.load(Ordering::SeqCst) - before);
    for turns in passers.stop() {
        turns.unwrap();
    }
    await_nothing_left(&client);
    wait_until("no watch is left", SOON, || watches(&server) == 0);
}
