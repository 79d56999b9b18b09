//! What the exclusive locks share: the local level first, the node in ZooKeeper second, released
//! in reverse order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::warn;

use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::guard::{Guard, Releases};
use crate::hold::Hold;
use crate::local::{Entry, Exit, Legacy, Local, Ownership, Refused, Stopped};
use crate::node::Kind;
use crate::path::LockPath;
use crate::session::{Claim, Seat, Session, Standing, Until};
use crate::signal::Ended;
use crate::site::Site;
use crate::{attempt, queue, single};

/// How long a call may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// Not at all, but for answers.
    Try,
    /// Until an instant; none is for ever.
    Until(Option<Instant>),
}

impl Patience {
    /// A deadline that has passed leaves no time to wait in.
    pub(crate) fn now(self) -> Patience {
        match self {
            Patience::Until(Some(end)) if end <= Instant::now() => Patience::Try,
            patience => patience,
        }
    }
}

/// One lock object.
#[derive(Debug)]
pub(crate) struct TwoLevel {
    local: Local<Arc<Seat>>,
    site: Site,
    /// Where its nodes are.
    directory: LockPath,
    kind: Kind,
    ownership: Ownership,
    passing: Passing,
}

/// How a hold goes from thread to thread without a word to the servers.
#[derive(Debug, Default)]
struct Passing {
    /// So many times in a row to one that waits.
    hand_offs: u32,
    /// It is kept for whoever comes, for so long after its grant.
    keep: Option<Duration>,
}

impl TwoLevel {
    /// One whose nodes are in `directory`. Every thread gets a hold of its own.
    pub(crate) fn new(
        site: Site,
        directory: LockPath,
        kind: Kind,
        ownership: Ownership,
    ) -> Arc<TwoLevel> {
        TwoLevel::with(site, directory, kind, ownership, Passing::default())
    }

    /// One whose directory is the lock's path, and whose threads pass it on as its options say.
    pub(crate) fn at(site: Site, kind: Kind, ownership: Ownership) -> Arc<TwoLevel> {
        let passing =
            Passing { hand_offs: site.options.local_handoffs, keep: site.options.keep_idle };
        let directory = site.path.clone();
        TwoLevel::with(site, directory, kind, ownership, passing)
    }

    fn with(
        site: Site,
        directory: LockPath,
        kind: Kind,
        ownership: Ownership,
        passing: Passing,
    ) -> Arc<TwoLevel> {
        let session = Arc::clone(site.session());
        let legacy = Legacy {
            stays: |seat: &Arc<Seat>| seat.stays(),
            discard: Box::new(move |seat| session.end_unwanted(&seat)),
        };
        Arc::new(TwoLevel {
            local: Local::new(ownership, legacy),
            site,
            directory,
            kind,
            ownership,
            passing,
        })
    }

    pub(crate) fn path(&self) -> &str {
        self.site.path.as_str()
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Takes both levels. None if somebody else holds the lock.
    pub(crate) fn acquire(&self, patience: Patience) -> Result<Option<Arc<Seat>>> {
        match patience.now() {
            Patience::Try => self.attempt(),
            Patience::Until(deadline) => {
                self.wait(&Until { deadline, cancelled: self.cancelled() })
            }
        }
    }

    fn attempt(&self) -> Result<Option<Arc<Seat>>> {
        match self.local.try_enter() {
            Some(entry) => self.second_level(entry, |claim| {
                let way = match self.kind {
                    Kind::Single => single::attempt,
                    _ => queue::attempt,
                };
                attempt::attempt(self.session(), claim, way)
            }),
            None => self.busy(),
        }
    }

    /// [`acquire`](Self::acquire), cancelled as `until` says.
    pub(crate) fn wait(&self, until: &Until) -> Result<Option<Arc<Seat>>> {
        let path = || self.path().to_owned();
        let entry = match self.local.try_enter() {
            Some(entry) => Ok(entry),
            // Whoever is ahead waits for this thread, or will.
            None if self.session().holds_here(&self.claim()) => {
                return Err(Error::WouldDeadlock { path: path() });
            }
            None => self.local.enter(until, self.session().closed()),
        };
        match entry {
            Ok(entry) => self.second_level(entry, |claim| {
                let way = match self.kind {
                    Kind::Single => single::wait,
                    _ => queue::wait,
                };
                attempt::wait(self.session(), claim, until, way)
            }),
            Err(Stopped::Deadline) => self.busy(),
            Err(Stopped::Cancelled) => Err(Error::Cancelled { path: path() }),
            Err(Stopped::Closed) => Err(Error::Closed),
        }
    }

    /// Another thread of this process is ahead. That says nothing while it waits for a
    /// connection itself.
    fn busy(&self) -> Result<Option<Arc<Seat>>> {
        self.site.client.check_open()?;
        if self.local.is_held() || self.session().live().is_some() {
            return Ok(None);
        }
        let path = self.path().to_owned();
        Err(Error::Disconnected { path })
    }

    fn second_level(
        &self,
        entry: Entry<'_, Arc<Seat>>,
        way: impl FnOnce(Claim) -> Result<Option<Arc<Seat>>>,
    ) -> Result<Option<Arc<Seat>>> {
        match entry {
            Entry::Again(seat) => {
                self.check(&seat)?;
                self.local.deepen();
                Ok(Some(seat))
            }
            // A failure drops the turn, which gives the first level back.
            Entry::First(turn) => {
                while let Some(left) = turn.take_left() {
                    if left.take_over() {
                        turn.keep(Arc::clone(&left));
                        return Ok(Some(left));
                    }
                    self.session().end_unwanted(&left);
                }
                let seat = way(self.claim())?;
                if let Some(seat) = &seat {
                    turn.keep(Arc::clone(seat));
                }
                Ok(seat)
            }
        }
    }

    /// Releases once; with `only`, only if that is what is held.
    pub(crate) fn release(&self, only: Option<&Arc<Seat>>) -> Result<()> {
        let is_it = |seat: &Arc<Seat>| only.is_none_or(|only| Arc::ptr_eq(only, seat));
        match self.local.exit(Some(&is_it)) {
            Ok(Exit::Inner(seat)) => self.check(&seat),
            Ok(Exit::Last(seat, turn)) => {
                let heir = match self.passing.keep {
                    _ if turn.may_leave(self.passing.hand_offs) => self.session().pass_on(&seat),
                    Some(time) => self.session().keep(&seat, time),
                    None => None,
                };
                if let Some(heir) = heir {
                    turn.leave(heir);
                    return Ok(());
                }
                let released = self.session().release(&seat);
                drop(turn);
                released
            }
            Err(Refused::NotHeld) => {
                self.site.client.check_open()?;
                Err(self.site.not_held())
            }
            Err(Refused::NotOwner(owner)) => {
                let path = self.path().to_owned();
                Err(Error::NotOwner { path, owner })
            }
        }
    }

    /// A lost hold is an error to everyone who comes back to it.
    pub(crate) fn check(&self, seat: &Seat) -> Result<()> {
        match seat.standing(Moment::now()) {
            Standing::Lost(reason) => Err(Error::Lost { path: self.path().to_owned(), reason }),
            _ => Ok(()),
        }
    }

    pub(crate) fn guard<O>(self: &Arc<Self>, seat: Arc<Seat>) -> Guard<O> {
        let lock: Arc<dyn Releases> = Arc::clone(self) as _;
        Guard::new(self.view(seat), lock)
    }

    /// Of the calling thread, or of the object where any thread may unlock.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.seat().map(|seat| self.view(seat))
    }

    /// What [`TwoLevel::hold`] is a view of.
    pub(crate) fn seat(&self) -> Option<Arc<Seat>> {
        self.local.hold()
    }

    pub(crate) fn depth(&self) -> u32 {
        self.local.depth()
    }

    pub(crate) fn cancel_waiters(&self) {
        self.local.cancel_waiters();
    }

    /// Ready at the next [`TwoLevel::cancel_waiters`].
    pub(crate) fn cancelled(&self) -> Ended {
        self.local.cancelled()
    }

    fn view(&self, seat: Arc<Seat>) -> Hold {
        Hold::new(seat, Arc::clone(self.session()))
    }

    fn claim(&self) -> Claim {
        self.site.claim(&self.directory, self.kind, self.ownership)
    }

    fn session(&self) -> &Arc<Session> {
        self.site.session()
    }
}

impl Releases for TwoLevel {
    fn release(&self, hold: &Hold) -> Result<()> {
        TwoLevel::release(self, Some(hold.seat()))
    }
}

impl Drop for TwoLevel {
    fn drop(&mut self) {
        let Some(seat) = self.local.abandon() else {
            return;
        };
        warn!(
            target: "zoolock",
            "the last handle of lock {} was dropped while it was held: releasing it", self.path()
        );
        if let Err(error) = self.session().release(&seat) {
            warn!(target: "zoolock", "dropped a lock: {error}");
        }
    }
}
