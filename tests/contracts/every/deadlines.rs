//! Calls with a deadline.

use std::time::{Duration, Instant};

use zoolock::{Error, Result, Wait};

use super::Pair;
use common::*;

const TIMEOUT: Duration = Duration::from_millis(250);

/// Expects that the call reports a busy lock, but not before its deadline. If the machine is so slow that the answers
/// arrive too late, the call returns an error and is repeated.
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
    let asks: [fn(Duration) -> Ask; 2] = [
        |time| Ask::Within(Wait::within(time)),
        |time| Ask::Within((Instant::now() + time).into()),
    ];
    for timeout in [Duration::ZERO, TIMEOUT] {
        for ask in asks {
            fails_in_its_time(name, timeout, || object.enter(&ask(timeout)));
            fails_in_its_time(name, timeout, || object.guard(&ask(timeout)).map(|it| it.is_some()));
        }
    }
    fails_in_its_time(name, Duration::ZERO, || object.try_lock());
    fails_in_its_time(name, Duration::ZERO, || object.guard(&Ask::Try).map(|it| it.is_some()));
    assert!(!object.is_held());
}

#[test]
fn call_fails_at_its_deadline_and_leaves_nothing() {
    every_subject(|subject| {
        let Pair { path, object, rival, .. } = Pair::of(subject, "deadline", SOON);
        rival.lock().unwrap();
        let nodes = subject.holding(&path);
        all_fail(subject.name, &object);
        assert_eq!(subject.await_nodes(&path, nodes.len()), nodes);
        assert!(rival.is_held());
        rival.unlock().unwrap();
        assert!(object.lock_within(SOON.into()).unwrap());
        // Waiters in the same process have their own deadlines, and do not leave nodes either.
        let (name, nodes) = (format!("{}, locally", subject.name), subject.holding(&path));
        let local = if subject.is_exclusive() { object.clone() } else { rival };
        Task::spawn(move || {
            // On another thread, because the holding thread may acquire the lock again if it is reentrant.
            for timeout in [TIMEOUT, Duration::ZERO] {
                fails_in_its_time(&name, timeout, || local.lock_within(timeout.into()));
            }
        })
        .result("a call behind another thread");
        assert_eq!(subject.await_nodes(&path, nodes.len()), nodes);
        object.unlock().unwrap();
        // Timeouts of every size are accepted. Calls with a short one end before their node could be deleted.
        let past = Instant::now().checked_sub(SOON).unwrap_or_else(Instant::now);
        let nanosecond = Duration::from_nanos(1);
        let brief: [(Wait, _); 3] =
            [(Duration::ZERO.into(), false), (past.into(), false), (nanosecond.into(), true)];
        let brief = brief.into_iter().filter(|_| subject.goes_with_its_unlock());
        for (wait, is_brief) in brief.chain([(Duration::MAX.into(), false)]) {
            match object.lock_within(wait.clone()) {
                Ok(true) => object.unlock().unwrap(),
                // Without enough time for an answer, a call returns an error instead of reporting a busy lock.
                Err(Error::Disconnected { .. }) if is_brief => {}
                seen => panic!("{}, {wait:?}: {seen:?}", subject.name),
            }
        }
    });
}
