//! How holds and waits end: the owner releases, the client is closed, or a token cancels waiting calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::unbounded;
use zoolock::{CancelToken, Error, Hold, HoldState, LossReason, Result, Wait};

use super::Pair;
use common::*;

/// Starts two waiting calls without a timeout and one with a timeout, and returns when all of them sleep.
fn waits(object: &Object, token: &CancelToken) -> [Task<Result<()>>; 3] {
    let (timed, wait) = (object.clone(), Wait::within(SOON * 2).cancelled_by(token));
    let timed = move || timed.lock_within(wait).and_then(|_| timed.unlock());
    [
        Task::spawn_blocked(visit_by(object.clone(), token)),
        Task::spawn_blocked(visit_by(object.clone(), token)),
        Task::spawn_blocked(timed),
    ]
}

#[track_caller]
fn closed<T: std::fmt::Debug>(subject: Subject, seen: &Result<T>) {
    assert!(matches!(seen, Err(Error::Closed)), "{}: {seen:?}", subject.name);
}

/// Expects `Cancelled`. The error of a multi-lock names the member for which the lock waited.
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
        // The turn node of a semaphore is deleted only after the grant.
        subject.await_nodes(&waited, subject.nodes_of_one());
        let waiting = [subject.at(&ours, &waited), subject.at(&ours, &waited)];
        let waits = waiting.each_ref().map(|object| waits(object, &CancelToken::new()));
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
        in_time("drop", Duration::from_secs(10), || drop(forgotten));
        // The loss of permits is logged as well, but on another thread.
        let what = format!("{}: the loss was logged", subject.name);
        wait_until(&what, SOON, || !warnings(&dropped).is_empty());
        ours.close().expect("closing twice succeeds");
    });
}

#[test]
fn cancel_ends_the_calls_of_its_token_alone_and_all_later_ones() {
    every_subject(|subject| {
        let Pair { ours, others, path, object, rival: ahead } = Pair::of(subject, "cancel", SOON);
        ahead.lock().unwrap();
        let other = subject.at(&ours, &path);
        let token = CancelToken::new();
        let meant = [&object, &other].map(|object| waits(object, &token));
        let bystander = Task::spawn_blocked(visit(object.clone()));
        token.cancel();
        for wait in meant.iter().flatten() {
            cancelled(subject, &wait.result("a cancelled call"), &path);
        }
        assert!(!bystander.is_done(), "{}: without a token", subject.name);
        println!("{}: cancelled, {:?}", subject.name, subject.nodes(&path));
        ahead.unlock().unwrap();
        bystander.result("the bystander").unwrap();

        subject.await_nodes(&path, 0);
        assert!(token.clone().is_cancelled());
        for wait in [Wait::TRY, Wait::within(SOON), Wait::FOREVER] {
            let (begun, wait) = (ours.stats().requests, wait.cancelled_by(&token));
            assert!(wait.cancel_token().is_some_and(CancelToken::is_cancelled));
            let seen = object.lock_within(wait.clone()).map(drop);
            cancelled(subject, &seen, &path);
            cancelled(subject, &object.guard(&Ask::Within(wait)).map(drop), &path);
            // The client may have sent one more request, a heartbeat.
            assert!(ours.stats().requests < begun + 2, "{}", subject.name);
        }
        object.lock().unwrap();
        let again = object.lock_within(Wait::TRY.cancelled_by(&token)).map(drop);
        cancelled(subject, &again, &path);
        assert!(object.is_held(), "{}: the hold is unaffected", subject.name);
        object.unlock().unwrap();
        drop((object, other));
        subject.await_nodes(&path, 0);
        [ours, others].iter().for_each(await_nothing_left);
    });
}

#[test]
fn end_of_a_hold_is_reported_once_to_each_function_though_one_panics() {
    every_subject(|subject| {
        let Pair { ours, object, .. } = Pair::of(subject, "on-end", SOON);
        let (tell, told) = unbounded();
        let tells = |hold: &Hold| {
            let (its, tell) = (hold.clone(), tell.clone());
            hold.on_end(move || tell.send((thread::current().id(), its.state())).unwrap());
        };
        let expect = |holds: &[Hold], end: HoldState| {
            for _ in holds {
                let (thread, state) = told.recv_timeout(SOON).expect(subject.name);
                assert_eq!(state, end, "{}", subject.name);
                assert_ne!(thread, thread::current().id(), "{}", subject.name);
            }
        };
        object.lock().unwrap();
        let holds = object.holds();
        for hold in &holds {
            hold.on_end(|| panic!("on purpose"));
            tells(hold);
            assert!(!hold.wait_timeout(Duration::ZERO), "{}", subject.name);
        }
        let waiting = holds.clone();
        let waiting = Task::spawn(move || waiting.iter().for_each(Hold::wait));
        assert!(told.is_empty(), "{}", subject.name);
        object.unlock().unwrap();
        expect(&holds, HoldState::Released);
        waiting.result("the call that waits for the end");
        holds.iter().for_each(tells);
        expect(&holds, HoldState::Released);

        object.lock().unwrap();
        let holds = object.holds();
        holds.iter().for_each(tells);
        ours.close().unwrap();
        let lost = HoldState::Lost(LossReason::ClientClosed);
        expect(&holds, lost);
        holds.iter().for_each(tells);
        expect(&holds, lost);
        assert!(told.is_empty() && holds.iter().all(|hold| hold.wait_timeout(SOON)));
        object.unlock().unwrap_err();
    });
}

/// Expects that no node is left on the server. A foreground release has already finished.
#[track_caller]
fn is_gone(subject: Subject, path: &str, after: &str) {
    if !subject.releases_in_the_background() {
        assert!(subject.holding(path).is_empty(), "{after}: {:?}", subject.nodes(path));
    }
    subject.await_nodes(path, 0);
}

/// If `drop` panicked as well, the process would abort.
#[test]
fn guard_of_a_lost_hold_goes_in_a_panic_beside_a_logger_that_panics() {
    let (client, path) = (super::client(), fresh_path(PANICS_THE_LOGGER));
    assert_eq!(warnings(&path), [""; 0]);
    let lock = lock_of(&client, &path);
    let hold = lock.acquire().unwrap().hold();
    for panics in [false, true] {
        let guard = lock.acquire().unwrap();
        // Because of this listener, the client watches the node, and is notified of its deletion immediately.
        let _asked = guard.revocation().unwrap();
        shared_probe().unwrap().delete(&format!("{path}/{}", guard.node())).unwrap();
        assert!(guard.ended().recv().is_err());
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
            let guard = object.guard(&Ask::Wait).unwrap().expect("it waited");
            assert!(guard.holds.iter().all(|hold| hold.is_held()));
            panic!("on purpose");
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
        // The last handle may be dropped on a thread that is not the holder.
        thread::spawn(move || drop(last)).join().unwrap();
        for hold in &holds {
            assert_eq!(hold.state(), HoldState::Released, "{}", subject.name);
        }
        is_gone(subject, &path, "the last handle");
        let logged = warnings(&path);
        println!("{}: {logged:?}", subject.name);
        // Permits are guards. Unlike dropping the last handle of a held lock, dropping a guard is not logged.
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
        let stale = object.guard(&Ask::Wait).unwrap().expect("it waited");
        object.unlock().unwrap();
        object.lock().unwrap();
        let released = stale.release();
        println!("{}: {released:?}", subject.name);
        assert!(matches!(&released, Err(Error::NotHeld { path: at, .. }) if *at == path));
        assert!(object.is_held());
        object.unlock().unwrap();
    });
}
