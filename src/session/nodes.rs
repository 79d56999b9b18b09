//! Granted nodes: what their mutex decides, without any request. A hand-over to another thread is
//! another [`Grant`] of the same nodes. The end of the nodes ends all their grants.

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
pub(super) use grant::End;
pub(crate) use grant::Grant;
pub use grant::HoldState;

/// A time farther ahead than any look.
const FAR: Duration = Duration::from_secs(u32::MAX as u64);

/// Nodes that were granted together and end together: one, or a semaphore's permits.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(super) number: u64,
    pub(super) facts: Arc<Facts>,
    /// The identity in their data.
    pub(super) identity: Arc<str>,
    /// Never empty.
    pub(super) list: Vec<Node>,
    pub(super) term: Term,
    pub(super) granted: Instant,
    state: Mutex<State>,
    /// Their loss is counted once, though several answers may tell of it.
    pub(super) is_loss_counted: AtomicBool,
}

/// The term of the lease at the grant. All holds of the nodes end with it.
#[derive(Debug)]
pub(super) struct Term {
    requests: Weak<Requests>,
    lease: Lease,
    pub(super) margin: Duration,
    /// The process of the grant.
    pub(super) process: u32,
    /// It was seen to be over. A heartbeat may renew a lease that is within its margin.
    is_over: AtomicBool,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// More holds of the same nodes: a read may share the node of its thread's write.
    sharing: Vec<Arc<Grant>>,
    /// A read was taken under the write, at its queue position, and may outlive it.
    read_under: bool,
    /// Guarded writes whose outcome is not known.
    writes: usize,
    /// The transactions that last requested the lock from its holder, by the index of the node.
    requested: HashMap<usize, i64>,
    watch: NodeWatch,
}

#[derive(Debug)]
enum Phase {
    /// Held by this, and by those that share the nodes.
    Held(Arc<Grant>),
    /// No thread holds them. They were handed over to the next thread.
    HandedOver,
    /// No thread holds them, and none gets them before this instant.
    Reserved(Instant),
    /// Released or lost. They are deleted, or will be.
    Over,
}

/// The watch of the nodes' own data.
#[derive(Debug, Default)]
struct NodeWatch {
    watcher: Option<Watcher>,
    /// When the nodes are looked at again even without an event.
    look_again: Option<Instant>,
}

/// What a release by the owner of a hold leads to.
pub(super) enum AfterRelease {
    /// The hold was lost before. If that was not known yet: all holds that end by it.
    Lost(LossReason, Option<Vec<Arc<Grant>>>),
    /// Others hold the nodes, or this hold was released before. There is nothing to do.
    Shared,
    /// This was the last hold. The nodes have to be deleted.
    Last,
    /// This was the last hold, but the nodes have to stay until this instant.
    Reserved(Instant),
}

/// Returns `begin + time`. A time too large for the clock never ends.
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

    /// Returns what is left until the holds are lost: the lease less the margin. It stays zero.
    pub(super) fn left(&self) -> Duration {
        let requests = self.requests.upgrade();
        let lease = requests.map_or(Duration::ZERO, |requests| requests.zk.left_of(&self.lease));
        let left = lease.saturating_sub(self.margin);
        if left.is_zero() {
            self.is_over.store(true, Ordering::SeqCst);
        }
        if self.is_over.load(Ordering::SeqCst) { Duration::ZERO } else { left }
    }

    /// Returns whether this is the copy in a forked child, which nobody keeps up to date. A mutex may
    /// be locked there for ever.
    pub(super) fn is_copy(&self) -> bool {
        self.process != sys::process_id()
    }

    /// Returns whether the connection lives and enough is left for another hold.
    fn is_sound(&self) -> bool {
        self.requests
            .upgrade()
            .is_some_and(|requests| requests.is_connected() && self.left() >= requests.patience())
    }

    fn is_connected(&self) -> bool {
        self.requests.upgrade().is_some_and(|requests| requests.is_connected())
    }

    /// Returns whether the lease is one of the client of these requests.
    pub(super) fn is_of(&self, requests: &Arc<Requests>) -> bool {
        std::ptr::eq(self.requests.as_ptr(), Arc::as_ptr(requests))
    }
}

impl Nodes {
    pub(super) fn new(
        number: u64,
        facts: &Arc<Facts>,
        identity: &Arc<str>,
        list: Vec<Node>,
        term: Term,
    ) -> (Arc<Nodes>, Arc<Grant>) {
        let at_most = facts.options.hold_at_most;
        let nodes = Arc::new(Nodes {
            number,
            facts: Arc::clone(facts),
            identity: Arc::clone(identity),
            list,
            term,
            granted: sys::now(),
            state: Mutex::new(State {
                // Until the grant is added, below.
                phase: Phase::HandedOver,
                sharing: Vec::new(),
                read_under: false,
                writes: 0,
                requested: HashMap::new(),
                watch: NodeWatch::default(),
            }),
            is_loss_counted: AtomicBool::new(false),
        });
        let grant = nodes.add_grant(&mut nodes.state.lock(), at_most);
        (nodes, grant)
    }

    /// Adds a hold of the calling thread.
    fn add_grant(self: &Arc<Self>, state: &mut State, at_most: Option<Duration>) -> Arc<Grant> {
        let grant = Grant::new(self, at_most);
        let added = Arc::clone(&grant);
        match &mut state.phase {
            Phase::Held(_) => state.sharing.push(added),
            phase => *phase = Phase::Held(added),
        }
        grant
    }

    /// Ends the nodes and all their grants. Returns the grants that held them, or `None` if the
    /// nodes were over before.
    pub(super) fn end(&self, end: End) -> Option<Vec<Arc<Grant>>> {
        let mut state = self.state.lock();
        let phase = mem::replace(&mut state.phase, Phase::Over);
        let was_over = matches!(phase, Phase::Over);
        let mut grants = mem::take(&mut state.sharing);
        if let Phase::Held(grant) = phase {
            grants.push(grant);
        }
        let watcher = state.watch.watcher.take();
        // All at once: an unlock that comes meanwhile reports the same.
        grants.iter().for_each(|grant| grant.set_end(end));
        drop(state);
        drop(watcher);
        grants.iter().for_each(|grant| grant.raise());
        (!was_over).then_some(grants)
    }

    /// Ends the nodes if no thread holds them and they need not stay. Returns whether it did.
    pub(super) fn end_unwanted(&self) -> bool {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Held(_) | Phase::Over => return false,
            Phase::Reserved(until) if until > sys::now() => {
                sys::reached("what is reserved stays though nobody wants it");
                return false;
            }
            Phase::Reserved(_) | Phase::HandedOver => {}
        }
        sys::reached("what was handed over or reserved is given back");
        state.phase = Phase::Over;
        let watcher = state.watch.watcher.take();
        drop(state);
        drop(watcher);
        true
    }

    /// Ends the nodes and all their grants if one of these has lasted for too long. Returns the
    /// grants that held them then.
    pub(super) fn end_overdue(&self) -> Option<Vec<Arc<Grant>>> {
        let is_overdue = self.state.lock().grants().any(|grant| grant.end_overdue());
        is_overdue.then(|| self.end(End::Lost(LossReason::HeldTooLong))).flatten()
    }

    /// Returns when the first of their grants [ends](Grant::ends_at) by the clocks.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.state.lock().grants().filter_map(|grant| grant.ends_at()).min()
    }

    /// Releases a hold. One that has ended by the clocks is a loss, even if nobody has noticed it
    /// yet.
    pub(super) fn release(&self, grant: &Arc<Grant>) -> AfterRelease {
        let (left, reason) = grant.left();
        let mut state = self.state.lock();
        match grant.known_end() {
            Some(End::Lost(reason)) => return AfterRelease::Lost(reason, None),
            Some(End::Released) => return AfterRelease::Shared,
            None => {}
        }
        if left.is_zero() {
            drop(state);
            return AfterRelease::Lost(reason, self.end(End::Lost(reason)));
        }
        let State { phase, sharing, .. } = &mut *state;
        let is_last = match phase {
            Phase::Held(first) if Arc::ptr_eq(first, grant) => match sharing.pop() {
                Some(next) => {
                    *first = next;
                    false
                }
                None => true,
            },
            _ => {
                sharing.retain(|other| !Arc::ptr_eq(other, grant));
                false
            }
        };
        let (released, watcher) = match grant.reserved_until() {
            _ if !is_last => (AfterRelease::Shared, None),
            Some(until) => {
                state.phase = Phase::Reserved(until);
                (AfterRelease::Reserved(until), None)
            }
            None => {
                state.phase = Phase::Over;
                (AfterRelease::Last, state.watch.watcher.take())
            }
        };
        grant.set_end(End::Released);
        drop(state);
        drop(watcher);
        grant.raise();
        released
    }

    // ---- the next thread of the process

    /// Ends this hold and leaves the nodes to a thread that [takes them over](Nodes::take_over).
    /// Returns false, and changes nothing, if the nodes have to be deleted or to stay: less than a
    /// third of the session timeout is left of the lease, a client has requested the lock, a read
    /// stands at the same queue position, a write guarded by this hold has no answer yet, or the
    /// hold has to last longer.
    pub(crate) fn hand_over(&self, grant: &Arc<Grant>) -> bool {
        let mut state = self.state.lock();
        let is_alone = matches!(state.phase, Phase::Held(_)) && state.sharing.is_empty();
        let (is_asked, lasts) = (!state.requested.is_empty(), grant.reserved_until().is_some());
        let stays = [
            !is_alone || grant.left().0.is_zero(),
            sys::reached_if(!self.term.is_sound(), "the lease is too short for the next thread"),
            sys::reached_if(state.read_under, "a read under it keeps a hold from the next thread"),
            sys::reached_if(state.writes > 0, "a guarded write keeps a hold from the next thread"),
            sys::reached_if(is_asked, "a hold that was asked for is not left to a thread"),
            sys::reached_if(lasts, "a hold that has to last is not left to a thread"),
        ];
        if stays.contains(&true) {
            return false;
        }
        state.phase = Phase::HandedOver;
        grant.set_end(End::Released);
        drop(state);
        grant.raise();
        true
    }

    /// Returns a hold of nodes that another thread handed over, or `None` if they do not serve the
    /// lock object, they are over, the lease is too short by now, or another thread has them.
    pub(crate) fn take_over(self: &Arc<Self>, facts: &Facts) -> Option<Arc<Grant>> {
        if !self.facts.can_share_nodes(facts) {
            sys::reached("what was left to a thread has other options");
            return None;
        }
        let is_sound = self.term.is_sound();
        let mut state = self.state.lock();
        let is_free = is_sound && matches!(state.phase, Phase::HandedOver);
        sys::reached_if(!is_free, "what was left to a thread is over by now");
        let is_free = sys::reached_if(is_free, "a thread takes over what another has left");
        is_free.then(|| self.add_grant(&mut state, facts.options.hold_at_most))
    }

    /// Returns until when they are reserved, if they are.
    pub(super) fn reserved_until(&self) -> Option<Instant> {
        match self.state.lock().phase {
            Phase::Reserved(until) => Some(until),
            Phase::Held(_) | Phase::HandedOver | Phase::Over => None,
        }
    }

    /// Returns the only node, if its directory goes with it. A read at the same queue position keeps
    /// it.
    pub(super) fn with_directory(&self) -> Option<&Node> {
        let [node @ Node { takes_directory: true, .. }] = &self.list[..] else {
            return None;
        };
        (!self.state.lock().read_under).then_some(node)
    }

    /// Notes that a read stands at the same queue position, or may stand there.
    pub(crate) fn mark_read_under(&self) {
        self.state.lock().read_under = true;
    }

    /// Returns one more hold of the nodes, for the owner of this one, or `None` if they are over.
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
        if state.grants().any(|other| Arc::ptr_eq(other, grant)) {
            state.writes += 1;
            return Ok(());
        }
        drop(state);
        sys::reached("a guarded write comes behind the end of its hold");
        grant.check().and(Err(Error::not_held(grant.path())))
    }

    /// Notes that the outcome of a guarded write is known.
    pub(super) fn end_write(&self) {
        self.state.lock().writes -= 1;
    }

    // ---- being watched

    /// Returns when to look at them. The first look is a quarter of the session timeout after the
    /// grant, so that short holds cost nothing.
    pub(super) fn look_due(&self, timeout: Duration) -> Option<Instant> {
        let state = self.state.lock();
        let due = || state.watch.look_again.unwrap_or(self.granted + timeout / 4);
        (!state.is_over()).then(due)
    }

    /// Sets their watcher, if there is none and they are not over. Returns whether it did.
    pub(super) fn watch(&self, watcher: &Watcher) -> bool {
        let mut state = self.state.lock();
        let is_first = !state.is_over() && state.watch.watcher.is_none();
        if is_first {
            state.watch.watcher = Some(watcher.clone());
        }
        is_first
    }

    /// Returns their watcher for a read, if there is one, and notes when to read them again.
    pub(super) fn start_look(&self, again: Instant) -> Option<Watcher> {
        let mut state = self.state.lock();
        let watcher = state.watch.watcher.clone()?;
        state.watch.look_again = Some(again);
        Some(watcher)
    }

    /// Drops their watcher, because the read that should have set the watch failed.
    pub(super) fn stop_watching(&self) {
        let watch = mem::take(&mut self.state.lock().watch);
        drop(watch);
    }

    /// Notes that transaction `mzxid` requested the lock from the holder of the node with this
    /// index, and tells the holders.
    pub(super) fn mark_requested(&self, index: usize, mzxid: i64) {
        let mut state = self.state.lock();
        // When it is read again, it is the same request.
        if state.requested.insert(index, mzxid) != Some(mzxid) {
            let grants: Vec<_> = state.grants().cloned().collect();
            drop(state);
            grants.iter().for_each(|grant| grant.tell_request(index));
        }
    }

    /// Returns whether the lock was requested from the holder of the node with this index.
    pub(crate) fn is_requested(&self, index: usize) -> bool {
        self.state.lock().requested.contains_key(&index)
    }

    /// Returns whether the calling thread has taken a hold of them that is not over, also by the clocks.
    pub(super) fn is_held_here(&self) -> bool {
        let me = thread::current().id();
        let is_its = |grant: &Arc<Grant>| grant.thread == me && !grant.valid_for().is_zero();
        self.state.lock().grants().any(is_its)
    }
}

impl State {
    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn grants(&self) -> impl Iterator<Item = &Arc<Grant>> {
        let first = match &self.phase {
            Phase::Held(first) => Some(first),
            Phase::HandedOver | Phase::Reserved(_) | Phase::Over => None,
        };
        first.into_iter().chain(&self.sharing)
    }
}
