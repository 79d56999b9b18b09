//! The witness of a crowd sees the faults of a bad lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;

use zoolock_test_support::crowd::{Access, Seen, Taker, run};

use crate::SOON;

static TOKENS: AtomicU64 = AtomicU64::new(0);

fn token() -> u64 {
    TOKENS.fetch_add(1, Ordering::SeqCst)
}

/// Runs eight of these takers, ten times each.
fn eight(taker: impl Fn() -> Taker) -> Seen {
    run((0..8).map(|_| taker()).collect(), 10, SOON)
}

fn says(what: &str, check: impl FnOnce() + std::panic::UnwindSafe) {
    let panic = std::panic::catch_unwind(check).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains(what), "{text}");
}

#[test]
fn good_locks_are_found_good() {
    let mutex = Arc::new(Mutex::new(()));
    let seen = eight(|| {
        let mutex = Arc::clone(&mutex);
        Box::new(move |witness| {
            let _locked = mutex.lock().unwrap();
            witness.visit(Access::Alone, token(), "node", thread::yield_now);
            Ok(())
        })
    });
    println!("{seen:?}");
    assert_eq!((seen.visits.len(), seen.most_sharing()), (80, 0));
    seen.assert_apart();
    seen.assert_in_order();
    let shared = Arc::new(RwLock::new(()));
    let seen = eight(|| {
        let shared = Arc::clone(&shared);
        Box::new(move |witness| {
            let _locked = shared.read().unwrap();
            witness.visit(Access::Shared, token(), "node", thread::yield_now);
            Ok(())
        })
    });
    seen.assert_apart();
    assert!((1..=8).contains(&seen.most_sharing()), "{seen:?}");
}

#[test]
fn two_at_once_are_seen() {
    let met = Arc::new(std::sync::Barrier::new(2));
    for other in [Access::Alone, Access::Shared] {
        let visitor = |access| -> Taker {
            let met = Arc::clone(&met);
            Box::new(move |witness| {
                witness.visit(access, token(), "node", || {
                    met.wait();
                });
                Ok(())
            })
        };
        let seen = run(vec![visitor(Access::Alone), visitor(other)], 1, SOON);
        says("alone", || seen.assert_apart());
    }
}

#[test]
fn overtaking_is_seen() {
    for tokens in [[2, 1], [1, 1]] {
        let mut tokens = tokens.into_iter();
        let taker: Taker = Box::new(move |witness| {
            witness.visit(Access::Alone, tokens.next().unwrap(), "node", || {});
            Ok(())
        });
        let seen = run(vec![taker], 2, SOON);
        seen.assert_apart();
        says("was let in before", || seen.assert_in_order());
    }
}

#[test]
fn who_fails_or_hangs_is_named() {
    let fails = || run(vec![Box::new(|_| Err("no".into()))], 1, SOON);
    says("taker 0: no", || drop(fails()));
    let hangs = || {
        let moment = std::time::Duration::from_millis(50);
        let park: Taker = Box::new(|_| {
            loop {
                thread::park();
            }
        });
        run(vec![Box::new(|_| Ok(())), park], 1, moment)
    };
    says("takers {1} are not through", || drop(hangs()));
}
