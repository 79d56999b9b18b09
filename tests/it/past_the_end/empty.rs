//! `remove_empty_directory`: the numbering begins anew.

use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::crowd::{self, Access, Taker};

use super::{END, Granted, Stage, come_in_one_by_one, number, numbers, token_of};
use crate::lock::core::hold_of;

fn tidy(stage: &Stage, client: &Client) -> DistributedLock {
    let options = LockOptions::new().remove_empty_directory(true);
    DistributedLock::with(client, &stage.path, options).unwrap()
}

#[test]
fn after_the_last_release_the_numbers_begin_at_zero_and_tokens_go_on() {
    for begin in [END - 1, END, i32::MIN] {
        let Some(stage) = Stage::new("anew", begin) else {
            return;
        };
        let clients = [stage.client(), stage.client()];
        let list = Granted::default();
        let first = stage.queues(&list, "first", tidy(&stage, &clients[0]));
        let second = stage.queues(&list, "second", tidy(&stage, &clients[1]));
        let before = numbers(&stage.nodes());
        let last = stage.probe.stat(&stage.path).unwrap().unwrap().pzxid;
        come_in_one_by_one(vec![(first, "first"), (second, "second")], &list);
        assert!(!stage.probe.exists(&stage.path).unwrap());
        let lock = tidy(&stage, &clients[0]);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        println!("{before:?}, then {}", hold.node());
        assert!(hold.node().ends_with("-lock-0000000000"));
        assert!(token_of(&hold) > last as u64);
        let third = stage.queues(&list, "third", tidy(&stage, &clients[1]));
        assert_eq!(numbers(&stage.nodes()), [0, 1]);
        // Not while somebody waits.
        lock.unlock().unwrap();
        third.comes_in();
        assert_eq!(numbers(&stage.nodes()), [1]);
        third.leaves();
        assert!(!stage.probe.exists(&stage.path).unwrap());
    }
}

#[test]
fn a_crowd_in_a_directory_that_comes_and_goes_is_alone_and_in_order() {
    let Some(stage) = Stage::new("anew-crowd", END - 5) else {
        return;
    };
    let clients = [stage.client(), stage.client()];
    let taker = |at: usize| -> Taker {
        let lock = tidy(&stage, &clients[at % 2]);
        Box::new(move |witness| {
            lock.lock()?;
            let hold = hold_of(&lock);
            witness.visit(Access::Alone, hold.fencing_token()?, &hold.node(), || {});
            lock.unlock()?;
            // Otherwise somebody would always be there.
            thread::sleep(Duration::from_millis(10));
            Ok(())
        })
    };
    let seen = crowd::run((0..2).map(taker).collect(), 40, Duration::from_secs(60));
    seen.assert_apart();
    seen.assert_in_order();
    let anew = seen.visits.iter().filter(|visit| number(&visit.node) == 0);
    let anew = anew.count();
    println!("{seen:?}, {anew} new directories");
    assert!(anew > 0);
    assert!(!stage.probe.exists(&stage.path).unwrap());
}
