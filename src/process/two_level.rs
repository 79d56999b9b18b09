//! The common part of the exclusive locks. A call waits first in the in-process queue and then in
//! the ZooKeeper queue, with a node. A release leaves the two queues in reverse order.
//!
//! `unlock` passes the lock on in the first of these ways that is possible:
//!
//! | the next thread | requests of both threads | if |
//! |---|---|---|
//! | holds the same nodes | none | the option allows it: other processes wait for one more acquisition |
//! | replaces the node | one transaction | a thread waits, but no other client does; therefore, this is fair to other clients |
//! | queues | two or more | otherwise |
//!
//! The first way is for programs that prefer fewer requests to fairness among processes. Such
//! programs have to enable it. Without the second way, threads of one process that share a lock
//! would need two round trips for each acquisition.

use std::fmt;
use std::sync::Arc;

use super::raw::RawLock;
use super::site::Site;
use crate::base::error::{Error, Result};
use crate::base::panics::{log_drop, log_last_handle};
use crate::base::wait::{Stopped, Until, Wait};
use crate::observer::Report;
use crate::queue::Recipe;
use crate::session::{Exit, Grant, Handed, Inner, Level, Refused, Turn, release, release_to};

/// One lock object.
pub(crate) struct TwoLevel {
    /// The in-process queue of the path, and the number of this object there.
    level: Arc<Level>,
    number: u64,
    site: Site,
}

impl TwoLevel {
    /// Creates a lock object.
    pub(crate) fn new(site: Site) -> Arc<TwoLevel> {
        let inner = site.inner();
        let holds = Arc::downgrade(&inner.holds);
        let (level, number) = inner.levels.join(&site.facts, move |handed| {
            if let (Handed::Nodes(nodes), Some(holds)) = (handed, holds.upgrade()) {
                holds.end_unwanted(&nodes);
            }
        });
        Arc::new(TwoLevel { level, number, site })
    }

    /// Acquires the lock in both queues like `acquire`, as part of an observed call.
    pub(crate) fn enter(
        &self,
        until: &Until,
        report: Option<&Report>,
    ) -> Result<Option<Arc<Grant>>> {
        let local = &self.level.local;
        let turn = match local.try_enter(self.number) {
            Some(turn) => Ok(turn),
            None if !until.waits => return self.busy(),
            None => {
                // If this thread already has a hold in the ZooKeeper queue, the thread ahead waits
                // for that hold, now or later.
                if self.inner().holds.registry.holds_here(&self.site.facts) {
                    return Err(Error::WouldDeadlock { path: self.path().to_owned() });
                }
                until.note_ahead();
                local.enter(self.number, until, self.site.requests().closed())
            }
        };
        match turn {
            Ok(turn) => self.second_level(turn, until, report),
            Err(Stopped::Deadline) => self.busy(),
            Err(stopped) => Err(self.site.requests().error(self.path(), stopped.into())),
        }
    }

    /// Returns `None`, because another thread of this process is ahead. Without a connection the
    /// state of the lock is unknown; in that case, returns an error, unless this object would have
    /// to wait in any state.
    fn busy(&self) -> Result<Option<Arc<Grant>>> {
        match self.site.requests().require_connection(self.path()) {
            Err(Error::Disconnected { .. }) if self.level.local.keeps_out(self.number) => Ok(None),
            known => known.map(|()| None),
        }
    }

    /// Acquires the lock in the ZooKeeper queue. If that fails, `turn`, the ownership of the
    /// in-process queue, is dropped, and the next thread of that queue continues.
    fn second_level(
        &self,
        turn: Turn<'_, Arc<Grant>, Handed>,
        until: &Until,
        report: Option<&Report>,
    ) -> Result<Option<Arc<Grant>>> {
        let replaceable = match turn.take_handed() {
            Some(Handed::Nodes(nodes)) => {
                if let Some(grant) = nodes.take_over(&self.site.facts) {
                    self.inner().holds.set_alarms(&grant);
                    // An operator may have deleted the nodes; a watch detects that. `watch` sends a
                    // request only if the nodes have no watcher yet.
                    self.inner().holds.watch(grant.nodes());
                    self.keep(turn, &grant);
                    return Ok(Some(grant));
                }
                self.inner().holds.end_unwanted(&nodes);
                None
            }
            Some(Handed::Replaceable(node)) => Some(node),
            None => None,
        };
        turn.start_over();
        let recipe = Recipe::Queue(self.site.facts.kind);
        let grant = self.site.take(recipe, replaceable, until, report)?;
        if let Some(grant) = &grant {
            self.keep(turn, grant);
        }
        Ok(grant)
    }

    fn keep(&self, turn: Turn<'_, Arc<Grant>, Handed>, grant: &Arc<Grant>) {
        turn.keep(Arc::clone(grant));
        if grant.is_over() {
            self.level.lost(grant);
        }
    }

    fn leave(&self, exit: Exit<'_, Arc<Grant>, Handed>) -> Result<()> {
        match exit {
            Exit::Inner(grant) => grant.check(),
            // The turn is dropped before the observer is notified.
            Exit::Last(grant, turn) => grant.release_by(|| match self.hand_on(&grant, turn) {
                Some(turn) => release_to(&self.inner().holds, &grant, Some(turn)),
                None => Ok(()),
            }),
            Exit::Lost(grant) => release(&self.inner().holds, &grant),
        }
    }

    /// Hands the nodes over to the next thread, if that is allowed. Otherwise, returns the turn.
    fn hand_on<'t>(
        &self,
        grant: &Arc<Grant>,
        turn: Turn<'t, Arc<Grant>, Handed>,
    ) -> Option<Turn<'t, Arc<Grant>, Handed>> {
        let times = self.site.facts.options.local_handoffs;
        if !turn.has_next(times) || !grant.nodes().hand_over(grant) {
            return Some(turn);
        }
        turn.hand_over(Handed::Nodes(Arc::clone(grant.nodes())));
        None
    }

    fn inner(&self) -> &Arc<Inner> {
        self.site.inner()
    }
}

impl RawLock for TwoLevel {
    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, wait: Wait) -> Result<Option<Arc<Grant>>> {
        let is_of_a_thread = self.site.facts.kind.is_of_a_thread();
        if let Some(grant) = is_of_a_thread.then(|| self.grant()).flatten() {
            wait.check(self.path())?;
            grant.check()?;
            self.level.local.deepen(self.number);
            return Ok(Some(grant));
        }
        self.site.observe(&wait, |until, report| self.enter(until, report))
    }

    fn release_once(&self, only: Option<&Arc<Grant>>) -> Result<()> {
        let is_it = |grant: &Arc<Grant>| only.is_none_or(|only| Arc::ptr_eq(only, grant));
        match self.level.local.exit(self.number, is_it) {
            Ok(exit) => self.leave(exit),
            Err(Refused::NotHeld) => Err(self.site.refusal()),
            Err(Refused::NotOwner(owner)) => {
                Err(Error::NotOwner { path: self.path().to_owned(), owner })
            }
        }
    }

    fn grant(&self) -> Option<Arc<Grant>> {
        self.level.local.hold(self.number)
    }

    fn depth(&self) -> u32 {
        self.level.local.depth(self.number)
    }
}

impl fmt::Debug for TwoLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, is_held) = (self.path(), self.level.local.is_held_by(self.number));
        f.debug_struct("TwoLevel").field("path", &path).field("is_held", &is_held).finish()
    }
}

impl Drop for TwoLevel {
    fn drop(&mut self) {
        let Some(exit) = self.level.local.end(self.number) else {
            return;
        };
        log_last_handle(&format!("lock {}", self.path()));
        log_drop("lock", self.leave(exit));
    }
}
