//! Permits of a semaphore. The permits of a call are granted if they do not exceed the limit
//! together with all permits that were created before them, by any client. Other nodes of the
//! directory do not count.
//!
//! This rule alone enforces the limit: when the last of the currently granted permits was granted,
//! the list of its call contained all the others. A call that waits also holds a lock, the turn of
//! the semaphore, which makes the order fair. If two calls want many permits each, the turn lets
//! one of them acquire all its permits.
//!
//! The names of permits also contain the limit under which they were requested, so that other
//! clients can detect a different limit.
//!
//! The server assigns the numbers in the names, which determine which nodes were created first. A
//! node that was created by hand counts according to its name. Because no call owns it, its only
//! effect is that one permit less is available.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use log::{Level, warn};
use zookeeper::Names;

use crate::base::error::Error;
use crate::base::names::{self, Child, Standing};
use crate::base::path::LockPath;
use crate::base::signal::{Broadcast, Ended};
use crate::base::sys::never;
use crate::session::{Grant, Inner, Node};

/// The maximum number of permits.
#[derive(Debug)]
pub(crate) struct Limit {
    inner: Arc<Inner>,
    path: LockPath,
    most: AtomicU32,
    changed: Broadcast,
    /// A different limit was found and logged.
    has_told: AtomicBool,
}

impl Limit {
    pub(crate) fn new(most: u32, inner: Arc<Inner>, path: LockPath) -> Limit {
        let (most, has_told) = (AtomicU32::new(most), AtomicBool::new(false));
        Limit { inner, path, most, changed: Broadcast::default(), has_told }
    }

    pub(crate) fn get(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, most: u32) {
        self.most.store(most, Ordering::SeqCst);
        self.has_told.store(false, Ordering::Relaxed);
        self.changed.send();
    }

    /// Logs once if one of these names contains a different limit.
    fn compare<'n>(&self, mut names: impl Iterator<Item = &'n str>) {
        let own = self.get();
        let other = |name| names::limit_of(name).filter(|limit| *limit != own);
        if !self.has_told.load(Ordering::Relaxed)
            && let Some(other) = names.find_map(other)
            && !self.has_told.swap(true, Ordering::Relaxed)
        {
            let lock = self.path.clone();
            self.inner.requests.note(Level::Warn, move || {
                let lock = lock.as_str();
                warn!(target: "zoolock", lock:%; "{lock}: permits were taken under a limit of {other}, but the limit here is {own}");
            });
        }
    }
}

/// A number of permits that are acquired together: either all of them or none.
pub(crate) struct PermitRequest<'a> {
    pub(super) count: usize,
    limit: &'a Limit,
    /// The turn of a call that waits: the lock that orders waiting calls. The permits are granted
    /// only while the call holds it.
    pub(super) turn: Option<&'a Arc<Grant>>,
    /// Ready when the limit has changed since it was read.
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
        names::count_permits(list) + self.count <= self.limit.get() as usize
    }

    pub(super) fn standing(&mut self, list: &[Child<'_>], own: &[Node]) -> Result<Standing, Error> {
        self.turn.map_or(Ok(()), |turn| turn.check())?;
        self.limit.compare(list.iter().map(|child| child.name));
        // This is done before the limit is read, so that a change is not missed.
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
