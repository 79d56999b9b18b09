//! `LockOptions::hold_at_most` and `LockOptions::margin`: a hold that lasts too long is lost. After a loss, the next
//! holder is granted the lock only when the margin is over.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Error, HoldState, LockOptions, LossReason};

use super::{Pair, client, each_type};
use common::*;

use crate::is_invalid;

/// Returns the latest time at which `is_held` was true.
fn last_held(is_held: impl Fn() -> bool) -> Instant {
    let begun = Instant::now();
    let mut last = begun;
    loop {
        let now = Instant::now();
        if !is_held() {
            return last;
        }
        last = now;
        assert!(last - begun < SOON, "it is never lost");
        thread::yield_now();
    }
}

/// The connection is cut, and the session ends only after the lease.
#[test]
fn hold_is_lost_a_margin_before_its_lease_ends() {
    let (proxy, ours) = behind_a_proxy(SESSION);
    let (others, path) = (client(), fresh_path("margin-lease"));
    let margin = ours.session_timeout() / 4;
    let with = LockOptions::new().margin(margin);
    let own = DistributedLock::with_options(&ours, &*path, with).unwrap();
    let without = lock_of(&ours, &fresh_path("no-margin"));
    own.lock().unwrap();
    without.lock().unwrap();
    let [hold, other] = [&own, &without].map(|lock| lock.hold().unwrap());
    assert!(other.valid_for() >= hold.valid_for() + margin - Duration::from_millis(100));
    let rival = Visitor::start(lock_of(&others, &path));
    proxy.cut_off();
    let last = last_held(|| hold.is_held());
    assert!(other.is_held(), "{:?}", other.valid_for());
    let told = await_lost(&hold);
    println!("its end is told {told:?} later, {:?} before the lease ends", other.valid_for());
    assert!(other.is_held(), "the loss is told only when the lease ends");
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    rival.comes_in();
    println!("the next holder after {:?} of {margin:?}", last.elapsed());
    assert!(last.elapsed() >= margin);
    rival.leaves();
}

#[test]
fn margin_above_a_quarter_of_the_granted_timeout_is_refused() {
    let (client, path) = (client_of(&connect_string(), SESSION), fresh_path("refused"));
    let most = client.session_timeout() / 4;
    let options = LockOptions::new().margin(most + Duration::from_millis(1));
    for refused in each_type(&client, &path, &options) {
        is_invalid("margin", &refused);
        assert!(refused.unwrap_err().to_string().contains(&format!("{most:?}")));
    }
    // Before the first session, the granted timeout is not known. In that case, the error is returned by calls instead
    // of the constructor.
    let lazy = Client::builder(connect_string()).session_timeout(SESSION).connect_lazily();
    let options = LockOptions::new().margin(Duration::MAX);
    let lock = DistributedLock::with_options(&lazy.unwrap(), path, options);
    is_invalid("margin", &lock.and_then(|lock| lock.lock()));
}

/// Long enough for an acquisition and a release on a busy machine.
const AT_MOST: Duration = Duration::from_secs(1);

const MARGIN: Duration = Duration::from_millis(700);

const TOO_LONG: HoldState = HoldState::Lost(LossReason::HeldTooLong);

fn is_too_long(error: &Error) -> bool {
    match error {
        Error::Multiple { failures, .. } => failures.iter().all(is_too_long),
        error => matches!(error, Error::Lost { reason: LossReason::HeldTooLong, .. }),
    }
}

#[test]
fn hold_that_lasts_too_long_is_lost_and_lets_others_in_after_the_margin() {
    every_subject(|subject| {
        let Pair { ours, others, path, .. } = Pair::of(subject, "too-long", SOON);
        let options = LockOptions::new().hold_at_most(AT_MOST).margin(MARGIN);
        let object = subject.with(&ours, &path, options);
        // The object can be used again after each loss.
        for (turn, rival) in [&others, &ours].into_iter().enumerate() {
            let rival = subject.rival(rival, &path);
            let begun = Instant::now();
            object.lock().unwrap();
            let hold = object.hold();
            assert!(hold.valid_for() <= AT_MOST, "{}", subject.name);
            let waiting = Visitor::start(rival);
            let last = last_held(|| hold.is_held());
            assert!(begun.elapsed() >= AT_MOST, "{}: {:?}", subject.name, begun.elapsed());
            assert_eq!((hold.state(), object.is_held()), (TOO_LONG, false), "{}", subject.name);
            await_lost(&hold);
            waiting.comes_in();
            let gap = last.elapsed();
            println!("{}, turn {turn}: the next holder after {gap:?}", subject.name);
            assert!(gap >= MARGIN, "{}", subject.name);
            waiting.leaves();
            let unlocked = object.unlock().expect_err("it was lost");
            assert!(is_too_long(&unlocked), "{}, turn {turn}: {unlocked:?}", subject.name);
            assert!(hold.expire_in(SOON).is_err_and(|error| is_too_long(&error)));
        }
        await_nothing_left(&ours);
        assert_eq!(ours.stats().holds_lost, 2 * subject.nodes_of_one() as u64, "{}", subject.name);
    });
}

#[test]
fn impossible_limits_are_refused() {
    let (client, path, options) = (client(), fresh_path("limits"), LockOptions::new);
    for (options, is_possible) in [
        (options().hold_at_most(Duration::ZERO), false),
        (options().hold_at_most(AT_MOST).hold_at_least(SOON), false),
        (options().hold_at_most(AT_MOST).hold_at_least(AT_MOST), true),
        (options().hold_at_most(Duration::MAX), true),
    ] {
        for seen in each_type(&client, &path, &options) {
            let refused = matches!(seen, Err(Error::InvalidArgument { what: "hold_at_most", .. }));
            assert!(refused != is_possible && seen.is_ok() == is_possible, "{options:?}: {seen:?}");
        }
    }
}
