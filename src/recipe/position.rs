//! The queue position of a waiting call, for the callback of its lock object.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contender::Contender;
use crate::contenders;
use crate::inner::{Claim, Failure, Requests};
use crate::sys;
use crate::wait::Until;

/// The queue position of a waiting call; see
/// [`LockOptions::on_queue_position`](crate::LockOptions::on_queue_position).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    /// How many contenders are ahead of the call, including holders. It is 0 only for a call that
    /// has the turn of its semaphore and waits for permits.
    pub ahead: usize,
    /// The first of them: for a lock, a holder; for a semaphore, the contender with the turn.
    /// `None` if there is none, if it has gone meanwhile, or if its node may not be read.
    pub first: Option<Contender>,
}

/// A callback for the queue position, and the time between two calls of it.
#[derive(Clone)]
pub(crate) struct OnPosition {
    every: Duration,
    call: Arc<dyn Fn(&QueuePosition) + Send + Sync>,
}

impl OnPosition {
    pub(crate) fn new(
        every: Duration,
        call: impl Fn(&QueuePosition) + Send + Sync + 'static,
    ) -> OnPosition {
        OnPosition { every, call: Arc::new(call) }
    }

    pub(crate) fn every(&self) -> Duration {
        self.every
    }

    /// Calls it with the position after these nodes, and returns when to call it again.
    pub(super) fn tell(
        &self,
        requests: &Requests,
        claim: &Claim,
        before: &[&str],
        until: &Until,
    ) -> Result<Option<Instant>, Failure> {
        let first = match before.first() {
            Some(name) => match contenders::first_of(requests, claim, name, until) {
                Err(Failure::Refused(_)) => None,
                first => first?,
            },
            None => None,
        };
        (self.call)(&QueuePosition { ahead: before.len(), first });
        Ok(sys::now().checked_add(self.every))
    }
}

impl fmt::Debug for OnPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {:?}", self.every)
    }
}
