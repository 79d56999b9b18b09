//! Members that are a user's own locks and follow a script.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Error, Hold, Lock, LockId, MultiLock, Result, Wait};

use super::{brief, refused};
use common::{SOON, warnings};

/// The scripted behaviour of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Well,
    /// Is locked when the deadline has passed.
    Late,
    /// Returns success without being locked.
    Forget,
    Busy,
    Fail,
    Panic,
    /// Panics with a payload that panics when dropped.
    Explode,
}
use Does::{Busy, Explode, Fail, Forget, Late, Panic, Well};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// A user's own lock that records its calls.
#[derive(Debug)]
struct Scripted {
    path: String,
    locking: Does,
    unlocking: Does,
    held: AtomicBool,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn act(&self, verb: &str, does: Does) -> Result<bool> {
        let (name, path) = (self.path.trim_start_matches('/'), self.path.clone());
        self.calls.lock().unwrap().push(format!("{verb} {name}"));
        match does {
            Well | Late | Forget => Ok(true),
            Busy => Ok(false),
            Panic => panic!("told to panic when asked to {verb} {name}"),
            Explode => panic_any(Bomb),
            Fail if verb == "unlock" => Err(Error::Denied { path }),
            Fail => Err(Error::Disconnected { path }),
        }
    }

    fn enter(&self, verb: &str) -> Result<bool> {
        let locked = self.act(verb, self.locking)?;
        self.held.store(locked && self.locking != Forget, Ordering::SeqCst);
        Ok(locked)
    }
}

impl Lock for Scripted {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock_within(&self, wait: Wait) -> Result<bool> {
        match wait.deadline() {
            _ if wait.is_try() => self.enter("try"),
            None => self.enter("lock"),
            Some(deadline) => {
                if self.locking == Late {
                    thread::sleep(deadline.saturating_duration_since(Instant::now()));
                }
                self.enter(&format!("until {deadline:?}"))
            }
        }
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

/// Scripted locks in a multi-lock, and the calls that they received.
struct Script {
    multi: MultiLock,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// Each member has a path, a behaviour when locked, and one when unlocked.
    fn new<const N: usize>(members: [(&str, Does, Does); N]) -> Script {
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let member = |(path, locking, unlocking): (&str, Does, Does)| -> Box<dyn Lock> {
            let (path, held, calls) = (path.to_owned(), AtomicBool::new(false), Arc::clone(&calls));
            Box::new(Scripted { path, locking, unlocking, held, calls })
        };
        let multi = MultiLock::new(members.map(member)).expect("a good list");
        Script { multi, calls }
    }

    /// The calls since the last time.
    fn calls(&self) -> String {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap()).join(", ");
        println!("{calls}");
        calls
    }
}

#[test]
fn failed_member_releases_the_others_in_reverse() {
    // The behaviour of the first and third member, and of all when unlocked.
    for (verb, [first, third], unlocking, expected, calls) in [
        ("lock", [Well, Well], Well, "true", "lock a, lock b, lock c, lock d"),
        (
            "lock",
            [Well, Fail],
            Well,
            "disconnected c",
            "lock a, lock b, lock c, unlock b, unlock a",
        ),
        ("try", [Well, Busy], Well, "false", "try a, try b, try c, unlock b, unlock a"),
        (
            "lock",
            [Well, Fail],
            Fail,
            "disconnected c, denied b, denied a",
            "lock a, lock b, lock c, unlock b, unlock a",
        ),
        (
            "try",
            [Well, Busy],
            Fail,
            "denied b, denied a",
            "try a, try b, try c, unlock b, unlock a",
        ),
        (
            "try",
            [Forget, Well],
            Well,
            "not held a",
            "try a, try b, try c, try d, unlock d, unlock c, unlock b, unlock a",
        ),
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
            assert_eq!(script.calls(), "unlock d, unlock c, unlock b, unlock a");
        }
        assert!(script.multi.locks().iter().all(|lock| !lock.is_held()));
    }
}

#[test]
fn one_deadline_covers_all_members() {
    let script = Script::new([("/a", Well, Well), ("/b", Well, Well), ("/c", Well, Well)]);
    let deadline = Instant::now() + SOON;
    assert!(script.multi.lock_within(deadline.into()).unwrap());
    let expected = ["a", "b", "c"].map(|name| format!("until {deadline:?} {name}"));
    assert_eq!(script.calls(), expected.join(", "));
    script.multi.unlock().unwrap();
    script.calls();
    assert!(script.multi.try_lock_for(SOON).unwrap());
    let calls = script.calls();
    let first = calls.split_once(" a, ").unwrap().0;
    assert!(first.starts_with("until "), "{calls}");
    assert_eq!(calls, ["a", "b", "c"].map(|name| format!("{first} {name}")).join(", "));
}

#[test]
fn later_members_are_tried_after_the_deadline() {
    for (last, is_taken) in [(Well, true), (Busy, false)] {
        for wait in [Wait::within, |time| Wait::until(Instant::now() + time)] {
            let script = Script::new([("/a", Late, Well), ("/b", Well, Well), ("/c", last, Well)]);
            assert_eq!(
                script.multi.lock_within(wait(Duration::from_millis(50))).unwrap(),
                is_taken
            );
            let calls = script.calls();
            let tried = calls.split_once(" a, ").unwrap().1;
            let rest = if is_taken { "try b, try c" } else { "try b, try c, unlock b, unlock a" };
            assert_eq!((tried, calls.starts_with("until ")), (rest, true), "{calls}");
        }
    }
}

#[test]
fn panicking_member_leaves_none_locked() {
    let panics = |call: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
        let said = panic.downcast_ref::<String>().cloned();
        println!("panicked: {said:?}");
        said.expect("a text")
    };
    let script = Script::new([("/a", Well, Well), ("/b", Well, Panic), ("/c", Panic, Well)]);
    let said = panics(&|| drop(script.multi.lock()));
    assert!(said.contains("lock c"), "{said}");
    assert_eq!(script.calls(), "lock a, lock b, lock c, unlock b, unlock a");

    let first = format!("/multi-panic-{}", std::process::id());
    warnings(&first);
    let script = Script::new([(&first, Well, Fail), ("/u", Well, Panic), ("/v", Well, Panic)]);
    script.multi.lock().unwrap();
    script.calls();
    let said = panics(&|| drop(script.multi.unlock()));
    assert!(said.contains("unlock v"), "the first one: {said}");
    assert_eq!(script.calls(), format!("unlock v, unlock u, unlock {}", &first[1..]));
    let logged = warnings(&first);
    assert_eq!(logged.len(), 1, "{logged:?}");
}

#[test]
fn panic_with_a_panicking_payload_leaves_none_locked() {
    let explodes = |call: &dyn Fn()| {
        let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
        let is_bomb = payload.is::<Bomb>();
        std::mem::forget(payload);
        is_bomb
    };
    let script = Script::new([("/a", Well, Well), ("/b", Well, Explode), ("/c", Well, Explode)]);
    script.multi.lock().unwrap();
    script.calls();
    assert!(explodes(&|| drop(script.multi.unlock())), "the first panic goes on");
    assert_eq!(script.calls(), "unlock c, unlock b, unlock a");

    // A second panic during the unwinding would abort the process.
    let script = Script::new([("/a", Well, Well), ("/b", Well, Explode), ("/c", Explode, Well)]);
    assert!(explodes(&|| drop(script.multi.lock())));
    assert_eq!(script.calls(), "lock a, lock b, lock c, unlock b, unlock a");
}

#[test]
fn member_that_gives_up_without_a_limit_is_an_error() {
    let script = Script::new([("/a", Well, Well), ("/b", Busy, Well)]);
    let (alone, both) = (script.multi.locks()[1].lock(), script.multi.lock());
    println!("{alone:?}, {both:?}");
    let is_not_held = |seen: &Result<()>| matches!(seen, Err(Error::NotHeld { .. }));
    assert!(is_not_held(&alone) && is_not_held(&both));
    assert_eq!(script.calls(), "lock b, lock a, lock b, unlock a");
}

/// The multi-lock does not even notice that both are the same object.
#[test]
fn members_are_known_by_their_paths_alone() {
    let script = Script::new([("/x", Well, Well)]);
    assert_eq!(script.multi.locks()[0].id(), LockId::new("/x"));
    assert_ne!(script.multi.id(), LockId::new("/x"));
    let own: Arc<dyn Lock> = Arc::new(Scripted {
        path: "/x".to_owned(),
        locking: Well,
        unlocking: Well,
        held: AtomicBool::new(false),
        calls: Arc::default(),
    });
    let reason = refused([Box::new(Arc::clone(&own)) as Box<dyn Lock>, Box::new(own)]);
    assert!(reason.contains("\"/x\""), "{reason}");
}
