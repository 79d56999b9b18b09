//! Holding a lock, and losing it: what the holder is told, and when.

mod deleted;
mod expiry;
mod tokens;
mod told;

use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{after, select};
use zoolock::{Hold, HoldState, LossReason};

use common::SOON;

/// The session timeout of clients that are to lose their locks.
const SHORT: Duration = Duration::from_secs(3);

const EXPIRED: HoldState = HoldState::Lost(LossReason::LeaseExpired);
const DELETED: HoldState = HoldState::Lost(LossReason::NodeDeleted);

/// Waits until `lost()` is ready; when that was.
fn lost_at(hold: &Hold) -> Instant {
    select! {
        recv(hold.lost()) -> never => assert!(never.is_err()),
        recv(after(SOON)) -> _ => panic!("not over after {SOON:?}: {hold:?}"),
    }
    Instant::now()
}
