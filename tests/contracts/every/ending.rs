//! Ends of holds and waits: by their owner, a close of the client, and a cancel of an object's waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use zoolock::{Client, Error, HoldState, LossReason, Result};

use super::Pair;
use common::*;

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
    let told = matches!(seen, Err(Error::Cancelled { path: at, .. }) if at.starts_with(path));
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
fn cancel_ends_only_the_waits_of_its_object_or_client() {
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

        ahead.lock().unwrap();
        let all = [&object, &object, &other].map(|own| Task::spawn_blocked(visit(own.clone())));
        wait_until("all of the client are cancelled", SOON, || {
            ours.cancel_waiters();
            all.iter().all(Task::is_done)
        });
        for wait in &all {
            cancelled(subject, &wait.result("a cancelled call"), &path);
        }
        let later = Task::spawn_blocked(visit(object.clone()));
        ahead.unlock().unwrap();
        later.result("who came later").unwrap();
        drop((object, other));
        subject.await_nodes(&path, 0);
        [ours, others].iter().for_each(await_nothing_left);
    });
}

/// Expects the server to have no node left. Releases in the foreground have finished by now.
#[track_caller]
fn is_gone(subject: Subject, path: &str, after: &str) {
    if !subject.releases_in_the_background() {
        assert!(subject.holding(path).is_empty(), "{after}: {:?}", subject.nodes(path));
    }
    subject.await_nodes(path, 0);
}

/// Otherwise its panic would be the second one, which ends the process.
#[test]
fn guard_of_a_lost_hold_goes_in_a_panic_beside_a_logger_that_panics() {
    let (client, path) = (super::client(), fresh_path(PANICS_THE_LOGGER));
    assert_eq!(warnings(&path), [""; 0]);
    let lock = lock_of(&client, &path);
    let hold = lock.acquire().unwrap().hold();
    for panics in [false, true] {
        let guard = lock.acquire().unwrap();
        // So that the news of the loss comes at once.
        let _asked = guard.revocation().unwrap();
        shared_probe().unwrap().delete(&format!("{path}/{}", guard.node())).unwrap();
        assert!(guard.lost().recv().is_err());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard;
            assert!(!panics, "on purpose");
        }));
        assert_eq!(ended.is_err(), panics);
    }
    assert!(!hold.is_held());
}

#[test]
fn panic_releases_the_guard_and_poisons_nothing() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { path, object, .. } = Pair::of(subject, "panic", SOON);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let guard = object.guard(Ask::Wait).unwrap().expect("it waited");
            assert!(guard.holds.iter().all(|hold| hold.is_held()));
            panic!("as the test wants it");
        }));
        assert!(panicked.is_err() && !object.is_held());
        is_gone(subject, &path, "a panic");
        assert!(object.try_lock().unwrap(), "{}", subject.name);
        object.unlock().unwrap();
    });
}

#[test]
fn drop_of_the_last_handle_releases_a_held_lock_and_warns() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { ours, path, object, .. } = Pair::of(subject, "last_handle", SOON);
        warnings(&path);
        object.lock().unwrap();
        let holds = object.holds();
        let last = object.clone();
        drop(object);
        assert!(last.is_held(), "a clone is a handle");
        assert_eq!(warnings(&path), [""; 0]);
        // The dropping thread need not be the holder.
        thread::spawn(move || drop(last)).join().unwrap();
        for hold in &holds {
            assert_eq!(hold.state(), HoldState::Released, "{}", subject.name);
        }
        is_gone(subject, &path, "the last handle");
        let logged = warnings(&path);
        println!("{}: {logged:?}", subject.name);
        // Permits are a guard, and are dropped as one.
        let told =
            if subject.is_one_lock() && !subject.guards_the_object() { 0 } else { holds.len() };
        assert_eq!(logged.len(), told, "{}: {logged:?}", subject.name);
        assert!(logged.iter().all(|line| line.starts_with("WARN")), "{logged:?}");
        await_nothing_left(&ours);
    });
}

#[test]
fn stale_guard_releases_no_later_hold() {
    every_subject_that(Subject::guards_the_object, |subject| {
        let Pair { path, object, .. } = Pair::of(subject, "stale", SOON);
        let stale = object.guard(Ask::Wait).unwrap().expect("it waited");
        object.unlock().unwrap();
        object.lock().unwrap();
        let released = stale.release();
        println!("{}: {released:?}", subject.name);
        assert!(matches!(&released, Err(Error::NotHeld { path: at, .. }) if *at == path));
        assert!(object.is_held());
        object.unlock().unwrap();
    });
}
