//! Permits of a semaphore. They are granted when no more permits than the limit exist that were
//! created before them or with them, by any client. Other nodes of the directory do not count.
//!
//! That alone keeps the limit: of the permits that are granted at any time, the last one created
//! saw all others. The turn, which is a lock, makes the order fair, and lets one of two calls that
//! want many permits have all of them.
//!
//! The names also carry the limit under which they were requested, so that others notice a
//! different one.
//!
//! The numbers in the names, which the server gives, tell which nodes were created before. A node
//! that was created by hand counts as its name says. It is no call's permit, so it can only take
//! one away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use log::{Level, warn};
use zookeeper::Names;

use crate::base::error::Error;
use crate::base::names::{self, Child, Standing};
use crate::base::path::LockPath;
use crate::base::signal::{Broadcast, Ended};
use crate::base::sys::{self, never};
use crate::session::{Grant, Inner, Node};

/// The most permits there may be.
#[derive(Debug)]
pub(crate) struct Limit {
    inner: Arc<Inner>,
    path: LockPath,
    most: AtomicU32,
    changed: Broadcast,
    /// A different limit was seen and logged.
    has_told: AtomicBool,
}

impl Limit {
    pub(crate) fn new(most: u32, inner: Arc<Inner>, path: LockPath) -> Limit {
        let (most, has_told) = (AtomicU32::new(most), AtomicBool::new(false));
        Limit { inner, path, most, changed: Broadcast::new(), has_told }
    }

    pub(crate) fn get(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, most: u32) {
        self.most.store(most, Ordering::SeqCst);
        self.has_told.store(false, Ordering::Relaxed);
        self.changed.send();
    }

    /// Logs a limit in these names that is a different one, once.
    fn compare<'n>(&self, mut names: impl Iterator<Item = &'n str>) {
        let own = self.get();
        let other = |name| names::limit_of(name).filter(|limit| *limit != own);
        if !self.has_told.load(Ordering::Relaxed)
            && let Some(other) = names.find_map(other)
            && !self.has_told.swap(true, Ordering::Relaxed)
        {
            sys::reached("a permit was taken under another limit");
            let lock = self.path.clone();
            self.inner.requests.note(Level::Warn, move || {
                let lock = lock.as_str();
                warn!(target: "zoolock", lock:%; "{lock}: permits were taken under a limit of {other}, here it is {own}");
            });
        }
    }
}

/// This many permits at once, all or none.
pub(crate) struct PermitRequest<'a> {
    pub(super) count: usize,
    limit: &'a Limit,
    /// The turn of a call that waits. The permits are granted only while it is held.
    pub(super) turn: Option<&'a Arc<Grant>>,
    /// Ended when the limit has changed since it was read.
    changed: Ended,
}

impl<'a> PermitRequest<'a> {
    pub(crate) fn new(
        count: u32,
        limit: &'a Limit,
        turn: Option<&'a Arc<Grant>>,
    ) -> PermitRequest<'a> {
        PermitRequest { count: count as usize, limit, turn, changed: never() }
    }

    pub(super) fn new_id(&self) -> String {
        let turn = self.turn.map(|turn| turn.list()[0].name.as_str());
        names::new_permit_id(turn, self.limit.get())
    }

    pub(super) fn is_free(&self, list: &Names) -> bool {
        self.limit.compare(list.iter());
        names::permits(list.iter()).count() + self.count <= self.limit.get() as usize
    }

    pub(super) fn standing(&mut self, list: &[Child<'_>], own: &[Node]) -> Result<Standing, Error> {
        self.turn.map_or(Ok(()), |turn| turn.check())?;
        self.limit.compare(list.iter().map(|child| child.name));
        // Before the limit is read, so that no change is missed.
        self.changed = self.limit.changed.listen();
        let all = list.iter().map(|child| child.name);
        let own: Vec<_> = own.iter().map(|node| &*node.name).collect();
        match names::fit(all, &own, self.limit.get()) {
            true => Ok(Standing::Granted),
            false => Ok(Standing::Full),
        }
    }

    pub(super) fn changes(&self) -> [Ended; 2] {
        let ended = self.turn.map_or_else(never, |turn| turn.ended().clone());
        [self.changed.clone(), ended]
    }
}
