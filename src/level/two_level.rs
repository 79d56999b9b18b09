//! What the exclusive locks share: the local level first, the node in ZooKeeper second, released in
//! reverse order.

use std::fmt;
use std::sync::Arc;

use log::warn;

use super::local::{Entry, Exit, Local, Ownership, Refused, Stopped, Turn, Unclaimed};
use super::site::Site;
use crate::error::{Error, Result};
use crate::guard::{Guard, Releases};
use crate::hold::Hold;
use crate::names::Mode;
use crate::observer::Call;
use crate::path::LockPath;
use crate::patience::Patience;
use crate::recipe::{Queue, Single};
use crate::session::{Claim, Departure, Grant, Nodes, Session};
use crate::signal::{Ended, Until};
use crate::sys;

/// What a thread leaves to the next one.
enum Left {
    /// Its nodes, to be held again.
    Kept(Arc<Nodes>),
    /// Its node, to be replaced.
    Leaving(Departure),
}

/// One lock object.
pub(crate) struct TwoLevel {
    local: Local<Arc<Grant>, Left>,
    site: Site,
    /// The directory of its nodes.
    directory: LockPath,
    /// What the nodes ask for; `None` for a single-node lock.
    mode: Option<Mode>,
    ownership: Ownership,
}

impl TwoLevel {
    /// Creates a lock whose nodes are in `directory`, and whose threads pass it on as its options
    /// say.
    pub(crate) fn new(
        site: Site,
        directory: LockPath,
        mode: Option<Mode>,
        ownership: Ownership,
    ) -> Arc<TwoLevel> {
        let session = Arc::clone(site.session());
        let unclaimed = Unclaimed {
            stays: |left: &Left| matches!(left, Left::Kept(nodes) if nodes.stays()),
            discard: Box::new(move |left| {
                if let Left::Kept(nodes) = left {
                    session.end_unwanted(&nodes);
                }
            }),
        };
        let local = Local::new(ownership, unclaimed);
        Arc::new(TwoLevel { local, site, directory, mode, ownership })
    }

    /// Creates a lock whose directory is its path.
    pub(crate) fn at(site: Site, mode: Mode, ownership: Ownership) -> Arc<TwoLevel> {
        let directory = site.path.clone();
        TwoLevel::new(site, directory, Some(mode), ownership)
    }

    pub(crate) fn path(&self) -> &str {
        self.site.path.as_str()
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Takes both levels. Returns `None` if another contender is ahead, now or until the deadline.
    pub(crate) fn acquire(&self, patience: Patience) -> Result<Option<Arc<Grant>>> {
        self.site.observe((self.mode, self.ownership), patience, |patience, call| match patience {
            Patience::Try => match self.local.try_enter() {
                Some(entry) => self.second_level(entry, None, call),
                None => self.busy(),
            },
            Patience::Until(deadline) => {
                self.wait(&Until { deadline, cancelled: self.cancelled() }, call)
            }
        })
    }

    /// Like [`acquire`](Self::acquire), with the deadline and the cancel signal of `until`.
    pub(crate) fn acquire_until(&self, until: &Until) -> Result<Option<Arc<Grant>>> {
        let patience = Patience::Until(until.deadline);
        self.site.observe((self.mode, self.ownership), patience, |_, call| self.wait(until, call))
    }

    /// Like [`acquire_until`](Self::acquire_until), as part of an observed call.
    pub(crate) fn wait(&self, until: &Until, call: Option<&Call>) -> Result<Option<Arc<Grant>>> {
        let path = || self.path().to_owned();
        let entry = match self.local.try_enter() {
            Some(entry) => Ok(entry),
            // The thread that is ahead waits for this thread, or will.
            None if self.session().holds_here(&self.claim()) => {
                sys::reached("a thread would wait for one that waits for it");
                return Err(Error::WouldDeadlock { path: path() });
            }
            None => self.local.enter(until, self.session().closed()),
        };
        match entry {
            Ok(entry) => self.second_level(entry, Some(until), call),
            Err(Stopped::Deadline) => self.busy(),
            Err(Stopped::Cancelled) => Err(Error::Cancelled { path: path() }),
            Err(Stopped::Closed) => Err(Error::Closed),
        }
    }

    /// Returns busy, because another thread of this process is ahead. If that thread does not hold
    /// the lock and there is no connection, this is an error: nobody knows.
    fn busy(&self) -> Result<Option<Arc<Grant>>> {
        match self.session().require_connection(self.path()) {
            Err(Error::Disconnected { .. }) if self.local.is_held() => {
                sys::reached("a lock is busy here without a connection");
                Ok(None)
            }
            known => known.map(|()| None),
        }
    }

    fn second_level(
        &self,
        entry: Entry<'_, Arc<Grant>, Left>,
        until: Option<&Until>,
        call: Option<&Call>,
    ) -> Result<Option<Arc<Grant>>> {
        let turn = match entry {
            Entry::Again(grant) => {
                call.inspect(|call| call.enters_again());
                grant.check()?;
                self.local.deepen();
                return Ok(Some(grant));
            }
            // A failure drops the turn, which gives the first level back.
            Entry::First(turn) => turn,
        };
        let claim = self.claim();
        let mut departure = None;
        if let Some(left) = turn.take_left() {
            match left {
                Left::Leaving(of_another) => departure = Some(of_another),
                Left::Kept(nodes) => {
                    if let Some(grant) = nodes.take_over(claim.owner) {
                        turn.keep(Arc::clone(&grant));
                        return Ok(Some(grant));
                    }
                    self.session().end_unwanted(&nodes);
                }
            }
            turn.start_over();
        }
        let grant = match self.mode {
            Some(mode) => {
                self.site.take_instead_of(departure, &claim, &Queue(mode), until, call)?
            }
            None => self.site.take(&claim, &Single(self.site.path.split().1), until, call)?,
        };
        if let Some(grant) = &grant {
            turn.keep(Arc::clone(grant));
        }
        Ok(grant)
    }

    /// Releases once. With `only`, only if that is the current hold.
    pub(crate) fn release(&self, only: Option<&Arc<Grant>>) -> Result<()> {
        let is_it = |grant: &Arc<Grant>| only.is_none_or(|only| Arc::ptr_eq(only, grant));
        match self.local.exit(Some(&is_it)) {
            Ok(Exit::Inner(grant)) => grant.check(),
            // The turn is given back before the observer is told.
            Ok(Exit::Last(grant, turn)) => grant.end_by(|| self.release_last(&grant, turn)),
            Err(Refused::NotHeld) => Err(self.site.refuse()),
            Err(Refused::NotOwner(owner)) => {
                Err(Error::NotOwner { path: self.path().to_owned(), owner })
            }
        }
    }

    fn release_last(&self, grant: &Arc<Grant>, turn: Turn<'_, Arc<Grant>, Left>) -> Result<()> {
        let options = &self.site.options;
        let left = match options.keep_idle {
            _ if turn.may_leave(options.local_handoffs) => grant.nodes().leave_to_next(grant),
            Some(time) => self.session().keep(grant, time),
            None => false,
        };
        if left {
            turn.leave(Left::Kept(Arc::clone(grant.nodes())));
            return Ok(());
        }
        let queues = self.mode.is_some() && turn.may_leave(u32::MAX);
        let mut turn = Some(turn);
        let mut next = |departure| {
            if let Some(turn) = turn.take() {
                turn.leave(Left::Leaving(departure));
            }
        };
        let next: &mut dyn FnMut(Departure) = &mut next;
        self.session().release_to(grant, queues.then_some(next))
    }

    pub(crate) fn guard<O>(self: &Arc<Self>, grant: Arc<Grant>) -> Guard<O> {
        let lock: Arc<dyn Releases> = Arc::clone(self) as _;
        Guard::new(Hold::new(grant, 0), lock)
    }

    /// Returns the hold of the calling thread, or that of the object where any thread may unlock.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.grant().map(|grant| Hold::new(grant, 0))
    }

    /// Returns the grant behind [`TwoLevel::hold`].
    pub(crate) fn grant(&self) -> Option<Arc<Grant>> {
        self.local.hold()
    }

    pub(crate) fn depth(&self) -> u32 {
        self.local.depth()
    }

    pub(crate) fn cancel_waiters(&self) {
        self.local.cancel_waiters();
    }

    /// Returns a signal that is ready at the next [`TwoLevel::cancel_waiters`].
    pub(crate) fn cancelled(&self) -> Ended {
        self.local.cancelled()
    }

    fn claim(&self) -> Claim {
        self.site.claim(&self.directory, (self.mode, self.ownership))
    }

    fn session(&self) -> &Arc<Session> {
        self.site.session()
    }
}

impl Releases for TwoLevel {
    fn release(&self, hold: &Hold) -> Result<()> {
        TwoLevel::release(self, Some(hold.grant()))
    }
}

impl fmt::Debug for TwoLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, is_held) = (self.path(), self.local.is_held());
        f.debug_struct("TwoLevel").field("path", &path).field("is_held", &is_held).finish()
    }
}

impl Drop for TwoLevel {
    fn drop(&mut self) {
        let Some(grant) = self.local.abandon() else {
            return;
        };
        sys::reached("the last handle of a held lock is dropped");
        warn!(
            target: "zoolock",
            "the last handle of lock {} was dropped while it was held: releasing it", self.path()
        );
        if let Err(error) = self.session().release(&grant) {
            warn!(target: "zoolock", "dropped a lock: {error}");
        }
    }
}
