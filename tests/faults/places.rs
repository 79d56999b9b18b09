//! Being let in, or letting go, just as the connection or the session ends.

use std::time::{Duration, Instant};

use zoolock::{Client, ClientState, DistributedRwLock, HoldState};
use zoolock_test_support::{Direction, FaultProxy, Op, Then, fresh_path, wait_until};

use common::line::{Line, has_one_node_until_unlocked};
use common::{
    SESSION, SOON, Task, TwoWays, await_resumed, children, client, client_of, lock_of, place,
    shared_proxy, warnings,
};

/// A waiter whose turn has come, and the list that says so on its way to it: the end of a write alone does not.
fn turn_on_its_way(path: &str) -> (FaultProxy, Client, Line, zoolock_test_support::Hold) {
    let proxy = shared_proxy();
    let waiting = client_of(&proxy.connect_string(), SESSION);
    let held = DistributedRwLock::new(&client(), path).unwrap().write_lock();
    held.lock().unwrap();
    let mut line = Line::at(path);
    line.join(&waiting);
    wait_until("it watches the one ahead, and its own", SOON, || proxy.requests(Op::GetData) == 2);
    let list = proxy.on(Op::GetChildren).path_contains(path).hold_answer();
    held.unlock().unwrap();
    assert!(list.wait(SOON), "{:#?}", proxy.log());
    (proxy, waiting, line, list)
}

#[test]
fn a_grant_that_arrives_as_the_connection_dies_is_checked_on_the_next() {
    let path = fresh_path("grant-cut");
    let (proxy, waiting, line, list) = turn_on_its_way(&path);
    let node = children(&path);
    // The next look is held, too: nothing is granted before it.
    let look = proxy.on(Op::GetChildren).path_contains(&path).hold_answer();
    proxy.cut();
    assert!(look.wait(SOON), "{:#?}", proxy.log());
    list.release();
    assert_eq!(children(&path), node);
    assert!(!line.is_let_in(), "let in by an answer of a dead connection");
    look.release();
    line.comes_in_order();
    println!("{node:?}, {:?}", waiting.stats());
    assert_eq!((waiting.stats().resumed, waiting.stats().connections), (1, 2));
}

#[test]
fn a_grant_that_arrives_as_the_session_ends_lets_nobody_in_beside_the_next() {
    let path = fresh_path("grant-expired");
    let (proxy, waiting, line, list) = turn_on_its_way(&path);
    proxy.refuse(true);
    proxy.cut();
    list.release();
    proxy.expire_sessions().unwrap();
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    assert!(rival.try_lock().unwrap());
    proxy.refuse(false);
    let own = rival.hold().unwrap().node();
    wait_until("it has queued behind the rival", SOON, || {
        let mut others = children(&path);
        others.retain(|node| *node != own);
        matches!(&others[..], [other] if place(other) > place(&own))
    });
    println!("{:?}, the rival's is {own}; {:?}", children(&path), waiting.stats());
    assert!(rival.is_held() && !line.is_let_in());
    rival.unlock().unwrap();
    line.comes_in_order();
}

/// Too busy to send a ping for longer than a session timeout.
#[test]
fn a_busy_client_that_is_cut_keeps_its_locks_and_its_places() {
    let proxy = shared_proxy();
    let (busy, others) = (client_of(&proxy.connect_string(), SESSION), client());
    let [own, held, work] = ["own", "held", "work"].map(fresh_path);
    let (own, work, held) = (lock_of(&busy, &own), lock_of(&busy, &work), lock_of(&others, &held));
    own.lock().unwrap();
    held.lock().unwrap();
    let mut line = Line::at(held.path());
    for client in [&busy, &others, &busy] {
        line.join(client);
    }
    let hold = own.hold().unwrap();
    let seen = || (hold.node(), hold.fencing_token().unwrap(), children(held.path()));
    let (before, begun) = (seen(), Instant::now());
    wait_until("it has been busy for long", SOON, || {
        work.lock().unwrap();
        work.unlock().unwrap();
        begun.elapsed() > 2 * SESSION
    });
    proxy.cut();
    await_resumed(&busy, 1);
    println!("{} pings; {hold:?}, {:?}", proxy.requests(Op::Ping), busy.stats());
    assert_eq!((hold.state(), seen()), (HoldState::Held, before));
    held.unlock().unwrap();
    line.comes_in_order();
    has_one_node_until_unlocked(&own);
    assert_eq!(busy.stats().holds_lost, 0);
}

#[test]
fn drops_after_a_close_or_of_a_stale_guard_are_logged_and_do_not_hang() {
    let closing = client();
    let path = fresh_path("close");
    warnings(&path);
    let [lock, raw] = ["a", "b"].map(|name| lock_of(&closing, &format!("{path}/{name}")));
    let stale = lock.acquire().unwrap();
    lock.unlock().unwrap();
    drop(stale);
    assert!(warnings(&path).iter().any(|line| line.contains("is not held")), "{path}");
    let guard = lock.acquire().unwrap();
    raw.lock().unwrap();
    let dropped = Task::spawn(move || {
        closing.close().unwrap();
        drop((guard, raw, lock));
        closing.close().unwrap();
    });
    dropped.result("drops after a close");
    let logged = warnings(&path);
    println!("{logged:#?}");
    let told = logged.iter().filter(|line| line.contains("the client was closed"));
    assert!(told.count() >= 2, "{logged:#?}");
}

#[test]
fn a_look_stuck_on_a_silent_connection_does_not_stop_a_deletion() {
    let TwoWays { first, second, client } = TwoWays::start(Duration::from_secs(20));
    second.refuse(true);
    let lock = lock_of(&client, &fresh_path("stuck-look"));
    // A node that may still come to be is looked for again ..
    let lost = first.drop_request(Op::Create, 1, Then::Cut);
    lock.lock().unwrap();
    assert!(lost.fired(), "{:#?}", first.log());
    lock.unlock().unwrap();
    assert_eq!(client.stats().deleting, 1);
    // .. and one of these looks gets stuck.
    first.black_hole(Direction::Both);
    first.refuse(true);
    second.refuse(false);
    await_resumed(&client, 2);
    lock.lock().unwrap();
    second.refuse(true);
    second.cut();
    wait_until("it is suspended", SOON, || client.state() == ClientState::Suspended);
    lock.unlock().unwrap();
    second.refuse(false);
    await_resumed(&client, 3);
    wait_until("its node is gone", SOON, || children(lock.path()).is_empty());
    assert_eq!(client.stats().sessions, 1, "only its session's end took it");
}
