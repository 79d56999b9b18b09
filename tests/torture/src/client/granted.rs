//! The grant of a call, of any kind of lock, and its release.

use std::convert::Infallible;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, never};
use zoolock::{Error, Guard, Hold, HoldState, Lock, LossReason, Permits};

use crate::paths::Mode;

/// What was granted at one path. Several permits are seen as one hold, since they are lost
/// together. No holds at all, where the library showed none of what it had granted, look like one
/// that is never lost.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) path: usize,
    pub(crate) mode: Mode,
    pub(crate) holds: Vec<Hold>,
}

impl Part {
    pub(crate) fn is_held(&self) -> bool {
        self.holds.iter().all(Hold::is_held)
    }

    pub(crate) fn lost(&self) -> Receiver<Infallible> {
        self.holds.first().map_or_else(never, |hold| hold.lost().clone())
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

    pub(crate) fn fencing_token(&self) -> Option<u64> {
        self.holds.first().map(Hold::fencing_token)
    }
}

pub(crate) struct Granted<'a> {
    /// Several only of a `MultiLock`.
    pub(crate) parts: Vec<Part>,
    pub(crate) then: Then<'a>,
    release: Release<'a>,
}

/// None if nothing is said about it.
type Release<'a> = Box<dyn FnOnce() -> Option<zoolock::Result<()>> + 'a>;

/// What can be done while it is held.
pub(crate) enum Then<'a> {
    Nothing,
    /// Enters once more, says how often that was, and leaves again.
    ReEnter(Box<dyn Fn() -> zoolock::Result<u32> + 'a>),
    /// Takes the read that a writer may have as well.
    Read(Box<dyn Fn() -> Response<'a> + 'a>),
}

/// None if somebody else was ahead.
pub(crate) type Response<'a> = zoolock::Result<Option<Granted<'a>>>;

impl<'a> Granted<'a> {
    pub(crate) fn new(
        parts: Vec<Part>,
        release: impl FnOnce() -> Option<zoolock::Result<()>> + 'a,
    ) -> Granted<'a> {
        Granted { parts, then: Then::Nothing, release: Box::new(release) }
    }

    fn at(
        (path, mode): (usize, Mode),
        holds: Vec<Hold>,
        release: impl FnOnce() -> Option<zoolock::Result<()>> + 'a,
    ) -> Granted<'a> {
        Granted::new(vec![Part { path, mode, holds }], release)
    }

    pub(crate) fn then(self, then: Then<'a>) -> Granted<'a> {
        Granted { then, ..self }
    }

    pub(crate) fn release(self) -> Option<zoolock::Result<()>> {
        (self.release)()
    }
}

/// By `lock()` or its variants.
pub(crate) fn called<'a>(
    what: (usize, Mode),
    lock: &'a dyn Lock,
    got: zoolock::Result<bool>,
) -> Response<'a> {
    if !got? {
        return Ok(None);
    }
    let path = lock.path().to_owned();
    let hold = lock.holds().pop().ok_or(Error::NotHeld { path })?;
    Ok(Some(Granted::at(what, vec![hold], || Some(lock.unlock()))))
}

/// A guard that will be released.
pub(crate) fn released<'a, O: 'a>(what: (usize, Mode), guard: Guard<O>) -> Option<Granted<'a>> {
    Some(Granted::at(what, vec![guard.hold()], || Some(guard.release())))
}

/// A guard that will be dropped.
pub(crate) fn dropped<'a, O: 'a>(what: (usize, Mode), guard: Guard<O>) -> Option<Granted<'a>> {
    Some(Granted::at(what, vec![guard.hold()], || {
        drop(guard);
        None
    }))
}

/// Permits, as many as were asked for if the library is right.
pub(crate) fn permits<'a>(
    what: (usize, Mode),
    permits: Permits,
    drops: bool,
) -> Option<Granted<'a>> {
    Some(Granted::at(what, permits.holds(), move || match drops {
        true => {
            drop(permits);
            None
        }
        false => Some(permits.release()),
    }))
}
