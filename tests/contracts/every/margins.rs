//! `LockOptions::margin`, for every kind of lock: a time between the loss of a hold and the next holder.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Error, HoldState, LockOptions, LossReason};
use zoolock_test_support::{connect_string, fresh_path};

use super::{Pair, client, each_type};
use common::{
    SESSION, SOON, Visitor, await_nothing_left, behind_a_proxy, client_of, every_subject, lock_of,
};

/// Returns when the hold was last seen to be held.
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

#[test]
fn next_holder_comes_no_sooner_than_the_margin_after_a_hold_that_lasts_too_long() {
    every_subject(|subject| {
        let Pair { ours, path, rival, .. } = Pair::of(subject, "margin", SESSION);
        // So that a busy machine has time for heartbeats: the lease must not end the hold.
        let margin = ours.session_timeout() / 8;
        // Long enough for several locks to be taken one after another on a busy machine.
        let options = LockOptions::new().hold_at_most(Duration::from_secs(3)).margin(margin);
        let object = subject.with(&ours, &path, options);
        object.lock().unwrap();
        let hold = object.hold();
        let rival = Visitor::start(rival);
        let last = last_held(|| hold.is_held());
        assert_eq!(hold.state(), HoldState::Lost(LossReason::HeldTooLong), "{}", subject.name);
        rival.comes_in();
        let gap = last.elapsed();
        println!("{}: the next holder after {gap:?} of {margin:?}", subject.name);
        assert!(gap >= margin, "{}", subject.name);
        rival.leaves();
        assert!(object.unlock().is_err_and(|error| error.is_lost()), "{}", subject.name);
        await_nothing_left(&ours);
    });
}

/// The session lives on, since only answers are lost.
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
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    rival.comes_in();
    println!("the next holder after {:?} of {margin:?}", last.elapsed());
    assert!(last.elapsed() >= margin);
    rival.leaves();
}

#[test]
fn margin_above_a_quarter_of_the_granted_timeout_is_refused() {
    let is_refused = |error: &Error| {
        println!("{error}");
        assert!(matches!(error, Error::InvalidArgument { what: "margin", .. }), "{error}");
    };
    let (client, path) = (client_of(&connect_string(), SESSION), fresh_path("refused"));
    let most = client.session_timeout() / 4;
    let options = LockOptions::new().margin(most + Duration::from_millis(1));
    for refused in each_type(&client, &path, &options) {
        let error = refused.unwrap_err();
        is_refused(&error);
        assert!(error.to_string().contains(&format!("{most:?}")), "{error}");
    }
    // Before the first session the granted timeout is not known, so the calls say so.
    let lazy = Client::builder(&connect_string()).session_timeout(SESSION).connect_lazily();
    let options = LockOptions::new().margin(Duration::MAX);
    let lock = DistributedLock::with_options(&lazy.unwrap(), path, options);
    is_refused(&lock.and_then(|lock| lock.lock()).unwrap_err());
}
