//! The witness of a crowd notices the faults of a bad lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zoolock_test_support::crowd::{Access, Taker, run};

use crate::SOON;

static TOKENS: AtomicU64 = AtomicU64::new(0);

fn token() -> u64 {
    TOKENS.fetch_add(1, Ordering::SeqCst)
}

fn says(what: &str, check: impl FnOnce() + std::panic::UnwindSafe) {
    let panic = std::panic::catch_unwind(check).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains(what), "{text}");
}

#[test]
fn crowd_reports_two_holders_at_once() {
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
fn crowd_reports_overtaking() {
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
