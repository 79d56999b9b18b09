//! A user's own locks as members, which do what they are told to, and what becomes of failures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use zoolock::{Error, Hold, Lock, MultiLock, Result};

use super::failures;
use common::warnings;

/// What a lock does when it is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Well,
    /// Says that it is locked, and is not.
    Forget,
    Busy,
    Fail,
    Panic,
}

/// A user's own lock that writes down what is asked of it.
#[derive(Debug)]
pub(super) struct Scripted {
    path: String,
    locking: Does,
    unlocking: Does,
    held: AtomicBool,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(super) fn new(
        path: &str,
        locking: Does,
        unlocking: Does,
        calls: Arc<Mutex<Vec<String>>>,
    ) -> Scripted {
        Scripted { path: path.to_owned(), locking, unlocking, held: AtomicBool::new(false), calls }
    }

    fn act(&self, verb: &str, does: Does) -> Result<bool> {
        let name = self.path.trim_start_matches('/');
        self.calls.lock().unwrap().push(format!("{verb} {name}"));
        match does {
            Does::Well | Does::Forget => Ok(true),
            Does::Busy => Ok(false),
            Does::Panic => panic!("told to panic when asked to {verb} {name}"),
            Does::Fail => {
                let path = self.path.clone();
                Err(match verb {
                    "unlock" => Error::Denied { path },
                    _ => Error::Disconnected { path },
                })
            }
        }
    }

    fn enter(&self, verb: &str) -> Result<bool> {
        let locked = self.act(verb, self.locking)?;
        let held = locked && self.locking != Does::Forget;
        self.held.store(held, Ordering::SeqCst);
        Ok(locked)
    }
}

impl Lock for Scripted {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock(&self) -> Result<()> {
        self.enter("lock").map(drop)
    }

    fn try_lock(&self) -> Result<bool> {
        self.enter("try")
    }

    fn try_lock_until(&self, deadline: Instant) -> Result<bool> {
        self.enter(&format!("until {deadline:?}"))
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

/// Scripted locks as one, and what they have been asked.
pub(super) struct Script {
    pub(super) multi: MultiLock,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// One member for each of these: its path, what it does when locked, and when unlocked.
    pub(super) fn new<const N: usize>(members: [(&str, Does, Does); N]) -> Script {
        let calls = Arc::default();
        let member = |(path, locking, unlocking): (&str, Does, Does)| -> Box<dyn Lock> {
            let calls = Arc::clone(&calls);
            Box::new(Scripted::new(path, locking, unlocking, calls))
        };
        let multi = MultiLock::new(members.map(member)).expect("a good list");
        Script { multi, calls }
    }

    /// The calls since the last time.
    pub(super) fn calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        println!("{calls:?}");
        calls
    }
}

#[test]
fn failure_on_the_kth_releases_the_others_in_reverse() {
    use Does::{Busy, Fail, Well};
    let members =
        |third| [("/d", Well, Well), ("/c", third, Well), ("/b", Well, Well), ("/a", Well, Well)];

    let script = Script::new(members(Fail));
    let failed = script.multi.lock();
    println!("{failed:?}");
    let at_c = matches!(&failed, Err(Error::Disconnected { path }) if path == "/c");
    assert!(at_c, "{failed:?}");
    assert!(failed.unwrap_err().is_retryable());
    let expected = ["lock a", "lock b", "lock c", "unlock b", "unlock a"];
    assert_eq!(script.calls(), expected);
    assert!(script.multi.locks().iter().all(|lock| !lock.is_held()));

    let script = Script::new(members(Busy));
    assert!(!script.multi.try_lock().unwrap());
    let expected = ["try a", "try b", "try c", "unlock b", "unlock a"];
    assert_eq!(script.calls(), expected);

    let script = Script::new(members(Well));
    script.multi.lock().unwrap();
    assert_eq!(script.calls(), ["lock a", "lock b", "lock c", "lock d"]);
    script.multi.unlock().unwrap();
    assert_eq!(script.calls(), ["unlock d", "unlock c", "unlock b", "unlock a"]);
}

#[test]
fn a_failed_roll_back_is_reported_with_its_reason() {
    use Does::{Busy, Fail, Well};
    let members = |third| [("/a", Well, Fail), ("/b", Well, Fail), ("/c", third, Well)];
    let denied = |error: &Error, at: &str| matches!(error, Error::Denied { path } if path == at);

    let script = Script::new(members(Fail));
    let error = script.multi.lock().unwrap_err();
    println!("{error}");
    assert!(error.is_retryable() && !error.is_lost(), "{error:?}");
    let seen = failures::<()>(Err(error));
    let [Error::Disconnected { path }, second, third] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert!(path == "/c" && denied(second, "/b") && denied(third, "/a"), "{seen:?}");

    let script = Script::new(members(Busy));
    let seen = failures(script.multi.try_lock());
    let [first, second] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert!(denied(first, "/b") && denied(second, "/a"), "{seen:?}");
}

#[test]
fn a_panic_of_one_member_leaves_none_locked() {
    use Does::{Fail, Panic, Well};
    let panics = |call: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
        let said = panic.downcast_ref::<String>().cloned();
        println!("panicked: {said:?}");
        said.expect("a text")
    };

    let script = Script::new([("/a", Well, Well), ("/b", Well, Panic), ("/c", Panic, Well)]);
    let said = panics(&|| drop(script.multi.lock()));
    assert!(said.contains("lock c"), "{said}");
    let expected = ["lock a", "lock b", "lock c", "unlock b", "unlock a"];
    assert_eq!(script.calls(), expected);

    let first = format!("/multi-panic-{}", std::process::id());
    warnings(&first);
    let script = Script::new([(&first, Well, Fail), ("/u", Well, Panic), ("/v", Well, Panic)]);
    script.multi.lock().unwrap();
    script.calls();
    let said = panics(&|| drop(script.multi.unlock()));
    assert!(said.contains("unlock v"), "the first one: {said}");
    let calls = script.calls();
    assert_eq!(calls[..2], ["unlock v", "unlock u"]);
    assert_eq!(calls.len(), 3);
    let logged = warnings(&first);
    println!("{logged:?}");
    assert_eq!(logged.len(), 1, "{logged:?}");
}

#[test]
fn a_member_that_is_not_held_after_all_fails_the_call() {
    use Does::{Forget, Well};
    let script = Script::new([("/a", Forget, Well), ("/b", Well, Well)]);
    let seen = script.multi.try_lock();
    println!("{seen:?}");
    assert!(matches!(&seen, Err(Error::NotHeld { path }) if path == "/a"), "{seen:?}");
    assert_eq!(script.calls(), ["try a", "try b", "unlock b", "unlock a"]);
}
