//! Where a call that waits stands in its queue, and telling whoever wants to know.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::attempt::Attempt;
use crate::contenders::{Contender, ahead};
use crate::node::{self, Child};
use crate::session::{Failure, Seat, Until, look};

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
pub(crate) struct Observer {
    every: Duration,
    tell: Arc<dyn Fn(&Place) + Send + Sync>,
}

impl Observer {
    pub(crate) fn new(every: Duration, tell: impl Fn(&Place) + Send + Sync + 'static) -> Observer {
        let tell = Arc::new(tell);
        Observer { every, tell }
    }

    /// Until the next look, if that comes before the end.
    fn next(&self, until: &Until) -> Until {
        let next = Instant::now().checked_add(self.every);
        Until {
            deadline: next.into_iter().chain(until.deadline).min(),
            cancelled: until.cancelled.clone(),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {:?}", self.every)
    }
}

/// The seat has the turn: there is nobody before it any more.
pub(crate) fn tell_first(seat: &Seat) {
    if let Some(observer) = &seat.claim().observer {
        let (ahead, first) = (0, None);
        (observer.tell)(&Place { ahead, first });
    }
}

/// Waits until what the seat waits for may have changed, and tells its place meanwhile. False at
/// the deadline.
pub(crate) fn await_change(at: &Attempt<'_>) -> Result<bool, Failure> {
    let Some(observer) = &at.seat.claim().observer else {
        return at.seat.await_change(at.connection, at.until);
    };
    loop {
        match place(at) {
            Ok(Some(place)) => (observer.tell)(&place),
            Ok(None) => {}
            Err(Failure::Deadline) if !at.connection.is_dead() => return Ok(false),
            Err(failure) => return Err(failure),
        }
        let changed = at.seat.await_change(at.connection, &observer.next(at.until))?;
        let over = at.until.deadline.is_some_and(|end| end <= Instant::now());
        if changed || over {
            return Ok(changed);
        }
    }
}

/// Two requests. None if the seat's node is gone: the watch on the one ahead says nothing of that,
/// but the look that comes after it will.
fn place(at: &Attempt<'_>) -> Result<Option<Place>, Failure> {
    let claim = at.seat.claim();
    let listed = claim.directory.clone();
    let names = at.connection.call(at.until, move |wire| wire.children(listed.as_str(), false))?;
    let children = names.into_iter().map(|name| Child { name, czxid: None });
    let children: Vec<_> = children.collect();
    let Some((own, _)) = at.seat.own() else {
        return Ok(None);
    };
    if !children.iter().any(|child| child.name == own) {
        return Ok(None);
    }
    let before = node::ahead(&children, &own);
    let first = match before.first() {
        Some(name) => match look(at.connection, &claim.directory.below(name), at.until) {
            Ok(node) => node.map(|node| ahead(claim, name, node)),
            Err(Failure::Refused(_)) => None,
            Err(failure) => return Err(failure),
        },
        None => None,
    };
    let ahead = before.len();
    Ok(Some(Place { ahead, first }))
}
