//! Granted nodes and their holds: what the mutex of the nodes decides, without any request. A
//! hand-over to another thread is another grant of the same nodes. The end of the nodes ends all
//! their grants.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use zookeeper::{Lease, Watcher};

use super::claim::{Claim, Node};
use super::requests::Requests;
use crate::error::{Error, LossReason, Result};
use crate::names::Number;
use crate::observer::Observed;
use crate::path::LockPath;
use crate::shortcuts;
use crate::signal::{Ended, Signal};
use crate::sys::thread::ThreadId;
use crate::sys::{self, Mutex};

/// A time farther ahead than any look.
const FAR: Duration = Duration::from_secs(u32::MAX as u64);

/// The state of a hold.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// Held, on a live connection.
    Held,
    /// The connection is dead, but the lease runs. The hold is still yours; nobody else can have
    /// the lock. It is held again when the session is resumed in time.
    Suspended,
    /// Lost: another client may hold the lock. It stays lost.
    Lost(LossReason),
    /// Released by its owner.
    Released,
}

/// Nodes that were granted together and end together: one, or a semaphore's permits.
#[derive(Debug)]
pub(crate) struct Nodes {
    number: u64,
    pub(super) claim: Claim,
    /// Never empty.
    pub(super) list: Vec<Node>,
    /// The number of the only node, if the directory had no other node at the grant.
    alone: Option<Number>,
    pub(super) term: Term,
    pub(super) granted: Instant,
    state: Mutex<State>,
    /// Whether their loss was counted: several answers may report it.
    is_counted: AtomicBool,
}

/// The term of the lease at the grant. All holds of the nodes end with it.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) requests: Weak<Requests>,
    pub(super) lease: Lease,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// A read was taken under the write, at its queue position, and may outlive it.
    read_under: bool,
    /// Guarded writes whose outcome is not known.
    writes: usize,
    /// The transactions that last requested the lock from its holder, by the index of the node.
    requested: HashMap<usize, i64>,
    watch: NodeWatch,
    keep: Keep,
}

#[derive(Debug)]
enum Phase {
    /// Held; never empty. A read may share the node of its thread's write.
    Held(Vec<Arc<Grant>>),
    /// No thread holds them. They are kept for the next thread.
    Kept,
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

/// How long nodes may be kept for later threads.
#[derive(Debug, Default)]
struct Keep {
    until: Option<Instant>,
    /// Watches the directory for other contenders.
    watcher: Option<Watcher>,
    /// Another contender has come, or may have.
    is_wanted: bool,
}

/// One hold.
#[derive(Debug)]
pub(crate) struct Grant {
    nodes: Arc<Nodes>,
    /// The thread that owns it, where a thread does.
    owner: Option<ThreadId>,
    end: Mutex<Option<End>>,
    ended: Signal,
    since: Instant,
    /// The observer of its end. The thread that reports the end takes this out.
    observed: Mutex<Option<Observed>>,
    /// The listeners for revocation requests, by the index of the node.
    listeners: Mutex<Vec<(usize, Sender<()>)>>,
}

/// How a hold has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Released,
    Lost(LossReason),
}

impl End {
    fn loss(self) -> Option<LossReason> {
        match self {
            End::Released => None,
            End::Lost(reason) => Some(reason),
        }
    }
}

/// The consequence of a release by the owner of a hold.
pub(super) enum Released {
    /// The hold was lost before. Has all holds that end by it, if the loss was not known yet.
    Lost(LossReason, Option<Vec<Arc<Grant>>>),
    /// Others hold the nodes, or this hold was released before. There is nothing to do.
    Shared,
    /// This was the last hold. The nodes have to be deleted.
    Last,
    /// This was the last hold, but the nodes have to stay until this instant.
    Reserved(Instant),
}

/// Returns `begin + time`. A time too large for the clock never ends.
fn after(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or_else(|| begin + FAR)
}

impl Term {
    /// Returns what is left of the lease.
    pub(super) fn left(&self) -> Duration {
        let requests = self.requests.upgrade();
        requests.map_or(Duration::ZERO, |requests| requests.zk.left_of(&self.lease))
    }

    /// Returns whether the connection lives and enough of the lease is left for another hold.
    fn is_sound(&self) -> bool {
        self.requests.upgrade().is_some_and(|requests| {
            requests.is_connected() && requests.zk.left_of(&self.lease) >= requests.patience()
        })
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
        (claim, list, alone): (Claim, Vec<Node>, Option<Number>),
        term: Term,
    ) -> (Arc<Nodes>, Arc<Grant>) {
        let owner = claim.owner;
        let nodes = Arc::new(Nodes {
            number,
            claim,
            list,
            alone,
            term,
            granted: sys::now(),
            state: Mutex::new(State {
                phase: Phase::Kept,
                read_under: false,
                writes: 0,
                requested: HashMap::new(),
                watch: NodeWatch::default(),
                keep: Keep::default(),
            }),
            is_counted: AtomicBool::new(false),
        });
        let grant = nodes.add_grant(&mut nodes.state.lock(), owner);
        (nodes, grant)
    }

    /// Returns their key in the registry.
    pub(super) fn key(&self) -> (LockPath, u64) {
        (self.claim.directory.clone(), self.number)
    }

    /// Returns whether this is the first loss of these nodes that is counted.
    pub(super) fn is_first_loss(&self) -> bool {
        !self.is_counted.swap(true, Ordering::Relaxed)
    }

    /// Returns the number of the only node, if the directory had no other node at the grant. Nodes
    /// that were made since have higher numbers.
    pub(super) fn alone(&self) -> Option<Number> {
        let alone = self.alone.filter(|_| shortcuts::are_on());
        alone.filter(|_| !self.state.lock().read_under)
    }

    fn add_grant(self: &Arc<Self>, state: &mut State, owner: Option<ThreadId>) -> Arc<Grant> {
        let grant = Arc::new(Grant {
            nodes: Arc::clone(self),
            owner,
            end: Mutex::new(None),
            ended: Signal::new(),
            since: sys::now(),
            observed: Mutex::default(),
            listeners: Mutex::default(),
        });
        let added = Arc::clone(&grant);
        match &mut state.phase {
            Phase::Held(grants) => grants.push(added),
            phase => *phase = Phase::Held(vec![added]),
        }
        grant
    }

    /// Ends the nodes and all their grants. Returns the grants that held them, or `None` if the
    /// nodes were over before.
    pub(super) fn end(&self, end: End) -> Option<Vec<Arc<Grant>>> {
        let mut state = self.state.lock();
        let phase = mem::replace(&mut state.phase, Phase::Over);
        let was_over = matches!(phase, Phase::Over);
        let grants = match phase {
            Phase::Held(grants) => grants,
            Phase::Kept | Phase::Reserved(_) | Phase::Over => Vec::new(),
        };
        let watchers = state.take_watchers();
        // All at once: an unlock that comes meanwhile reports the same.
        grants.iter().for_each(|grant| grant.end(end));
        drop(state);
        drop(watchers);
        grants.iter().for_each(|grant| grant.tell());
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
            Phase::Reserved(_) | Phase::Kept => {}
        }
        sys::reached("what was kept is given back");
        state.phase = Phase::Over;
        let watchers = state.take_watchers();
        drop(state);
        drop(watchers);
        true
    }

    /// Releases a hold. A lease that has run out by the clocks is a loss, even before it was
    /// noticed.
    pub(super) fn release(&self, grant: &Arc<Grant>) -> Released {
        let is_over = self.term.left().is_zero();
        let mut state = self.state.lock();
        match *grant.end.lock() {
            Some(End::Lost(reason)) => return Released::Lost(reason, None),
            Some(End::Released) => return Released::Shared,
            None => {}
        }
        if is_over {
            drop(state);
            let reason = LossReason::LeaseExpired;
            return Released::Lost(reason, self.end(End::Lost(reason)));
        }
        let is_last = match &mut state.phase {
            Phase::Held(grants) => {
                grants.retain(|other| !Arc::ptr_eq(other, grant));
                grants.is_empty()
            }
            Phase::Kept | Phase::Reserved(_) | Phase::Over => false,
        };
        let (released, watchers) = match grant.reserved_until() {
            _ if !is_last => (Released::Shared, None),
            Some(until) => {
                state.phase = Phase::Reserved(until);
                (Released::Reserved(until), None)
            }
            None => {
                state.phase = Phase::Over;
                (Released::Last, Some(state.take_watchers()))
            }
        };
        grant.end(End::Released);
        drop(state);
        drop(watchers);
        grant.tell();
        released
    }

    // ---- the next thread of the process

    /// Ends this hold and keeps the nodes for a thread that [takes them over](Nodes::take_over).
    /// Returns false, and changes nothing, if the nodes have to be deleted or to stay: less than a
    /// third of the session timeout is left of the lease, a client has requested the lock, a read
    /// stands at the same queue position, a write guarded by this hold has no answer yet, or the
    /// hold has to last longer.
    pub(crate) fn hand_over(&self, grant: &Arc<Grant>) -> bool {
        let is_sound = self.term.is_sound();
        let mut state = self.state.lock();
        let is_alone = matches!(&state.phase, Phase::Held(grants) if grants.len() == 1);
        let stays = grant.reserved_until().is_some();
        let is_requested = !state.requested.is_empty();
        sys::reached_if(|| state.read_under, "a read under it keeps a hold from the next thread");
        sys::reached_if(
            || state.writes > 0,
            "a write without an answer keeps a hold from the next thread",
        );
        sys::reached_if(|| is_requested, "a hold that was asked for is not left to a thread");
        sys::reached_if(|| !is_sound, "a hold on a short lease is not left to a thread");
        sys::reached_if(|| stays, "a hold that has to last is not left to a thread");
        let is_shared = !is_alone || state.read_under || state.writes > 0;
        if is_shared || is_requested || !is_sound || stays {
            return false;
        }
        state.phase = Phase::Kept;
        grant.end(End::Released);
        drop(state);
        grant.tell();
        true
    }

    /// Returns a hold of nodes that another thread handed over, or `None` if they are over, the
    /// lease is too short by now, or another thread has them.
    pub(crate) fn take_over(self: &Arc<Self>, owner: Option<ThreadId>) -> Option<Arc<Grant>> {
        let is_sound = self.term.is_sound();
        let mut state = self.state.lock();
        let is_free = is_sound && matches!(state.phase, Phase::Kept);
        sys::reached_if(|| is_free, "a thread takes over what another has left");
        sys::reached_if(|| !is_free, "what was left to a thread is over by now");
        is_free.then(|| self.add_grant(&mut state, owner))
    }

    /// Returns until when they may be kept, if that is for `time` after the grant. `None` if that
    /// time is over, or another contender has come.
    pub(super) fn may_keep(&self, time: Duration) -> Option<Instant> {
        let until = after(self.granted, time);
        let mut state = self.state.lock();
        state.keep.until = Some(until);
        (until > sys::now() && !state.keep.is_wanted).then_some(until)
    }

    /// Returns whether they are kept for any later thread, not only for a thread that waits
    /// already.
    pub(crate) fn stay(&self) -> bool {
        let state = self.state.lock();
        let Keep { until, watcher, is_wanted } = &state.keep;
        let is_in_time = until.is_some_and(|until| until > sys::now());
        !state.is_over() && is_in_time && watcher.is_some() && !is_wanted
    }

    /// Returns until when they are kept or reserved, if no thread holds them.
    pub(super) fn kept_until(&self) -> Option<Instant> {
        let state = self.state.lock();
        match state.phase {
            Phase::Kept => Some(state.keep.until.unwrap_or(self.granted + FAR)),
            Phase::Reserved(until) => Some(until),
            Phase::Held(_) | Phase::Over => None,
        }
    }

    /// Sets the watcher of their directory, if there is none. Returns whether it did.
    pub(super) fn watch_directory(&self, watcher: &Watcher) -> bool {
        let mut state = self.state.lock();
        let is_first = !state.is_over() && state.keep.watcher.is_none();
        if is_first {
            state.keep.watcher = Some(watcher.clone());
        }
        is_first
    }

    /// Returns the watcher of their directory while no thread holds them.
    pub(super) fn kept_watcher(&self) -> Option<Watcher> {
        let state = self.state.lock();
        let is_held = matches!(state.phase, Phase::Held(_));
        state.keep.watcher.clone().filter(|_| !is_held)
    }

    /// Notes that another contender has come, so that they are not kept again.
    pub(super) fn are_wanted(&self) {
        self.state.lock().keep.is_wanted = true;
    }

    /// Notes that a read is about to stand at the same queue position.
    pub(crate) fn read_under(&self) {
        self.state.lock().read_under = true;
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
    pub(super) fn request(&self, index: usize, mzxid: i64) {
        let mut state = self.state.lock();
        // When it is read again, it is the same request.
        if state.requested.insert(index, mzxid) != Some(mzxid) {
            let grants = state.grants().to_vec();
            drop(state);
            grants.iter().for_each(|grant| grant.request(index));
        }
    }

    /// Returns whether the lock was requested from the holder of the node with this index.
    pub(crate) fn is_requested(&self, index: usize) -> bool {
        self.state.lock().requested.contains_key(&index)
    }

    pub(super) fn is_owned_by(&self, owner: Option<ThreadId>) -> bool {
        self.state.lock().grants().iter().any(|grant| grant.owner == owner)
    }
}

impl State {
    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn grants(&self) -> &[Arc<Grant>] {
        match &self.phase {
            Phase::Held(grants) => grants,
            Phase::Kept | Phase::Reserved(_) | Phase::Over => &[],
        }
    }

    /// Returns what has to be dropped without the mutex.
    fn take_watchers(&mut self) -> (Option<Watcher>, Option<Watcher>) {
        (self.watch.watcher.take(), self.keep.watcher.take())
    }
}

impl Grant {
    pub(crate) fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    pub(crate) fn list(&self) -> &[Node] {
        &self.nodes.list
    }

    pub(crate) fn path(&self) -> &str {
        self.nodes.claim.lock.as_str()
    }

    /// Returns the path of the node with this index.
    pub(crate) fn znode(&self, index: usize) -> String {
        self.nodes.claim.path_of(&self.nodes.list[index])
    }

    pub(crate) fn ended(&self) -> &Ended {
        self.ended.ended()
    }

    /// Reads the clocks: a lease that has run out is a loss, even before it was noticed.
    pub(crate) fn state(&self) -> HoldState {
        // Read before the end is: the close ends the holds before the connection.
        let is_connected = self.nodes.term.is_connected();
        let left = self.nodes.term.left();
        match *self.end.lock() {
            Some(End::Released) => HoldState::Released,
            Some(End::Lost(reason)) => HoldState::Lost(reason),
            None if left.is_zero() => HoldState::Lost(LossReason::LeaseExpired),
            None if is_connected => HoldState::Held,
            None => HoldState::Suspended,
        }
    }

    /// Returns what is left of the lease; zero unless held.
    pub(crate) fn valid_for(&self) -> Duration {
        let left = self.nodes.term.left();
        match *self.end.lock() {
            Some(_) => Duration::ZERO,
            None => left,
        }
    }

    /// Returns an error if the hold is over.
    pub(crate) fn check(&self) -> Result<()> {
        let path = self.path().to_owned();
        match self.state() {
            HoldState::Held | HoldState::Suspended => Ok(()),
            HoldState::Lost(reason) => Err(Error::Lost { path, reason }),
            HoldState::Released => Err(Error::NotHeld { path }),
        }
    }

    /// Counts a guarded write that is about to be sent. Returns an error if the hold is over.
    pub(super) fn start_write(self: &Arc<Self>) -> Result<()> {
        self.check()?;
        let mut state = self.nodes.state.lock();
        if state.grants().iter().any(|grant| Arc::ptr_eq(grant, self)) {
            state.writes += 1;
            return Ok(());
        }
        drop(state);
        sys::reached("a guarded write comes behind the end of its hold");
        self.check().and(Err(Error::NotHeld { path: self.path().to_owned() }))
    }

    /// Notes that the outcome of a guarded write is known.
    pub(super) fn end_write(&self) {
        self.nodes.state.lock().writes -= 1;
    }

    /// Returns one more hold of the same nodes for the same owner, or `None` if they are over.
    pub(crate) fn share(&self) -> Option<Arc<Grant>> {
        let mut state = self.nodes.state.lock();
        (!state.is_over()).then(|| self.nodes.add_grant(&mut state, self.owner))
    }

    /// Returns until when its nodes have to stay after a release, if that is yet to come.
    fn reserved_until(&self) -> Option<Instant> {
        let until = after(self.since, self.nodes.claim.at_least);
        (until > sys::now()).then_some(until)
    }

    // ---- being observed

    /// Registers the observer for the end of this hold. If the hold has ended already, returns the
    /// report, which the caller has to send.
    pub(crate) fn observe(&self, observed: &Observed) -> Option<impl FnOnce() + use<>> {
        *self.observed.lock() = Some(observed.clone());
        let end = *self.end.lock();
        end.and_then(|end| self.tells(end))
    }

    /// Returns the report of the hold's end, to the first caller only. Send it where an observer
    /// may block.
    pub(super) fn tells(&self, end: End) -> Option<impl FnOnce() + Send + use<>> {
        let (observed, held) = (self.observed.lock().take()?, sys::now() - self.since);
        Some(move || observed.ended(held, end.loss()))
    }

    /// Releases the hold by `release`, and then reports its end to the observer. A loss that was
    /// noticed before is reported by the thread that noticed it.
    pub(crate) fn end_by(&self, release: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let held = sys::now() - self.since;
        let released = release();
        let is_released = *self.end.lock() == Some(End::Released);
        let observed = is_released.then(|| self.observed.lock().take()).flatten();
        if let Some(observed) = observed {
            observed.ended(held, released.as_ref().err().and_then(Error::loss));
        }
        released
    }

    /// Returns a channel with a message for each revocation request of one of the nodes. It is
    /// disconnected when the hold ends.
    pub(crate) fn revocation(&self, index: usize) -> Receiver<()> {
        let (sender, receiver) = bounded(1);
        let mut listeners = self.listeners.lock();
        if self.end.lock().is_none() {
            listeners.push((index, sender.clone()));
        }
        drop(listeners);
        // After that, so that no request is missed.
        if self.nodes.is_requested(index) {
            let _ = sender.try_send(());
        }
        receiver
    }

    fn request(&self, index: usize) {
        for (_, listener) in self.listeners.lock().iter().filter(|(other, _)| *other == index) {
            // A full channel has an unread request.
            let _ = listener.try_send(());
        }
    }

    /// Sets how the hold ended. [`tell`](Grant::tell) has to follow, without any mutex.
    fn end(&self, end: End) {
        self.end.lock().get_or_insert(end);
    }

    fn tell(&self) {
        let listeners = mem::take(&mut *self.listeners.lock());
        drop(listeners);
        self.ended.raise();
    }
}
