//! Wake-ups of waiters.

use std::time::Duration;

use zoolock_test_support::{Op, fresh_path, wait_until};

use common::line::Line;
use common::{SOON, client, client_of, lock_of, shared_proxy};

#[test]
fn release_wakes_exactly_one_waiter() {
    const WAITERS: u64 = 20;
    let (path, others, proxy) = (fresh_path("herd"), client(), shared_proxy());
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let own = [(); WAITERS as usize]
        .map(|()| client_of(&proxy.connect_string(), Duration::from_secs(60)));
    let mut line = Line::at(&path);
    own.iter().for_each(|own| drop(line.join(own)));
    // Each watches its own node and the two ahead, of which the first waiter has only one.
    wait_until("each watches", SOON, || proxy.requests(Op::SetWatches) == WAITERS);
    let seen = || [proxy.events(), proxy.requests(Op::GetChildren)];
    let before = seen();
    held.unlock().unwrap();
    line.comes_in_order();
    let [events, lists] = seen().map(|count| count as i64);
    let [events, lists] = [events - before[0] as i64, lists - before[1] as i64];
    println!("{WAITERS} releases: {events} events, {lists} lists");
    // One event for each watch. A waiter lists once when it moves up, but not for a grant.
    assert_eq!(events, 3 * WAITERS as i64 - 1, "events");
    assert_eq!(lists, WAITERS as i64 - 1, "lists");
    const OPS: [Op; 5] = [Op::Create, Op::GetChildren, Op::SetWatches, Op::Delete, Op::GetData];
    let asked = OPS.map(|op| proxy.requests(op));
    println!("creates, lists, watches, deletions and reads: {asked:?}");
    // Each client reads once whether it may read.
    assert_eq!(asked[4], WAITERS);
    let all = asked[..4].iter().sum::<u64>();
    assert_eq!(all, 5 * WAITERS - 1, "five a turn, four behind one other");
}
