//! Holds from the grant to the end: the losses that clocks and servers bring, and the watches of
//! their nodes.
//!
//! The assumptions of this module, what each rests on, and who could break it:
//! - *The nodes of a hold exist*: their session lives while the lease runs, and no other client
//!   deletes them. A client with permission to delete them can break this. A watch, set a quarter
//!   of the session timeout after the grant, reports it.
//! - *Events report what is watched*. A client that first takes READ from this one can break this,
//!   because servers send events of a node only to clients that may read it by then. So held nodes
//!   are [looked at again](Requests::next_look) after some session timeouts.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use log::{Level, debug, error};
use zookeeper::{ErrorKind, EventType, Stat, WatchedEvent, Watcher};

use super::facts::{Facts, Node};
use super::later::{Timer, on_done};
use super::levels::Levels;
use super::nodes::{End, Grant, Nodes, Term, after};
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

    /// Takes own nodes, which were seen to be first in their queue, and makes a hold of them. Returns
    /// `None` if no lease is long enough to hold the nodes in, or if it ran out meanwhile: then the
    /// nodes are taken and deleted.
    ///
    /// A lease shorter than 9/20 of the session timeout is renewed first, with one request, if that
    /// is of use. If the connection falls silent right after the grant, that is noticed a quarter
    /// of the session timeout later, and a fifth is left to connect again. With less than that,
    /// nothing is granted. If the process stood still, the servers may not have heard from it for
    /// nearly a session timeout, and its next sign of life is certified only a quarter later. The
    /// [margin](crate::LockOptions::margin) comes on top of both.
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
            sys::reached("a lease is renewed before a grant");
            self.requests.ask_one(Some(session), until, |batch| batch.renew_lease())?;
            lease = zk.lease();
        }
        if lease.valid_for < timeout / 5 + margin {
            sys::reached("too little of a lease is left to grant in");
            if lease.session_id == session {
                self.requests.pause(lease.renewable, until)?;
            }
            return Ok(None);
        }
        // Before anybody can rely on it.
        self.requests.registrar.iter().for_each(|registrar| registrar.allow(margin));
        let term = Term::new(&self.requests, lease, margin);
        let grant = self.registry.add(
            || self.requests.zk.keep_lease(),
            |number| Nodes::new(number, facts, identity, mem::take(own), term),
        )?;
        let nodes = grant.nodes();
        // From here on, the end of the lease ends the hold. The lease may have ended before.
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

    /// Has [`attend`](Holds::attend) called at this instant or before.
    pub(super) fn attend_at(self: &Arc<Self>, when: Instant) {
        self.timer.set(when, &self.requests.zk, self, Holds::attend);
    }

    /// Sets the alarms that end this hold when it has lasted for as long as it may, or its margin
    /// begins.
    pub(crate) fn set_alarms(self: &Arc<Self>, grant: &Grant) {
        grant.ends_at().into_iter().for_each(|end| self.attend_at(end));
    }

    /// Lets a hold end `time` from now. Returns an error if it is over.
    pub(crate) fn expire_in(self: &Arc<Self>, grant: &Grant, time: Duration) -> Result<()> {
        if !grant.expire_at(after(sys::now(), time)) {
            grant.check()?;
        }
        self.set_alarms(grant);
        Ok(())
    }

    /// Does what is due: looks at nodes that have been held for a while, and ends those that were
    /// held or reserved for long enough.
    fn attend(self: &Arc<Self>, due: Instant) {
        if !self.timer.fires(due) {
            return;
        }
        let (now, timeout) = (sys::now(), self.requests.timeout());
        let mut next: Option<Instant> = None;
        for nodes in self.registry.all() {
            match nodes.ends_at() {
                Some(end) if end > now => self.attend_at(end),
                Some(_) if nodes.term.left().is_zero() => {
                    sys::reached("a margin ends a hold");
                    self.lose(&nodes, LossReason::LeaseExpired);
                }
                Some(_) => {
                    if let Some(grants) = nodes.end_overdue() {
                        sys::reached("a hold lasts for longer than it may");
                        self.after_loss(&nodes, &grants, LossReason::HeldTooLong);
                    }
                }
                None => {}
            }
            match nodes.look_due(timeout) {
                Some(due) if due <= now => self.look_at(&nodes),
                due => next = next.into_iter().chain(due).min(),
            }
            match nodes.reserved_until() {
                Some(until) if until <= now => {
                    sys::reached("the time of what is reserved is over");
                    self.end_unwanted(&nodes);
                }
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

    /// Loses all holds whose lease has run out.
    pub(super) fn lose_expired(&self) {
        let all = self.registry.all();
        let over = all.iter().filter(|nodes| nodes.term.left().is_zero());
        let over = over.inspect(|_| sys::reached("the end of a lease ends a hold"));
        over.for_each(|nodes| self.lose(nodes, LossReason::LeaseExpired));
    }

    /// Ends all holds, and grants none any more.
    pub(super) fn close(&self) {
        let reason = LossReason::ClientClosed;
        for nodes in self.registry.close() {
            let grants = nodes.end(End::Lost(reason)).unwrap_or_default();
            sys::reached_if(!grants.is_empty(), "the close ends a hold");
            self.tell_losses(&nodes, &grants, reason);
        }
    }

    /// Ends the nodes and their holds, which are lost.
    fn lose(&self, nodes: &Nodes, reason: LossReason) {
        if let Some(grants) = nodes.end(End::Lost(reason)) {
            self.after_loss(nodes, &grants, reason);
        }
    }

    /// Notes that one of the nodes was deleted, and not by this client. If the lease is over, it
    /// ended with its session.
    pub(crate) fn node_gone(&self, nodes: &Nodes) {
        let is_deleted = !nodes.term.left().is_zero();
        let reason = match sys::reached_if(is_deleted, "a node that is held is deleted") {
            true => LossReason::NodeDeleted,
            false => LossReason::LeaseExpired,
        };
        self.lose(nodes, reason);
    }

    /// Deletes nodes of lost holds. Their session may live on, and the nodes with it. Where the clocks
    /// have ended a hold with a margin, its nodes stay for that long.
    pub(super) fn after_loss(&self, nodes: &Nodes, grants: &[Arc<Grant>], reason: LossReason) {
        self.registry.remove(nodes);
        self.levels.lost(nodes, grants);
        self.tell_losses(nodes, grants, reason);
        let by_clock = matches!(reason, LossReason::LeaseExpired | LossReason::HeldTooLong);
        match grants.first() {
            Some(grant) if by_clock && !nodes.facts.options.margin.is_zero() => {
                sys::reached("the nodes of a lost hold stay for its margin");
                self.own.delete_all_after(nodes.facts.options.margin, grant.nodes());
            }
            _ => self.own.delete_all(nodes),
        }
    }

    /// Reports to the observer on another thread, because this one may deliver answers and must not
    /// wait.
    fn tell_losses(&self, nodes: &Nodes, grants: &[Arc<Grant>], reason: LossReason) {
        self.count_losses(nodes, grants.len(), reason);
        for tell in grants.iter().filter_map(|grant| grant.take_report(End::Lost(reason))) {
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

    /// Ends and deletes nodes that nobody holds. Does nothing if somebody does.
    pub(crate) fn end_unwanted(&self, nodes: &Nodes) {
        if nodes.end_unwanted() {
            self.registry.remove(nodes);
            self.own.delete_all(nodes);
        }
    }

    // ---- watches of held nodes: their data tell of revocation requests and deletions

    /// Looks at nodes that are held, whatever events were received.
    pub(super) fn look_at(self: &Arc<Self>, nodes: &Arc<Nodes>) {
        match self.read_all(nodes) {
            true => sys::reached("what is held is looked at though nothing was told"),
            false => self.watch(nodes),
        }
    }

    /// Watches the nodes from now on, if they are not watched yet, and reads them.
    pub(crate) fn watch(self: &Arc<Self>, nodes: &Arc<Nodes>) {
        let (watched, me) = (Arc::downgrade(nodes), Arc::downgrade(self));
        let watcher = Watcher::new(move |event: &WatchedEvent| {
            let (Some(holds), Some(nodes)) = (me.upgrade(), watched.upgrade()) else {
                return;
            };
            match event.event_type {
                EventType::NodeDeleted => holds.node_gone(&nodes),
                EventType::WatchEnded => {}
                _ => drop(holds.read_all(&nodes)),
            }
        });
        if nodes.watch(&watcher) {
            self.read_all(nodes);
        }
    }

    /// Reads the nodes' data, and sets the watches. Returns false if the nodes have no watcher.
    fn read_all(self: &Arc<Self>, nodes: &Arc<Nodes>) -> bool {
        let Some(watcher) = nodes.start_look(self.requests.next_look()) else {
            return false;
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
        true
    }

    fn on_read(
        self: &Arc<Self>,
        nodes: &Arc<Nodes>,
        index: usize,
        read: zookeeper::Result<(Vec<u8>, Stat)>,
    ) {
        let node = &nodes.list[index];
        match read {
            // The node of another owner, at the path of a single node.
            Ok((_, stat)) if stat.czxid != node.czxid => {
                sys::reached("a single node that is held is another one by now");
                self.node_gone(nodes);
            }
            // Nobody asks for a single node: the answer could be written to that of the next owner.
            Ok(_) if nodes.facts.kind.is_single_node() => {}
            Ok((data, stat)) if data::is_request(&data) => {
                sys::reached("a holder is asked to let go");
                nodes.mark_requested(index, stat.mzxid);
                self.answer_request(nodes, index, stat.version);
                // If no thread holds the nodes, there is no holder to ask.
                self.end_unwanted(nodes);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NoNode => self.node_gone(nodes),
            Err(error) => {
                sys::reached("a look at what is held has no answer");
                nodes.stop_watching();
                // Connections that break soon would let no later look through. Other errors may last.
                if error.kind() == ErrorKind::ConnectionLoss {
                    self.attend_at(sys::now());
                }
            }
        }
    }

    /// Writes the owner's identity into the node's data again, with the fact that the lock was
    /// requested.
    fn answer_request(&self, nodes: &Nodes, index: usize, version: i32) {
        let zk = self.requests.zk.in_session(nodes.term.session_id());
        let (path, data) = (nodes.facts.path_of(&nodes.list[index]), data::answer(&nodes.identity));
        // The data are for people, who can do without.
        drop(zk.submit(|batch| batch.set_data(&path, &data, Some(version))));
    }
}
