//! Letting go, just as the connection or the session ends.

use std::time::Duration;

use zoolock::ClientState;
use zoolock_test_support::{Direction, Op, Then, fresh_path, wait_until};

use common::{SOON, Task, TwoWays, await_resumed, children, client, lock_of, warnings};

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
