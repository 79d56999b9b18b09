//! What it costs: who is woken by a release, and how many requests there are.

use zoolock_test_support::Op;

use super::{Stage, Visitor};
use common::children;

/// Everything a lock may ask for.
const OPS: [Op; 5] = [Op::Create, Op::Delete, Op::Exists, Op::GetData, Op::GetChildren];

fn requests(stage: &Stage) -> [u64; 5] {
    OPS.map(|op| stage.proxy.requests(op))
}

#[track_caller]
fn cost(stage: &Stage, what: &str, expected: [u64; 5], step: impl FnOnce()) {
    let before = requests(stage);
    step();
    let after = requests(stage);
    let cost: [u64; 5] = std::array::from_fn(|at| after[at] - before[at]);
    println!("{what}: [create, delete, exists, get_data, list] = {cost:?}");
    assert_eq!(cost, expected, "{what}");
}

#[test]
fn a_release_wakes_only_those_that_it_lets_in() {
    const READERS: usize = 20;
    const CLIENTS: usize = 4;
    let stage = Stage::new("wakes", CLIENTS);
    let first = stage.enters(stage.lock(0).write_lock());
    let readers: Vec<_> =
        (0..READERS).map(|number| stage.queues(stage.lock(number % CLIENTS).read_lock())).collect();
    let last = stage.queues(stage.lock(3).write_lock());
    let seen = || (stage.proxy.events(), stage.lists());
    let since = |before: (u64, u64)| {
        let now = seen();
        (now.0 - before.0, now.1 - before.1)
    };

    let before = seen();
    first.leaves();
    readers.iter().for_each(Visitor::comes_in);
    assert!(!last.is_in());
    let woken = since(before);
    println!("the writer's release: {woken:?} (events, lists) for {READERS} readers");
    // A server sends one event to each client that watches a node.
    assert_eq!(woken, (CLIENTS as u64, READERS as u64));

    // The writer watches the nearest of them; the others wake nobody when they leave.
    let before = seen();
    let mut readers = readers;
    let nearest = readers.pop().unwrap();
    readers.into_iter().for_each(Visitor::leaves);
    assert!(!last.is_in());
    println!("19 readers' releases: {:?}", since(before));
    nearest.leaves();
    last.comes_in();
    let woken = since(before);
    println!("all releases of readers: {woken:?} (events, lists), for one writer");
    assert_eq!(woken, (1, 1));
    last.leaves();
    stage.is_empty();
}

#[test]
fn a_release_of_a_writer_wakes_no_reader_behind_the_next_writer() {
    const READERS: usize = 10;
    let stage = Stage::new("wakes-next", 2);
    let first = stage.enters(stage.lock(0).write_lock());
    let second = stage.queues(stage.lock(1).write_lock());
    let readers: Vec<_> =
        (0..READERS).map(|number| stage.queues(stage.lock(number % 2).read_lock())).collect();
    let before = (stage.proxy.events(), stage.lists());
    first.leaves();
    second.comes_in();
    let woken = (stage.proxy.events() - before.0, stage.lists() - before.1);
    println!("{woken:?} (events, lists), {READERS} readers behind");
    assert_eq!(woken, (1, 1));
    second.leaves();
    readers.iter().for_each(Visitor::comes_in);
    let woken = (stage.proxy.events() - before.0, stage.lists() - before.1);
    println!("{woken:?} when all readers are in");
    assert_eq!(woken, (1 + 2, 1 + READERS as u64), "one event to each client");
    readers.into_iter().for_each(Visitor::leaves);
    stage.is_empty();
}

#[test]
fn a_read_under_a_write_costs_a_node_and_a_list_and_entering_either_again_nothing() {
    let stage = Stage::new("cost", 1);
    let lock = stage.lock(0);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    // The first one makes the directory.
    read.lock().unwrap();
    read.unlock().unwrap();
    read.lock().unwrap();
    cost(&stage, "a write that is tried under a read", [0, 0, 0, 0, 1], || {
        assert!(!write.try_lock().unwrap());
    });
    read.unlock().unwrap();
    write.lock().unwrap();
    cost(&stage, "a read under a write", [1, 0, 0, 0, 1], || {
        read.lock().unwrap();
    });
    read.unlock().unwrap();
    cost(&stage, "and one more", [1, 0, 0, 0, 1], || {
        read.lock().unwrap();
    });
    cost(&stage, "entering both again", [0; 5], || {
        write.lock().unwrap();
        read.lock().unwrap();
        assert!(write.try_lock().unwrap());
        for _ in 0..2 {
            write.unlock().unwrap();
        }
        read.unlock().unwrap();
    });
    cost(&stage, "the token of both", [0; 5], || {
        let tokens = [lock.read_lock().hold(), lock.write_lock().hold()];
        let tokens = tokens.map(|hold| hold.unwrap().fencing_token().unwrap());
        assert_eq!(tokens[0], tokens[1]);
    });
    cost(&stage, "unlocking both", [0, 2, 0, 0, 0], || {
        write.unlock().unwrap();
        read.unlock().unwrap();
    });
    assert_eq!(children(&stage.path), [""; 0]);
    stage.is_empty();
}
