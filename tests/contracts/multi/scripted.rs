//! Members whose `Lock` is implemented by the user, and which behave as a script demands.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Error, Hold, Lock, LockId, MultiLock, Result, Wait};

use super::{brief, refused};
use crate::Bomb;
use common::*;

/// What a member does when it is locked or unlocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Well,
    /// Is locked only when the deadline has passed.
    Late,
    /// Reports success although it is not locked.
    Forget,
    Busy,
    Fail,
    Panic,
    /// Panics with a payload that panics when it is dropped.
    Explode,
}
use Does::{Busy, Explode, Fail, Forget, Late, Panic, Well};

/// A lock implemented by the user. It records the calls it receives.
#[derive(Debug)]
struct Scripted {
    path: String,
    locking: Does,
    unlocking: Does,
    held: AtomicBool,
    calls: Calls,
}

/// The verb of each call, with the last letter of the lock's path.
type Calls = Arc<Mutex<Vec<(String, char)>>>;

impl Scripted {
    fn act(&self, verb: &str, does: Does) -> Result<bool> {
        let path = self.path.clone();
        let name = path.chars().next_back().expect("a name");
        self.calls.lock().unwrap().push((verb.to_owned(), name));
        match does {
            Well | Late | Forget => Ok(true),
            Busy => Ok(false),
            Panic => panic!("scripted panic in {verb} {name}"),
            Explode => panic_any(Bomb),
            Fail if verb == "unlock" => Err(Error::not_held(path)),
            Fail => Err(Error::disconnected(path)),
        }
    }
}

impl Lock for Scripted {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock_within(&self, wait: Wait) -> Result<bool> {
        let verb = match wait.deadline() {
            _ if wait.is_try() => "try".to_owned(),
            None => "lock".to_owned(),
            Some(deadline) => format!("until {deadline:?}"),
        };
        if let (Late, Some(deadline)) = (self.locking, wait.deadline()) {
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
        }
        let locked = self.act(&verb, self.locking)?;
        self.held.store(locked && self.locking != Forget, Ordering::SeqCst);
        Ok(locked)
    }

    fn unlock(&self) -> Result<()> {
        self.held.store(false, Ordering::SeqCst);
        self.act("unlock", self.unlocking).map(drop)
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    fn holds(&self) -> Vec<Hold> {
        Vec::new()
    }
}

fn scripted(path: &str, locking: Does, unlocking: Does, calls: &Calls) -> Scripted {
    let (path, held, calls) = (path.to_owned(), AtomicBool::new(false), Arc::clone(calls));
    Scripted { path, locking, unlocking, held, calls }
}

/// A multi-lock with scripted members, and the calls recorded by them.
struct Script {
    multi: MultiLock,
    calls: Calls,
}

impl Script {
    /// For each member: its path, what it does when it is locked, and what it does when it is unlocked.
    fn new<const N: usize>(members: [(&str, Does, Does); N]) -> Script {
        let calls = Calls::default();
        let member = |(path, locking, unlocking)| -> Box<dyn Lock> {
            Box::new(scripted(path, locking, unlocking, &calls))
        };
        let multi = MultiLock::new(members.map(member)).expect("a good list");
        Script { multi, calls }
    }

    /// Returns the calls since the last time, in a form such as `lock abc; unlock ba`.
    fn calls(&self) -> String {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let runs = calls.chunk_by(|one, next| one.0 == next.0).map(|run| {
            let names: String = run.iter().map(|(_, name)| name).collect();
            format!("{} {names}", run[0].0)
        });
        let calls = runs.collect::<Vec<_>>().join("; ");
        println!("{calls}");
        calls
    }
}

#[test]
fn failed_member_releases_the_others_in_reverse() {
    let both = "disconnected c, not held b, not held a";
    // What the first and the third member do when they are locked, and what all members do when they are unlocked.
    for (verb, [first, third], unlocking, expected, calls) in [
        ("lock", [Well, Well], Well, "true", "lock abcd"),
        ("lock", [Well, Fail], Well, "disconnected c", "lock abc; unlock ba"),
        ("try", [Well, Busy], Well, "false", "try abc; unlock ba"),
        ("lock", [Well, Fail], Fail, both, "lock abc; unlock ba"),
        ("try", [Well, Busy], Fail, "not held b, not held a", "try abc; unlock ba"),
        ("try", [Forget, Well], Well, "not held a", "try abcd; unlock dcba"),
    ] {
        let script = Script::new([
            ("/d", Well, unlocking),
            ("/c", third, unlocking),
            ("/b", Well, unlocking),
            ("/a", first, unlocking),
        ]);
        let seen = match verb {
            "lock" => script.multi.lock().map(|()| true),
            _ => script.multi.try_lock(),
        };
        println!("{seen:?}");
        let is_retryable = seen.as_ref().is_err_and(Error::is_retryable);
        assert_eq!(is_retryable, expected.starts_with("disconnected"), "{seen:?}");
        assert!(!seen.as_ref().is_err_and(Error::is_lost), "{seen:?}");
        let told = seen.map_or_else(|error| brief(&error, "/"), |locked| locked.to_string());
        assert_eq!((told.as_str(), script.calls().as_str()), (expected, calls));
        if expected == "true" {
            script.multi.unlock().unwrap();
            assert_eq!(script.calls(), "unlock dcba");
        }
        assert!(script.multi.locks().iter().all(|lock| !lock.is_held()));
    }
}

/// The call's deadline applies to all members.
#[test]
fn later_members_are_tried_after_the_deadline() {
    for (first, last, time, expected) in [
        (Well, Well, SOON, "abc"),
        (Late, Well, Duration::from_millis(50), "a; try bc"),
        (Late, Busy, Duration::from_millis(50), "a; try bc; unlock ba"),
    ] {
        for wait in [Wait::within, |time| Wait::until(Instant::now() + time)] {
            let script = Script::new([("/a", first, Well), ("/b", Well, Well), ("/c", last, Well)]);
            let taken = script.multi.lock_within(wait(time)).unwrap();
            assert_eq!(taken, last == Well);
            let calls = script.calls();
            assert!(calls.starts_with("until ") && calls.ends_with(expected), "{calls}");
            assert_eq!(calls.matches(';').count(), expected.matches(';').count(), "{calls}");
        }
    }
}

/// The first panic is propagated. A second panic during unwinding would abort the process.
#[test]
fn panicking_member_leaves_none_locked() {
    for does in [Panic, Explode] {
        let panics = |call: &dyn Fn()| {
            let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
            let said = payload.downcast_ref::<String>().cloned();
            assert_eq!(payload.is::<Bomb>(), does == Explode);
            std::mem::forget(payload);
            println!("panicked: {said:?}");
            said
        };
        let script = Script::new([("/a", Well, Well), ("/b", Well, does), ("/c", does, Well)]);
        let said = panics(&|| drop(script.multi.lock()));
        assert!(said.is_none_or(|said| said.contains("lock c")));
        assert_eq!(script.calls(), "lock abc; unlock ba");

        let root = fresh_path("multi-panic");
        warnings(&root);
        let [t, u, v] = ["t", "u", "v"].map(|name| format!("{root}/{name}"));
        let script = Script::new([(&t, Well, Fail), (&u, Well, does), (&v, Well, does)]);
        script.multi.lock().unwrap();
        let said = panics(&|| drop(script.multi.unlock()));
        assert!(said.is_none_or(|said| said.contains("unlock v")), "the first panic is propagated");
        assert_eq!(script.calls(), "lock tuv; unlock vut");
        let logged = warnings(&root);
        assert_eq!(logged.len(), 1, "{logged:?}");
    }
}

#[test]
fn member_that_gives_up_without_a_limit_is_an_error() {
    let script = Script::new([("/a", Well, Well), ("/b", Busy, Well)]);
    let (alone, both) = (script.multi.locks()[1].lock(), script.multi.lock());
    println!("{alone:?}, {both:?}");
    let is_not_held = |seen: &Result<()>| matches!(seen, Err(Error::NotHeld { .. }));
    assert!(is_not_held(&alone) && is_not_held(&both));
    assert_eq!(script.calls(), "lock bab; unlock a");
}

/// A multi-lock cannot detect that members with different paths are the same object.
#[test]
fn members_are_known_by_their_paths_alone() {
    let script = Script::new([("/x", Well, Well)]);
    assert_eq!(script.multi.locks()[0].id(), LockId::new("/x"));
    assert_ne!(script.multi.id(), LockId::new("/x"));
    let own = Arc::new(scripted("/x", Well, Well, &Calls::default()));
    let reason = refused([Box::new(Arc::clone(&own)) as Box<dyn Lock>, Box::new(own)]);
    assert!(reason.contains("\"/x\""), "{reason}");
}
