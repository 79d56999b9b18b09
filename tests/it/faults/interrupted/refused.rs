//! Moves that the server refuses.

use std::time::Duration;

use zoolock::{Error, HoldState, LossReason};
use zoolock_test_support::fresh_path;

use super::{Line, has_one_node_until_unlocked};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::relay::{Fate, Frame, Relay, UNTOUCHED};
use crate::util::{SESSION, Task, await_lost, client, client_of, lock_of, shared_address};

/// Makes a move's create one that every server refuses: without an ACL.
fn without_acl(path: &'static str) -> impl Fn(&Frame<'_>) -> Fate + Send + Sync {
    move |frame| match frame.moving_create_below(path) {
        Some(create) => Fate::Instead(create.without_acl()),
        None => UNTOUCHED,
    }
}

#[test]
fn a_hold_whose_move_the_server_refuses_ends_with_its_lease() {
    const SHORT: Duration = Duration::from_secs(3);
    let path: &'static str = fresh_path("hold-refused").leak();
    let relay = Relay::start(shared_address(), without_acl(path));
    let client = client_of(&relay.connect_string(), SHORT);
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let others = crate::util::client();
    let mut line = Line::at(path);
    line.join(&others);
    let left = hold.valid_for();
    relay.cut();
    await_lost(&hold);
    assert!(!line.is_let_in() || !hold.is_held());
    println!("{left:?} were left at the cut; {hold:?}");
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    assert!(relay.changed() >= 1, "no create was refused");
    line.comes_in_order();
    let unlocked = lock.unlock();
    assert!(unlocked.as_ref().is_err_and(Error::is_lost), "{unlocked:?}");
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_waiter_whose_move_the_server_refuses_is_told_and_leaves_no_node() {
    let path: &'static str = fresh_path("waiter-refused").leak();
    let relay = Relay::start(shared_address(), without_acl(path));
    let others = client();
    let held = lock_of(&others, path);
    held.lock().unwrap();
    let refused = client_of(&relay.connect_string(), SESSION);
    let lock = lock_of(&refused, path);
    let waiting = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    await_nodes(path, 2);
    relay.cut();
    let seen = waiting.result("the waiter");
    println!("{seen:?}, {} refused, {:?}", relay.changed(), refused.stats());
    assert!(matches!(seen, Err(Error::InvalidArgument { .. })), "{seen:?}");
    await_nodes(path, 1);
    assert!(held.is_held());
    held.unlock().unwrap();
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}
