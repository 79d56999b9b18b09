//! Ends caused from outside: a close of the client, and a cancel of an object's waits.

use std::time::Duration;

use zoolock::{Client, Error, HoldState, LossReason, Result};
use zoolock_test_support::{fresh_path, wait_until};

use super::Pair;
use common::{
    Object, SOON, Subject, Task, await_lost, await_nothing_left, client, every_subject, in_time,
    visit, warnings,
};

const ROUNDS: u64 = 8;

/// Two visits and one with a timeout, all asleep in their waits.
fn waits(object: &Object) -> [Task<Result<()>>; 3] {
    let timed = object.clone();
    let timed = move || timed.try_lock_for(SOON * 2).and_then(|_| timed.unlock());
    [
        Task::spawn_blocked(visit(object.clone())),
        Task::spawn_blocked(visit(object.clone())),
        Task::spawn_blocked(timed),
    ]
}

#[track_caller]
fn closed<T: std::fmt::Debug>(subject: Subject, seen: &Result<T>) {
    assert!(matches!(seen, Err(Error::Closed)), "{}: {seen:?}", subject.name);
}

/// Expects `Cancelled`. A multi-lock names the member that it waited for.
#[track_caller]
fn cancelled(subject: Subject, seen: &Result<()>, path: &str) {
    let told = matches!(seen, Err(Error::Cancelled { path: at }) if at.starts_with(path));
    assert!(told, "{}: {seen:?}", subject.name);
}

#[test]
fn close_ends_each_hold_and_wait_once_and_refuses_later_calls() {
    every_subject(|subject| {
        let (ours, others) = (super::client(), client());
        let [held, dropped, waited] = ["held", "dropped", "waited"].map(fresh_path);
        warnings(&dropped);
        let [object, forgotten] = [&held, &dropped].map(|path| subject.at(&ours, path));
        let nest = if subject.is_a_threads() { 3 } else { 1 };
        (0..nest).for_each(|_| object.lock().unwrap());
        forgotten.lock().unwrap();
        let ahead = subject.rival(&others, &waited);
        ahead.lock().unwrap();
        // The turn for permits is deleted after the grant.
        subject.await_nodes(&waited, subject.nodes_of_one());
        let waiting = [subject.at(&ours, &waited), subject.at(&ours, &waited)];
        let waits = waiting.each_ref().map(waits);
        let holds = [object.holds(), forgotten.holds()].concat();

        ours.close().unwrap();
        for hold in &holds {
            await_lost(hold);
            assert_eq!(hold.state(), HoldState::Lost(LossReason::ClientClosed), "{}", subject.name);
            assert_eq!(hold.valid_for(), Duration::ZERO);
        }
        for wait in waits.iter().flatten() {
            closed(subject, &wait.result("a wait of a closed client"));
        }
        assert_eq!([&held, &dropped].map(|path| subject.nodes(path).len()), [0, 0]);
        assert_eq!(subject.nodes(&waited).len(), subject.nodes_of_one(), "{}", subject.name);

        assert!(!object.is_held());
        for left in (0..nest).rev() {
            let unlocked = object.unlock();
            let lost = unlocked.as_ref().is_err_and(Error::is_lost);
            assert!(lost, "{}: {unlocked:?}, {left} left", subject.name);
        }
        assert!(object.unlock().is_err_and(|error| !error.is_lost()), "{}", subject.name);
        let counted = ours.stats().holds_lost;
        println!("{}: {counted} holds lost, {holds:?}", subject.name);
        assert_eq!(counted, holds.len() as u64, "{}", subject.name);
        object.is_refused(SOON, |_, seen| closed(subject, &seen));
        closed(subject, &ours.contenders(&held));
        closed(subject, &ours.verify_token(&held, 1));
        object.cancel_waiters();
        in_time("drop", Duration::from_secs(10), || drop(forgotten));
        // Permits report the loss, on their own thread.
        let what = format!("{}: somebody was told", subject.name);
        wait_until(&what, SOON, || !warnings(&dropped).is_empty());
        ours.close().expect("twice is fine");
    });
}

/// Waits for this many requests, or until the client falls silent: visits differ in cost.
fn await_requests(client: &Client, count: u64) {
    let (mut last, mut quiet) = (0, 0);
    wait_until("it is under way", SOON, || {
        let requests = client.stats().requests;
        quiet = if requests == last { quiet + 1 } else { 0 };
        last = requests;
        requests >= count || quiet > 100
    });
}

#[test]
fn cancel_ends_a_call_at_any_moment() {
    every_subject(|subject| {
        let Pair { ours, path, object, rival: ahead, .. } =
            Pair::of(subject, "cancel-moment", SOON);
        ahead.lock().unwrap();
        for round in 0..ROUNDS {
            let before = ours.stats().requests;
            let visit = Task::spawn(visit(object.clone()));
            // A visit sends no more than half of the rounds before it sleeps.
            await_requests(&ours, before + 1 + round % (ROUNDS / 2));
            object.cancel_waiters();
            cancelled(subject, &visit.result("a cancelled call"), &path);
            subject.await_nodes(&path, subject.nodes_of_one());
            assert!(ahead.is_held(), "{}", subject.name);
        }
        ahead.unlock().unwrap();
    });
}

#[test]
fn cancel_ends_only_the_waits_of_its_object() {
    every_subject(|subject| {
        let Pair { ours, others, path, object, rival: ahead } = Pair::of(subject, "cancel", SOON);
        ahead.lock().unwrap();
        let other = subject.at(&ours, &path);
        let meant = waits(&object);
        let bystander = Task::spawn_blocked(visit(other.clone()));
        // Repeated, because a thread may sleep on a mutex before its wait can be cancelled.
        wait_until("all are cancelled", SOON, || {
            object.cancel_waiters();
            meant.iter().all(Task::is_done)
        });
        for wait in &meant {
            cancelled(subject, &wait.result("a cancelled call"), &path);
        }
        assert!(!bystander.is_done(), "{}: another object's", subject.name);
        // Later waits and holds are unaffected.
        object.cancel_waiters();
        let later = Task::spawn_blocked(visit(object.clone()));
        ahead.cancel_waiters();
        assert!(!later.is_done() && ahead.is_held(), "{}", subject.name);
        println!("{}: cancelled, {:?}", subject.name, subject.nodes(&path));
        ahead.unlock().unwrap();
        bystander.result("the bystander").unwrap();
        later.result("who came later").unwrap();
        drop((object, other));
        subject.await_nodes(&path, 0);
        [ours, others].iter().for_each(await_nothing_left);
    });
}
