//! A semaphore both of whose directories are past the end.

use std::time::{Duration, Instant};

use zoolock::DistributedSemaphore;
use zoolock_test_support::wait_until;

use super::{END, Stage, nodes, number};
use common::{SOON, Task, await_resumed, client_of};

const SHORT: Duration = Duration::from_secs(3);

#[test]
fn permits_and_turns_are_kept_over_a_cut_and_the_order_of_the_turns() {
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
    assert_eq!(number(&before), END);
    let waits = |semaphore: DistributedSemaphore, turn: usize| {
        let task = Task::spawn(move || semaphore.acquire(1).unwrap());
        wait_until("it is queued", SOON, || turns().len() == turn);
        task
    };
    let has_turn = waits(of(&cut_off), 1);
    let behind = waits(of(&direct), 2);
    let queue = turns();
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!((permits.holds()[0].node(), turns()), (before, queue));
    assert!(permits.is_held() && !has_turn.is_done() && !behind.is_done());
    permits.release().unwrap();
    let begun = Instant::now();
    let permits = has_turn.result("who has the turn");
    println!("granted after {:?}", begun.elapsed());
    assert!(permits.is_held() && !behind.is_done(), "two permits");
    permits.release().unwrap();
    behind.result("who is behind").release().unwrap();
    for part in &parts {
        wait_until("nothing is left", SOON, || nodes(&stage.probe, part).is_empty());
    }
}
