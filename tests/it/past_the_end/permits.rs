//! A semaphore both of whose directories are past the end: turns are lost with their connection,
//! permits move, since their numbers do not matter.

use std::time::{Duration, Instant};

use zoolock::DistributedSemaphore;
use zoolock_test_support::wait_until;

use super::{END, Stage, nodes, number};
use crate::util::{SOON, Task, client_of};

const SHORT: Duration = Duration::from_secs(3);

#[test]
fn permits_move_and_a_turn_that_is_cut_off_lets_the_next_in() {
    let Some(stage) = Stage::new("permits-cut", 0) else {
        return;
    };
    let parts = ["locks", "leases"].map(|part| stage.part(part, END));
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SHORT);
    let of = |client| DistributedSemaphore::new(client, &stage.path, 1).unwrap();
    let turns = || nodes(&stage.probe, &parts[0]);
    let permits = of(&cut_off).acquire(1).unwrap();
    let before = permits.holds()[0].node();
    let waits = |semaphore: DistributedSemaphore, turn: usize| {
        let task = Task::spawn(move || semaphore.acquire(1).unwrap());
        wait_until("it is queued", SOON, || turns().len() == turn);
        task
    };
    let has_turn = waits(of(&cut_off), 1);
    let behind = waits(of(&direct), 2);
    proxy.cut();
    wait_until("the permit has moved", SOON, || permits.holds()[0].node() != before);
    let after = permits.holds()[0].node();
    println!("{before} is {after} now");
    assert_eq!([number(&before), number(&after)], [END; 2]);
    assert!(permits.is_held() && !has_turn.is_done() && !behind.is_done());
    permits.release().unwrap();
    let begun = Instant::now();
    let mut waiting = vec![has_turn, behind];
    while !waiting.is_empty() {
        wait_until("one of them has a permit", SOON, || waiting.iter().any(Task::is_done));
        let done = waiting.iter().position(Task::is_done).unwrap();
        let permits = waiting.remove(done).result("a waiter");
        println!("granted after {:?}", begun.elapsed());
        assert!(permits.is_held());
        assert!(waiting.iter().all(|other| !other.is_done()), "two permits");
        permits.release().unwrap();
    }
    for part in &parts {
        wait_until("nothing is left", SOON, || nodes(&stage.probe, part).is_empty());
    }
}
