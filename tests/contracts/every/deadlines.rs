//! Calls with a deadline.

use std::time::{Duration, Instant};

use zoolock::{Error, Result};
use zoolock_test_support::{fresh_path, wait_until};

use super::client;
use common::{Ask, Object, SOON, Subject, Task, answered, every_subject, every_subject_that};

const TIMEOUT: Duration = Duration::from_millis(250);

/// Expects the call to fail as busy, and not early. A call that a slow machine leaves no time for its answers
/// reports that, and is repeated.
fn fails_in_its_time(name: &str, timeout: Duration, call: impl Fn() -> Result<bool>) {
    let seen = answered(|| {
        let begun = Instant::now();
        let seen = call();
        let took = begun.elapsed();
        println!("{name}, {timeout:?}: {seen:?} after {took:?}");
        assert!(took >= timeout, "{name}: {seen:?} after {took:?}, not {timeout:?}");
        seen
    });
    assert!(matches!(seen, Ok(false)), "{name}: {seen:?}");
}

fn all_fail(name: &str, object: &Object) {
    fails_in_its_time(name, Duration::ZERO, || object.try_lock());
    fails_in_its_time(name, TIMEOUT, || object.try_lock_for(TIMEOUT));
    fails_in_its_time(name, Duration::ZERO, || object.try_lock_for(Duration::ZERO));
    fails_in_its_time(name, TIMEOUT, || object.lock_within((Instant::now() + TIMEOUT).into()));
    fails_in_its_time(name, Duration::ZERO, || object.lock_within(Instant::now().into()));
    for (ask, timeout) in [(Ask::Try, Duration::ZERO), (Ask::For(TIMEOUT), TIMEOUT)] {
        fails_in_its_time(name, timeout, || object.guard(ask).map(|guard| guard.is_some()));
    }
    let until = || Ask::Within((Instant::now() + TIMEOUT).into());
    fails_in_its_time(name, TIMEOUT, || object.guard(until()).map(|guard| guard.is_some()));
    assert!(!object.is_held());
}

#[test]
fn call_fails_at_its_deadline_and_leaves_nothing() {
    every_subject(|subject| {
        let clients = [client(), client()];
        let path = fresh_path("deadline");
        let (rival, object) = (subject.rival(&clients[0], &path), subject.at(&clients[1], &path));
        rival.lock().unwrap();
        let nodes = subject.holding(&path);
        all_fail(subject.name, &object);
        assert_eq!(subject.await_nodes(&path, nodes.len()), nodes);
        assert!(rival.is_held());
        rival.unlock().unwrap();
        assert!(object.try_lock_for(SOON).unwrap());
        // Waiters behind it in the same process have their own deadlines, and leave nothing either.
        let (name, nodes) = (format!("{}, locally", subject.name), subject.holding(&path));
        let local = if subject.is_exclusive() { object.clone() } else { rival };
        Task::spawn(move || {
            // A thread that may enter again is tested on another thread.
            for timeout in [TIMEOUT, Duration::ZERO] {
                fails_in_its_time(&name, timeout, || local.try_lock_for(timeout));
            }
        })
        .result("a call behind another thread");
        assert_eq!(subject.await_nodes(&path, nodes.len()), nodes);
        object.unlock().unwrap();
        assert!(object.try_lock_for(Duration::MAX).unwrap());
        object.unlock().unwrap();
    });
}

#[test]
fn timeouts_of_every_size_are_accepted() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let (client, path) = (client(), fresh_path("sizes"));
        let object = subject.at(&client, &path);
        let nanosecond = Duration::from_nanos(1);
        let past = Instant::now().checked_sub(SOON).unwrap_or_else(Instant::now);
        for ask in [
            Ask::For(Duration::ZERO),
            Ask::For(nanosecond),
            Ask::For(Duration::MAX),
            Ask::Within(past.into()),
        ] {
            // A call without time for an answer fails instead of reporting busy.
            let is_brief = matches!(ask, Ask::For(time) if time == nanosecond);
            wait_until(&format!("{}, {ask:?}: it is free", subject.name), SOON, || {
                let seen = object.enter(ask);
                println!("{}, {ask:?}: {seen:?}", subject.name);
                match seen {
                    Ok(true) => object.unlock().is_ok(),
                    Err(Error::Disconnected { .. }) => is_brief,
                    seen => panic!("{}, {ask:?}: {seen:?}", subject.name),
                }
            });
        }
    });
}
