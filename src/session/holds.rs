//! Holds, from the grant to the end: the losses that clocks and servers cause, and the watches of
//! the nodes.
//!
//! The assumptions of this module, the reason for each, and who could break it:
//! - *The nodes of a hold exist*: their session is alive while the lease runs, and other clients do
//!   not delete them. A client with permission to delete them can break this. A watch, which is set
//!   a quarter of the session timeout after the grant, reports it.
//! - *Events report the changes of watched nodes*. A client that first revokes this client's READ
//!   permission can break this, because servers send events of a node only to clients that may read
//!   it at that time. Therefore, held nodes are [checked again](Requests::next_look) every few
//!   session timeouts.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use log::{Level, debug, error};
use zookeeper::{ErrorKind, EventType, Stat, WatchedEvent, Watcher};

use super::facts::{Facts, Node};
use super::later::{Timer, on_done};
use super::levels::Levels;
use super::nodes::{Grant, Nodes, Term, after};
use super::own::OwnNodes;
use super::registry::Registry;
use super::requests::{Failure, Requests};
use crate::base::data;
use crate::base::error::{LossReason, Result};
use crate::base::sys;
use crate::base::wait::Until;

/// The holds of one client.
pub(crate) struct Holds {
    pub(super) requests: Arc<Requests>,
    pub(crate) registry: Registry,
    pub(super) own: Arc<OwnNodes>,
    pub(super) lost: AtomicU64,
    levels: Arc<Levels>,
    timer: Timer,
}

impl Holds {
    pub(super) fn new(own: Arc<OwnNodes>, levels: Arc<Levels>) -> Arc<Holds> {
        Arc::new(Holds {
            requests: Arc::clone(&own.requests),
            registry: Registry::default(),
            own,
            lost: AtomicU64::new(0),
            levels,
            timer: Timer::default(),
        })
    }

    /// Makes a hold of this client's nodes, which were found to be first in their queue. Returns
    /// `None` if the lease is too short to hold the nodes. Also returns `None` if the lease runs
    /// out meanwhile; in that case, this function takes and deletes the nodes.
    ///
    /// A lease shorter than 9/20 of the session timeout is renewed first, with one request, if that
    /// can extend it. If the connection falls silent right after the grant, this is detected a
    /// quarter of the session timeout later, and a fifth is left to connect again. If the lease is
    /// shorter than a fifth, or cannot last until a round trip after its next renewal, the nodes
    /// are not granted. If the process or the server was paused, the servers may not have received
    /// a request from the client for nearly a session timeout, and its next request is certified
    /// only a quarter later. The [margin](crate::LockOptions::margin) is added to all limits.
    pub(crate) fn grant(
        self: &Arc<Self>,
        facts: &Arc<Facts>,
        identity: &Arc<str>,
        own: &mut Vec<Node>,
        session: i64,
        until: &Until,
    ) -> Result<Option<Arc<Grant>>, Failure> {
        let (timeout, margin) = (self.requests.timeout(), facts.options.margin);
        let zk = self.requests.zk.in_session(session);
        let mut lease = zk.lease();
        if lease.valid_for < timeout / 20 * 9 + margin && lease.renewable <= sys::now() {
            self.requests.ask_one(Some(session), until, |batch| batch.renew_lease())?;
            lease = zk.lease();
        }
        let renewed_in = lease.renewable.saturating_duration_since(sys::now());
        if lease.valid_for < (timeout / 5).max(renewed_in + timeout / 8) + margin {
            if lease.session_id == session {
                self.requests.pause(lease.renewable, until)?;
            }
            return Ok(None);
        }
        // This is done before the caller can rely on the margin.
        self.requests.registrar.iter().for_each(|registrar| registrar.allow(margin));
        let term = Term::new(&self.requests, lease, margin);
        let grant = Nodes::grant(facts, identity, mem::take(own), term);
        let nodes = grant.nodes();
        // If the client is closed, the nodes must be marked as lost, because they and their grant
        // would otherwise keep each other alive.
        let added = self.registry.add(nodes, || self.requests.zk.keep_lease());
        added.inspect_err(|_| drop(nodes.lose(LossReason::ClientClosed)))?;
        // From here on, the end of the lease ends the hold. The lease may have ended earlier.
        if nodes.term.left().is_zero() {
            sys::reached("a lease runs out while a hold is granted");
            self.lose(nodes, LossReason::LeaseExpired);
            return Ok(None);
        }
        self.attend_at(nodes.granted + timeout / 4);
        self.set_alarms(&grant);
        let (node, lock) = (&nodes.list[0].name, &facts.lock);
        debug!(target: "zoolock::queue", lock:%, node:%; "{node} holds {lock}");
        Ok(Some(grant))
    }

    // ---- time

    /// Schedules [`attend`](Holds::attend) at this instant or earlier.
    pub(super) fn attend_at(self: &Arc<Self>, when: Instant) {
        self.timer.set(when, &self.requests, self, Holds::attend);
    }

    /// Sets the alarms that end this hold when its maximum time is over, or when its margin begins.
    pub(crate) fn set_alarms(self: &Arc<Self>, grant: &Grant) {
        grant.ends_at().into_iter().for_each(|end| self.attend_at(end));
    }

    /// Lets a hold end `time` from now. Returns an error if it has already ended.
    pub(crate) fn expire_in(self: &Arc<Self>, grant: &Grant, time: Duration) -> Result<()> {
        if !grant.expire_at(after(sys::now(), time)) {
            grant.check()?;
        }
        self.set_alarms(grant);
        Ok(())
    }

    /// Does the work that is due. Checks nodes that have been held for a while, and ends nodes that
    /// were held or reserved for long enough.
    fn attend(self: &Arc<Self>, due: Instant) {
        if !self.timer.fires(due) {
            return;
        }
        let (now, timeout) = (sys::now(), self.requests.timeout());
        let mut next: Option<Instant> = None;
        for nodes in self.registry.all() {
            match nodes.ends_at().map(|end| (nodes.overdue(), end)) {
                Some((Some(reason), _)) => self.lose(&nodes, reason),
                // `end` may already have passed, because the clock has advanced since.
                Some((None, end)) => self.attend_at(end),
                None => {}
            }
            match nodes.look_due(timeout) {
                Some(due) if due <= now => self.look_at(&nodes),
                due => next = next.into_iter().chain(due).min(),
            }
            match nodes.reserved_until() {
                Some(until) if until <= now => self.end_unwanted(&nodes),
                until => next = next.into_iter().chain(until).min(),
            }
        }
        let is_used = self.registry.keep_lease_if_used();
        let later = now + timeout / 4;
        if is_used || next.is_some() {
            self.attend_at(next.unwrap_or(later).clamp(now + timeout / 100, later));
        }
    }

    // ---- losses

    /// Ends all holds whose lease has run out, as lost.
    pub(super) fn lose_expired(&self) {
        let all = self.registry.all();
        let over = all.iter().filter(|nodes| nodes.term.left().is_zero());
        over.for_each(|nodes| self.lose(nodes, LossReason::LeaseExpired));
    }

    /// Ends all holds, and refuses new ones from now on.
    pub(super) fn close(&self) {
        let reason = LossReason::ClientClosed;
        for nodes in self.registry.close() {
            let grants = nodes.lose(reason).unwrap_or_default();
            self.tell_losses(&nodes, &grants, reason);
        }
    }

    /// Ends the nodes, and their holds as lost.
    ///
    /// The nodes are deleted, because their session, and the nodes with it, may continue to exist.
    /// If the clocks have ended a hold with a margin, its nodes stay for the time of the margin.
    pub(super) fn lose(&self, nodes: &Nodes, reason: LossReason) {
        let Some(grants) = nodes.lose(reason) else {
            return;
        };
        self.registry.remove(nodes);
        self.levels.lost(nodes, &grants);
        self.tell_losses(nodes, &grants, reason);
        let by_clock = matches!(reason, LossReason::LeaseExpired | LossReason::HeldTooLong);
        let margin = nodes.facts.options.margin;
        if by_clock && !margin.is_zero() && !grants.is_empty() {
            self.own.delete_all_after(margin, nodes);
        } else {
            self.own.delete_all(nodes);
        }
    }

    /// Ends the hold because one of its nodes no longer exists although this client has not deleted
    /// it. If the lease is over, the node ended with its session.
    pub(crate) fn node_gone(&self, nodes: &Nodes) {
        let is_deleted = !nodes.term.left().is_zero();
        let reason = if is_deleted { LossReason::NodeDeleted } else { LossReason::LeaseExpired };
        self.lose(nodes, reason);
    }

    /// Reports the losses to the observer on another thread, because this thread may deliver
    /// answers and must not wait.
    fn tell_losses(&self, nodes: &Nodes, grants: &[Arc<Grant>], reason: LossReason) {
        self.count_losses(nodes, grants.len(), reason);
        for tell in grants.iter().filter_map(|grant| grant.take_report()) {
            self.requests.zk.call_aside(tell);
        }
    }

    pub(super) fn count_losses(&self, nodes: &Nodes, grants: usize, reason: LossReason) {
        if grants > 0
            && !nodes.facts.is_turn()
            && !nodes.is_loss_counted.swap(true, Ordering::Relaxed)
        {
            self.lost.fetch_add(grants as u64, Ordering::Relaxed);
            let path = nodes.facts.lock.clone();
            self.requests.zk.note(Level::Error, move || {
                error!(target: "zoolock", lock:% = path, reason:%; "lock {path} was lost: {reason}");
            });
        }
    }

    // ---- nodes without a hold

    /// Ends and deletes nodes that are not held. Does nothing if a thread holds them.
    pub(crate) fn end_unwanted(&self, nodes: &Nodes) {
        if nodes.end_unwanted() {
            self.registry.remove(nodes);
            self.own.delete_all(nodes);
        }
    }

    // ---- watches of held nodes, which report revocation requests and deletions

    /// Watches the nodes from now on and reads them, unless they are already watched.
    pub(crate) fn watch(self: &Arc<Self>, nodes: &Arc<Nodes>) {
        if !nodes.is_watched() {
            self.look_at(nodes);
        }
    }

    fn watcher_of(self: &Arc<Self>, nodes: &Arc<Nodes>) -> Watcher {
        let (watched, me) = (Arc::downgrade(nodes), Arc::downgrade(self));
        Watcher::new(move |event: &WatchedEvent| {
            let (Some(holds), Some(nodes)) = (me.upgrade(), watched.upgrade()) else {
                return;
            };
            match event.event_type {
                EventType::NodeDeleted => holds.node_gone(&nodes),
                EventType::WatchEnded => {}
                _ => holds.look_at(&nodes),
            }
        })
    }

    /// Reads the data of nodes that are held, and sets the watches, regardless of the events that
    /// were received.
    fn look_at(self: &Arc<Self>, nodes: &Arc<Nodes>) {
        let again = self.requests.next_look();
        let Some(watcher) = nodes.start_look(again, || self.watcher_of(nodes)) else {
            return;
        };
        let zk = self.requests.zk.in_session(nodes.term.session_id());
        let reads = zk.submit(|batch| {
            let read = |node| batch.get_data(&nodes.facts.path_of(node), Some(&watcher));
            nodes.list.iter().map(read).collect::<Vec<_>>()
        });
        for (index, read) in reads.into_iter().enumerate() {
            let nodes = Arc::clone(nodes);
            on_done(read, self, move |holds, read| holds.on_read(&nodes, index, read));
        }
    }

    fn on_read(
        self: &Arc<Self>,
        nodes: &Arc<Nodes>,
        index: usize,
        read: zookeeper::Result<(Vec<u8>, Stat)>,
    ) {
        let node = &nodes.list[index];
        match read {
            // This is another owner's node, at the path of our single node.
            Ok((_, stat)) if stat.czxid != node.czxid => self.node_gone(nodes),
            // A holder of a single node cannot be asked to release it, because the answer could be
            // written to the node of the next owner.
            Ok(_) if nodes.facts.kind.is_single_node() => {}
            Ok((data, stat)) if data::is_request(&data) => {
                nodes.mark_requested(index, stat.mzxid);
                self.answer_request(nodes, index, stat.version);
                // If no thread holds the nodes, they are deleted at once, unless they must stay
                // longer.
                self.end_unwanted(nodes);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NoNode => self.node_gone(nodes),
            Err(error) => {
                nodes.stop_watching();
                // The check is repeated at once only after this error, because other errors may
                // persist. If connections break often, a delayed check may never get an answer.
                if error.kind() == ErrorKind::ConnectionLoss {
                    self.attend_at(sys::now());
                }
            }
        }
    }

    /// Writes the owner's identity into the node's data again, and notes that a release was
    /// requested.
    fn answer_request(&self, nodes: &Nodes, index: usize, version: i32) {
        let zk = self.requests.zk.in_session(nodes.term.session_id());
        let (path, data) = (nodes.facts.path_of(&nodes.list[index]), data::answer(&nodes.identity));
        // The data are only information for operators; therefore, the result is ignored.
        drop(zk.submit(|batch| batch.set_data(&path, &data, Some(version))));
    }
}
