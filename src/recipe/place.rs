//! Where a call that waits stands in its queue, and telling whoever wants to know.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contenders::{self, Contender};
use crate::inner::{Claim, Failure, Requests};
use crate::signal::Until;
use crate::sys;

/// The place of a waiting call in its queue; see
/// [`LockOptions::observe_queue`](crate::LockOptions::observe_queue).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// How many stand before it, those that hold the lock included. 0 only for a call that has the
    /// turn of its semaphore and waits for permits.
    pub ahead: usize,
    /// The first of them: of a lock, one that holds it; of a semaphore, the one whose turn it is.
    /// None if there is nobody ahead, if it has gone meanwhile, or may not be read.
    pub first: Option<Contender>,
}

/// Wants to know the place, so often.
#[derive(Clone)]
pub(crate) struct PlaceObserver {
    every: Duration,
    tell: Arc<dyn Fn(&Place) + Send + Sync>,
}

impl PlaceObserver {
    pub(crate) fn new(
        every: Duration,
        tell: impl Fn(&Place) + Send + Sync + 'static,
    ) -> PlaceObserver {
        PlaceObserver { every, tell: Arc::new(tell) }
    }

    pub(crate) fn every(&self) -> Duration {
        self.every
    }

    /// Tells it the place behind these nodes, and when it wants to know it again.
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
        (self.tell)(&Place { ahead: before.len(), first });
        Ok(sys::now().checked_add(self.every))
    }
}

impl fmt::Debug for PlaceObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {:?}", self.every)
    }
}
