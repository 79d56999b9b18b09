//! `LockOptions::margin`: a time between the loss of a hold and the next holder. `too_long` has the gap for
//! every kind of lock.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, HoldState, LockOptions, LossReason};
use zoolock_test_support::{connect_string, fresh_path};

use super::{client, each_type};
use common::{SESSION, SOON, Visitor, behind_a_proxy, client_of, lock_of};

use crate::is_invalid;

/// Returns when the hold was last seen to be held.
pub(super) fn last_held(is_held: impl Fn() -> bool) -> Instant {
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
    let (client, path) = (client_of(&connect_string(), SESSION), fresh_path("refused"));
    let most = client.session_timeout() / 4;
    let options = LockOptions::new().margin(most + Duration::from_millis(1));
    for refused in each_type(&client, &path, &options) {
        is_invalid("margin", &refused);
        assert!(refused.unwrap_err().to_string().contains(&format!("{most:?}")));
    }
    // Before the first session the granted timeout is not known, so the calls say so.
    let lazy = Client::builder(&connect_string()).session_timeout(SESSION).connect_lazily();
    let options = LockOptions::new().margin(Duration::MAX);
    let lock = DistributedLock::with_options(&lazy.unwrap(), path, options);
    is_invalid("margin", &lock.and_then(|lock| lock.lock()));
}
