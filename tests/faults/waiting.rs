//! Waiting: which events wake which waiters.

use std::time::Duration;

use zoolock_test_support::{Op, fresh_path, wait_until};

use common::line::Line;
use common::{SOON, client, client_of, lock_of, shared_proxy};

#[test]
fn a_release_wakes_exactly_one_of_50_waiters() {
    const WAITERS: u64 = 50;
    let (path, others, proxy) = (fresh_path("herd"), client(), shared_proxy());
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let own = [(); 4].map(|()| client_of(&proxy.connect_string(), Duration::from_secs(60)));
    let mut line = Line::at(&path);
    (0..WAITERS as usize).for_each(|number| drop(line.join(&own[number % 4])));
    // Its own node, the one ahead, and the one before that, which the first one has not.
    wait_until("each watches", SOON, || proxy.requests(Op::GetData) == 3 * WAITERS - 1);
    let seen = || [proxy.events(), proxy.requests(Op::GetChildren)];
    let before = seen();
    held.unlock().unwrap();
    line.comes_in_order();
    let [events, lists] = seen().map(|count| count as i64);
    let [events, lists] = [events - before[0] as i64, lists - before[1] as i64];
    println!("{WAITERS} releases: {events} events, {lists} lists");
    // One for each watch; and its client lists once for each that has come closer, but not for a
    // grant.
    assert_eq!(events, 3 * WAITERS as i64 - 1, "events");
    assert_eq!(lists, WAITERS as i64 - 1, "lists");
    let asked = [Op::Create, Op::GetChildren, Op::GetData, Op::Delete].map(|op| proxy.requests(op));
    println!("creates, lists, reads and deletions: {asked:?}");
    assert_eq!(asked.iter().sum::<u64>(), 7 * WAITERS - 2, "seven a turn, five behind one other");
}
