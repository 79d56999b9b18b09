//! What was granted at one path, seen as one hold: several permits are, since they are lost
//! together.

use std::convert::Infallible;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, never};
use zoolock::{Hold, HoldState, LossReason};

/// No holds at all, where the library showed none of what it had granted, look like one that is
/// never lost.
#[derive(Debug, Clone)]
pub(crate) struct View {
    holds: Vec<Hold>,
    lost: Receiver<Infallible>,
}

impl View {
    pub(crate) fn new(holds: Vec<Hold>) -> View {
        let lost = holds.first().map(|hold| hold.lost().clone());
        let lost = lost.unwrap_or_else(never);
        View { holds, lost }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds.iter().all(Hold::is_held)
    }

    pub(crate) fn lost(&self) -> &Receiver<Infallible> {
        &self.lost
    }

    pub(crate) fn valid_for(&self) -> Duration {
        let left = self.holds.iter().map(Hold::valid_for);
        left.min().unwrap_or(Duration::MAX)
    }

    /// Why it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.holds.iter().find_map(|hold| match hold.state() {
            HoldState::Lost(reason) => Some(reason),
            _ => None,
        })
    }

    pub(crate) fn fencing_token(&self) -> Option<zoolock::Result<u64>> {
        self.holds.first().map(Hold::fencing_token)
    }

    /// The names of the nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = String> {
        self.holds.iter().map(Hold::node)
    }
}
