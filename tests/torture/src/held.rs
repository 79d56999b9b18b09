//! What a call of the library has granted, whatever the kind, and how it is given back.

use zoolock::{Error, Guard, Hold, Lock, Permits};

use crate::places::Share;
use crate::view::View;

/// What was granted at one path.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) path: usize,
    pub(crate) share: Share,
    pub(crate) view: View,
}

pub(crate) struct Held<'a> {
    /// Several only of a `MultiLock`.
    pub(crate) parts: Vec<Part>,
    pub(crate) then: Then<'a>,
    release: Box<dyn FnOnce() -> Option<zoolock::Result<()>> + 'a>,
}

/// What can be done while it is held.
pub(crate) enum Then<'a> {
    Nothing,
    /// Enters once more, says how often that was, and leaves again.
    ReEnter(Box<dyn Fn() -> zoolock::Result<u32> + 'a>),
    /// Takes the read that a writer may have as well.
    Read(Box<dyn Fn() -> Got<'a> + 'a>),
}

/// None if somebody else was ahead.
pub(crate) type Got<'a> = zoolock::Result<Option<Held<'a>>>;

impl<'a> Held<'a> {
    pub(crate) fn new(
        parts: Vec<Part>,
        release: impl FnOnce() -> Option<zoolock::Result<()>> + 'a,
    ) -> Held<'a> {
        Held { parts, then: Then::Nothing, release: Box::new(release) }
    }

    fn of(
        (path, share): (usize, Share),
        holds: Vec<Hold>,
        release: impl FnOnce() -> Option<zoolock::Result<()>> + 'a,
    ) -> Held<'a> {
        let view = View::new(holds);
        Held::new(vec![Part { path, share, view }], release)
    }

    pub(crate) fn then(self, then: Then<'a>) -> Held<'a> {
        Held { then, ..self }
    }

    /// None if nothing is said about it.
    pub(crate) fn release(self) -> Option<zoolock::Result<()>> {
        (self.release)()
    }
}

/// By `lock()` or its variants.
pub(crate) fn called<'a>(
    what: (usize, Share),
    lock: &'a dyn Lock,
    got: zoolock::Result<bool>,
) -> Got<'a> {
    if !got? {
        return Ok(None);
    }
    let path = lock.path().to_owned();
    let hold = lock.holds().pop().ok_or(Error::NotHeld { path })?;
    Ok(Some(Held::of(what, vec![hold], || Some(lock.unlock()))))
}

/// A guard that will be released.
pub(crate) fn released<'a, O: 'a>(what: (usize, Share), guard: Guard<O>) -> Option<Held<'a>> {
    let hold = guard.hold();
    Some(Held::of(what, vec![hold], || Some(guard.release())))
}

/// A guard that will be dropped.
pub(crate) fn dropped<'a, O: 'a>(what: (usize, Share), guard: Guard<O>) -> Option<Held<'a>> {
    let hold = guard.hold();
    Some(Held::of(what, vec![hold], || {
        drop(guard);
        None
    }))
}

/// Permits, as many as were asked for if the library is right.
pub(crate) fn permits<'a>(what: (usize, Share), permits: Permits, drops: bool) -> Option<Held<'a>> {
    let holds = permits.holds();
    Some(Held::of(what, holds, move || match drops {
        true => {
            drop(permits);
            None
        }
        false => Some(permits.release()),
    }))
}
