//! Granted nodes: the decisions that their mutex protects, without any requests. If the nodes are
//! handed over to another thread, that thread gets another [`Grant`] of the same nodes. When the
//! nodes end, all their grants end.

mod grant;

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use zookeeper::{Lease, Watcher};

use super::facts::{Facts, Node};
use super::requests::Requests;
use crate::base::error::{Error, LossReason, Result};
use crate::base::sys::thread;
use crate::base::sys::{self, Mutex};
pub(crate) use grant::Grant;
pub use grant::HoldState;

/// A time that is longer than any interval between checks.
const FAR: Duration = Duration::from_secs(u32::MAX as u64);

/// Nodes that were granted together and end together: a single one, or several permits of a
/// semaphore.
pub(crate) struct Nodes {
    pub(super) facts: Arc<Facts>,
    /// The identity in the data of the nodes.
    pub(super) identity: Arc<str>,
    /// Never empty.
    pub(super) list: Vec<Node>,
    pub(super) term: Term,
    pub(super) granted: Instant,
    state: Mutex<State>,
    /// Their loss is counted only once, even if several answers report it.
    pub(super) is_loss_counted: AtomicBool,
}

/// The term of the lease at the grant. All holds of the nodes end with it.
#[derive(Debug)]
pub(super) struct Term {
    requests: Weak<Requests>,
    lease: Lease,
    pub(super) margin: Duration,
    /// The process in which the nodes were granted.
    pub(super) process: u32,
    /// The term was found to be over. This is stored because a heartbeat may still renew a lease
    /// that is within its margin.
    is_over: AtomicBool,
}

struct State {
    phase: Phase,
    /// The holds of the nodes. A read may share the node of its thread's write.
    grants: Vec<Arc<Grant>>,
    /// A read was acquired under the write, at its queue position, and may outlive it.
    read_under: bool,
    /// The number of guarded writes whose outcome is unknown.
    writes: usize,
    /// The transactions of the last revocation requests, by the index of the node.
    requested: HashMap<usize, i64>,
    /// The watcher of the nodes' own data.
    watcher: Option<Watcher>,
    /// When the nodes are checked again even without an event.
    look_again: Option<Instant>,
}

enum Phase {
    /// The nodes are held by the grants.
    Held,
    /// The nodes are not held. A thread handed them over to the next thread.
    HandedOver,
    /// The nodes are not held, and cannot be acquired before this instant.
    Reserved(Instant),
    /// The nodes were released or lost. They are deleted, or are going to be deleted.
    Over,
}

/// The consequence of a release by the owner of a hold.
pub(super) enum AfterRelease {
    /// The hold was already lost, which may not have been detected before.
    Lost(LossReason),
    /// Other holds share the nodes, or this hold was already released. There is nothing to do.
    Shared,
    /// This was the last hold. The nodes have to be deleted.
    Last,
    /// This was the last hold, but the nodes have to stay until this instant.
    Reserved(Instant),
}

/// Returns `begin + time`, or an instant in the far future if the time is too large for the clock.
pub(super) fn after(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or_else(|| begin + FAR)
}

impl Term {
    pub(super) fn new(requests: &Arc<Requests>, lease: Lease, margin: Duration) -> Term {
        let (requests, process) = (Arc::downgrade(requests), sys::process_id());
        Term { requests, lease, margin, process, is_over: AtomicBool::default() }
    }

    /// Returns the session of the nodes, to which all requests about them belong.
    pub(super) fn session_id(&self) -> i64 {
        self.lease.session_id
    }

    /// Returns the time until the holds are lost: the lease minus the margin. Once it is zero, it
    /// stays zero.
    pub(super) fn left(&self) -> Duration {
        let requests = self.requests.upgrade();
        let lease = requests.map_or(Duration::ZERO, |requests| requests.zk.left_of(&self.lease));
        let left = lease.saturating_sub(self.margin);
        if left.is_zero() {
            self.is_over.store(true, Ordering::SeqCst);
        }
        if self.is_over.load(Ordering::SeqCst) { Duration::ZERO } else { left }
    }

    /// Returns whether this is the copy in a forked child, which is not kept up to date. In such a
    /// copy, a mutex may stay locked forever.
    pub(super) fn is_copy(&self) -> bool {
        self.process != sys::process_id()
    }

    /// Returns whether the connection is alive and enough of the lease is left for another hold.
    fn is_sound(&self) -> bool {
        self.requests
            .upgrade()
            .is_some_and(|requests| requests.is_connected() && self.left() >= requests.patience())
    }

    fn is_connected(&self) -> bool {
        self.requests.upgrade().is_some_and(|requests| requests.is_connected())
    }

    /// Returns whether the lease belongs to the client that sends these requests.
    pub(super) fn is_of(&self, requests: &Arc<Requests>) -> bool {
        std::ptr::eq(self.requests.as_ptr(), Arc::as_ptr(requests))
    }
}

impl Nodes {
    /// Returns a hold of the calling thread.
    pub(super) fn grant(
        facts: &Arc<Facts>,
        identity: &Arc<str>,
        list: Vec<Node>,
        term: Term,
    ) -> Arc<Grant> {
        let at_most = facts.options.hold_at_most;
        let nodes = Arc::new(Nodes {
            facts: Arc::clone(facts),
            identity: Arc::clone(identity),
            list,
            term,
            granted: sys::now(),
            state: Mutex::new(State {
                // This phase lasts until the grant is added below.
                phase: Phase::HandedOver,
                grants: Vec::new(),
                read_under: false,
                writes: 0,
                requested: HashMap::new(),
                watcher: None,
                look_again: None,
            }),
            is_loss_counted: AtomicBool::new(false),
        });
        nodes.add_grant(&mut nodes.state.lock(), at_most)
    }

    /// Adds a hold of the calling thread.
    fn add_grant(self: &Arc<Self>, state: &mut State, at_most: Option<Duration>) -> Arc<Grant> {
        let grant = Grant::new(self, at_most);
        state.phase = Phase::Held;
        state.grants.push(Arc::clone(&grant));
        grant
    }

    /// Ends the nodes and all their grants as lost. Returns the grants that held them, or `None` if
    /// the nodes were already over.
    pub(super) fn lose(&self, reason: LossReason) -> Option<Vec<Arc<Grant>>> {
        let mut state = self.state.lock();
        let was_over = state.is_over();
        let grants = mem::take(&mut state.grants);
        let watcher = state.end();
        // All grants end while the mutex is locked, so that a concurrent unlock reports the same
        // reason.
        grants.iter().for_each(|grant| grant.set_end(HoldState::Lost(reason)));
        drop(state);
        drop(watcher);
        grants.iter().for_each(|grant| grant.raise());
        (!was_over).then_some(grants)
    }

    /// Ends the nodes if they are not held and do not have to stay. Returns whether it ended them.
    pub(super) fn end_unwanted(&self) -> bool {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Held | Phase::Over => return false,
            Phase::Reserved(until) if until > sys::now() => return false,
            Phase::Reserved(_) | Phase::HandedOver => {}
        }
        let watcher = state.end();
        drop(state);
        drop(watcher);
        true
    }

    /// Returns the earliest instant at which a grant of the nodes [ends](Grant::ends_at) according
    /// to the clocks.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.state.lock().grants.iter().filter_map(|grant| grant.ends_at()).min()
    }

    /// Returns the reason for the loss if a grant of the nodes has ended according to the clocks.
    pub(super) fn overdue(&self) -> Option<LossReason> {
        let state = self.state.lock();
        let mut left = state.grants.iter().map(|grant| grant.left());
        left.find(|(left, _)| left.is_zero()).map(|(_, reason)| reason)
    }

    /// Releases a hold. If the hold has already ended according to the clocks, it is lost, even if
    /// that was not detected before.
    pub(super) fn release(&self, grant: &Arc<Grant>) -> AfterRelease {
        let (left, reason) = grant.left();
        let mut state = self.state.lock();
        match grant.known_end() {
            Some(HoldState::Lost(reason)) => return AfterRelease::Lost(reason),
            Some(_) => return AfterRelease::Shared,
            None if left.is_zero() => return AfterRelease::Lost(reason),
            None => {}
        }
        state.grants.retain(|other| !Arc::ptr_eq(other, grant));
        let (released, watcher) = match grant.reserved_until() {
            _ if !state.grants.is_empty() => (AfterRelease::Shared, None),
            Some(until) => {
                state.phase = Phase::Reserved(until);
                (AfterRelease::Reserved(until), None)
            }
            None => (AfterRelease::Last, state.end()),
        };
        grant.set_end(HoldState::Released);
        drop(state);
        drop(watcher);
        grant.raise();
        released
    }

    // ---- hand-offs to the next thread

    /// Ends this hold, so that another thread can [take the nodes over](Nodes::take_over). Returns
    /// false, and changes nothing, if the nodes have to be deleted or have to stay. Possible
    /// reasons: the lease ends in less than a third of the session timeout; a client has requested
    /// the lock; a read has the same queue position; a write guarded by this hold is not answered
    /// yet; or the hold has to last longer.
    pub(crate) fn hand_over(&self, grant: &Arc<Grant>) -> bool {
        let mut state = self.state.lock();
        let is_alone = matches!(state.phase, Phase::Held) && state.grants.len() == 1;
        let (is_over, is_asked) = (grant.left().0.is_zero(), !state.requested.is_empty());
        let may_end = is_alone && !is_over && !is_asked && grant.reserved_until().is_none();
        let is_writing =
            sys::reached_if(state.writes > 0, "a guarded write prevents the hand-over of a hold");
        if !may_end || !self.term.is_sound() || state.read_under || is_writing {
            return false;
        }
        state.phase = Phase::HandedOver;
        state.grants.clear();
        grant.set_end(HoldState::Released);
        drop(state);
        grant.raise();
        true
    }

    /// Returns a hold of nodes that another thread handed over. Returns `None` if the lock object
    /// cannot use them, if they are over, if the lease is now too short, or if another thread has
    /// them.
    pub(crate) fn take_over(self: &Arc<Self>, facts: &Facts) -> Option<Arc<Grant>> {
        if !self.facts.can_share_nodes(facts) {
            return None;
        }
        // Since the nodes were handed over, the process may have been paused, or its connection may
        // have broken.
        let is_sound = self.term.is_sound();
        let mut state = self.state.lock();
        let is_free = is_sound && matches!(state.phase, Phase::HandedOver);
        sys::reached_if(!is_free, "handed-over nodes have already ended");
        is_free.then(|| self.add_grant(&mut state, facts.options.hold_at_most))
    }

    /// Returns the instant until which the nodes are reserved, if they are.
    pub(super) fn reserved_until(&self) -> Option<Instant> {
        match self.state.lock().phase {
            Phase::Reserved(until) => Some(until),
            Phase::Held | Phase::HandedOver | Phase::Over => None,
        }
    }

    /// Returns the only node, if its directory has to be deleted together with it. Returns `None`
    /// if a read has the same queue position, because that read still needs the directory.
    pub(super) fn with_directory(&self) -> Option<&Node> {
        let [node @ Node { takes_directory: true, .. }] = &self.list[..] else {
            return None;
        };
        (!self.state.lock().read_under).then_some(node)
    }

    /// Notes that a read has, or may have, the same queue position.
    pub(crate) fn mark_read_under(&self) {
        self.state.lock().read_under = true;
    }

    /// Returns another hold of the nodes for the owner of `grant`, or `None` if the nodes are over.
    pub(crate) fn share(self: &Arc<Self>, grant: &Grant) -> Option<Arc<Grant>> {
        let mut state = self.state.lock();
        (!state.is_over()).then(|| self.add_grant(&mut state, grant.at_most))
    }

    // ---- guarded writes

    /// Counts a guarded write of this hold that is about to be sent. Returns an error if the hold is
    /// over.
    pub(super) fn start_write(&self, grant: &Arc<Grant>) -> Result<()> {
        grant.check()?;
        let mut state = self.state.lock();
        if state.grants.iter().any(|other| Arc::ptr_eq(other, grant)) {
            state.writes += 1;
            return Ok(());
        }
        drop(state);
        sys::reached("a guarded write begins after the end of its hold");
        grant.check().and(Err(Error::not_held(grant.path())))
    }

    /// Notes that the outcome of one guarded write is now known.
    pub(super) fn end_write(&self) {
        self.state.lock().writes -= 1;
    }

    // ---- watches

    /// Returns when to check the nodes. The first check is a quarter of the session timeout after
    /// they were granted, so that short holds do not cost requests.
    pub(super) fn look_due(&self, timeout: Duration) -> Option<Instant> {
        let state = self.state.lock();
        let due = || state.look_again.unwrap_or(self.granted + timeout / 4);
        (!state.is_over()).then(due)
    }

    /// Returns whether the nodes have a watcher.
    pub(super) fn is_watched(&self) -> bool {
        self.state.lock().watcher.is_some()
    }

    /// Returns the watcher of the nodes, for a read, and notes when to read them again. Returns
    /// `None` if the nodes are over. If they do not have a watcher yet, `new` creates it.
    pub(super) fn start_look(
        &self,
        again: Instant,
        new: impl FnOnce() -> Watcher,
    ) -> Option<Watcher> {
        let mut state = self.state.lock();
        if state.is_over() {
            return None;
        }
        state.look_again = Some(again);
        Some(state.watcher.get_or_insert_with(new).clone())
    }

    /// Drops the watcher of the nodes, because the read that should have set the watch failed.
    pub(super) fn stop_watching(&self) {
        let mut state = self.state.lock();
        state.look_again = None;
        let watcher = state.watcher.take();
        drop(state);
        drop(watcher);
    }

    /// Notes that the transaction `mzxid` asked the holder of the node with this index to release
    /// the lock, and notifies the holders.
    pub(super) fn mark_requested(&self, index: usize, mzxid: i64) {
        let mut state = self.state.lock();
        // If the same transaction is found again, it is the same request.
        if state.requested.insert(index, mzxid) != Some(mzxid) {
            let grants = state.grants.clone();
            drop(state);
            grants.iter().for_each(|grant| grant.tell_request(index));
        }
    }

    /// Returns whether the holder of the node with this index was asked to release the lock.
    pub(crate) fn is_requested(&self, index: usize) -> bool {
        self.state.lock().requested.contains_key(&index)
    }

    /// Returns whether the calling thread has a hold of the nodes. A hold that has ended according
    /// to the clocks does not count.
    pub(super) fn is_held_here(&self) -> bool {
        let me = thread::current().id();
        let is_its = |grant: &Arc<Grant>| grant.thread == me && !grant.valid_for().is_zero();
        self.state.lock().grants.iter().any(is_its)
    }
}

impl State {
    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Ends the nodes. Returns their watcher, to be dropped while no mutex is locked.
    fn end(&mut self) -> Option<Watcher> {
        self.phase = Phase::Over;
        self.watcher.take()
    }
}
