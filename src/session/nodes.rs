//! Nodes of ours that are held, and who holds them: the part that their mutex decides, without any
//! request. A hand-off is another grant on the same nodes; what ends the nodes ends all grants.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use zookeeper::{Lease, Watcher};

use super::guarded::Write;
use super::quota::Charge;
use crate::error::{Error, LossReason, Result};
use crate::names::{Mode, Number};
use crate::observer::Observed;
use crate::path::LockPath;
use crate::signal::{Ended, Signal};
use crate::sys::thread::ThreadId;
use crate::sys::{self, Mutex};

/// Farther than anyone looks ahead.
const FAR: Duration = Duration::from_secs(u32::MAX as u64);

/// Whoever knows how leases and the connection stand: the client.
pub(super) trait Leases: Send + Sync {
    /// What is left of this one.
    fn left_of(&self, lease: &Lease) -> Duration;
    fn is_connected(&self) -> bool;
    /// A third of the session timeout.
    fn patience(&self) -> Duration;
    /// Has nodes watched from now on, if they are not yet.
    fn watch(&self, nodes: &Arc<Nodes>);
    /// Has these carried out while the nodes of all of these holds are there.
    fn commit(&self, holds: &[(Arc<Grant>, usize)], writes: &[Write]) -> Result<()>;
}

/// How a hold stands.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// Held, on a live connection.
    Held,
    /// The connection is dead, but the lease runs: still held, by nobody else. It is held again when
    /// the session is resumed in time.
    Suspended,
    /// Lost: somebody else may hold the lock. It stays lost.
    Lost(LossReason),
    /// Released by its owner.
    Released,
}

/// What is asked for, and by whom.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// What it is part of, as users know it.
    pub(crate) lock: LockPath,
    pub(crate) directory: LockPath,
    /// None of a lock that is a single node.
    pub(crate) mode: Option<Mode>,
    /// The thread that will own the hold, where a thread owns it.
    pub(crate) owner: Option<ThreadId>,
    /// What the node says of its maker.
    pub(crate) identity: Arc<str>,
    /// A release does not wait for its answer.
    pub(crate) background: bool,
    /// For so long after the grant nobody else gets it, whenever it is released.
    pub(crate) at_least: Duration,
}

impl Claim {
    pub(crate) fn is_single(&self) -> bool {
        self.mode.is_none()
    }

    /// Of somebody who waits for permits, and holds nothing yet.
    pub(crate) fn is_turn(&self) -> bool {
        self.mode == Some(Mode::Exclusive) && self.directory != self.lock
    }
}

/// A node of ours.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// What the server has put behind its name. `None` for a single node and a read under a write, whose names
    /// were chosen, and for a node that was found in a list.
    pub(crate) number: Option<Number>,
    /// The transaction that made it.
    pub(crate) czxid: i64,
    /// The fencing token: the same, but of a read under a write.
    pub(crate) token: u64,
    /// What it takes of the quota.
    pub(crate) charge: Charge,
}

/// Nodes that were granted together and stand or fall together: one, or a semaphore's permits.
#[derive(Debug)]
pub(crate) struct Nodes {
    number: u64,
    pub(super) claim: Claim,
    /// Never empty.
    pub(super) list: Vec<Node>,
    /// The number of the only node, if there was nothing else in the directory when it was granted.
    alone: Option<Number>,
    pub(super) session: Weak<dyn Leases>,
    /// As it was at the grant. The hold is over with its term.
    pub(super) lease: Lease,
    pub(super) granted: Instant,
    state: Mutex<State>,
    /// Their loss is counted, though several answers may tell of it.
    is_counted: AtomicBool,
}

/// | grants | over | means |
/// |---|---|---|
/// | one | no | held |
/// | more | no | a read that shares its thread's write |
/// | none | no | kept for the next thread, or for nobody until their time is over |
/// | none | yes | released or lost: they are deleted, or gone |
#[derive(Debug, Default)]
struct State {
    grants: Vec<Arc<Grant>>,
    over: bool,
    /// A read was taken under it, in its place, which may outlive it.
    read_under: bool,
    /// Writes that are carried out only while the nodes are there, and are not known to be done or refused.
    writes: usize,
    /// The transactions that last asked a holder to let go, by the index of the node.
    asked: HashMap<usize, i64>,
    /// Told of what happens to the nodes.
    watcher: Option<Watcher>,
    /// When they are looked at again though nothing was told.
    look_again: Option<Instant>,
    /// Told when somebody comes to the directory, while they may be kept for the next thread.
    recall: Option<Watcher>,
    /// Somebody has come, or may have.
    recalled: bool,
    /// How long they may be kept.
    keep_until: Option<Instant>,
    /// They have to be kept until then, for nobody.
    is_reserved: bool,
}

/// One hold.
#[derive(Debug)]
pub(crate) struct Grant {
    nodes: Arc<Nodes>,
    /// The thread that owns it, where a thread does.
    pub(super) owner: Option<ThreadId>,
    end: Mutex<Option<End>>,
    ended: Signal,
    since: Instant,
    /// Who is to be told of its end. Taken out by whoever tells.
    observed: Mutex<Option<Observed>>,
    /// Those who want to know that they are asked to let go of the node with this index.
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

/// How nodes stand when somebody lets go of them.
pub(super) enum Left {
    /// They were lost before. If that was not known yet: all holds that are ended by it now.
    Lost(LossReason, Option<Vec<Arc<Grant>>>),
    /// Others hold them, or have let go of them: there is nothing to do.
    Shared,
    /// Nobody does: they are to be deleted.
    Last,
    /// Nobody does, but they have to stay until then.
    Reserved(Instant),
}

/// A time that the clock cannot hold has no end.
fn after(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or_else(|| begin + FAR)
}

impl Nodes {
    pub(super) fn new(
        number: u64,
        (claim, list, alone): (Claim, Vec<Node>, Option<Number>),
        (session, lease): (Weak<dyn Leases>, Lease),
    ) -> (Arc<Nodes>, Arc<Grant>) {
        let owner = claim.owner;
        let nodes = Arc::new(Nodes {
            number,
            claim,
            list,
            alone,
            session,
            lease,
            granted: sys::now(),
            state: Mutex::default(),
            is_counted: AtomicBool::new(false),
        });
        let grant = nodes.push_grant(&mut nodes.state.lock(), owner);
        (nodes, grant)
    }

    /// Where they are registered.
    pub(super) fn key(&self) -> (LockPath, u64) {
        (self.claim.directory.clone(), self.number)
    }

    /// Is this loss the first that is counted?
    pub(super) fn is_first_loss(&self) -> bool {
        !self.is_counted.swap(true, Ordering::Relaxed)
    }

    /// What is left of their lease.
    pub(super) fn valid_for(&self) -> Duration {
        let session = self.session.upgrade();
        session.map_or(Duration::ZERO, |session| session.left_of(&self.lease))
    }

    /// Is the connection well, and enough left of the lease for another one to hold?
    fn is_sound(&self) -> bool {
        self.session.upgrade().is_some_and(|session| {
            session.is_connected() && session.left_of(&self.lease) >= session.patience()
        })
    }

    /// Returns the number of the only node, if nothing else is in the directory but what has come since.
    pub(super) fn alone(&self) -> Option<Number> {
        self.alone.filter(|_| !self.state.lock().read_under)
    }

    pub(crate) fn path_of(&self, node: &Node) -> String {
        self.claim.directory.child(&node.name)
    }

    fn push_grant(self: &Arc<Self>, state: &mut State, owner: Option<ThreadId>) -> Arc<Grant> {
        let grant = Arc::new(Grant {
            nodes: Arc::clone(self),
            owner,
            end: Mutex::new(None),
            ended: Signal::new(),
            since: sys::now(),
            observed: Mutex::default(),
            listeners: Mutex::default(),
        });
        state.grants.push(Arc::clone(&grant));
        grant
    }

    /// Ends all grants, and the nodes. The grants that held them; none if they were over.
    pub(super) fn end(&self, end: End) -> Option<Vec<Arc<Grant>>> {
        let mut state = self.state.lock();
        let ended = !std::mem::replace(&mut state.over, true);
        let (grants, rest) = (std::mem::take(&mut state.grants), state.let_go());
        // All at once: whoever lets go meanwhile is told the same.
        grants.iter().for_each(|grant| grant.end(end));
        drop(state);
        drop(rest);
        grants.iter().for_each(|grant| grant.tell());
        ended.then_some(grants)
    }

    /// Ends them if nobody holds them. False if somebody does, they have to stay, or are over.
    pub(super) fn end_unwanted(&self) -> bool {
        let mut state = self.state.lock();
        let stays = state.is_reserved && state.keep_until.is_some_and(|until| until > sys::now());
        sys::reached_if(|| stays, "what is reserved stays though nobody wants it");
        if state.over || stays || !state.grants.is_empty() {
            return false;
        }
        sys::reached("what was kept is given back");
        state.over = true;
        let rest = state.let_go();
        drop(state);
        drop(rest);
        true
    }

    /// A holder lets go. What the clocks say counts, whoever has noticed.
    pub(super) fn leave(&self, grant: &Arc<Grant>) -> Left {
        let is_over = self.valid_for().is_zero();
        let mut state = self.state.lock();
        match *grant.end.lock() {
            Some(End::Lost(reason)) => return Left::Lost(reason, None),
            Some(End::Released) => return Left::Shared,
            None => {}
        }
        if is_over {
            drop(state);
            let reason = LossReason::LeaseExpired;
            return Left::Lost(reason, self.end(End::Lost(reason)));
        }
        state.grants.retain(|other| !Arc::ptr_eq(other, grant));
        let left = match grant.reserved_until() {
            _ if !state.grants.is_empty() => Left::Shared,
            Some(until) => {
                (state.is_reserved, state.keep_until) = (true, Some(until));
                Left::Reserved(until)
            }
            None => Left::Last,
        };
        state.over |= matches!(left, Left::Last);
        grant.end(End::Released);
        let rest = state.over.then(|| state.let_go());
        drop(state);
        drop(rest);
        grant.tell();
        left
    }

    // ---- the next thread of the process

    /// Ends this hold, and leaves the nodes to whoever [takes](Self::take_over) them. False, and nothing
    /// has changed, if the servers have to be told: a third of the session timeout is not left of the
    /// lease, somebody has asked for it, a read is in its place, which others have to wait for, a write may
    /// yet be carried out that is for this holder, or it is to be held for longer.
    pub(crate) fn leave_to_next(&self, grant: &Arc<Grant>) -> bool {
        let is_sound = self.is_sound();
        let mut state = self.state.lock();
        let alone = state.grants.len() == 1 && !state.read_under && state.writes == 0;
        let stays = grant.reserved_until().is_some();
        sys::reached_if(|| state.read_under, "a read under it keeps a hold from the next thread");
        sys::reached_if(
            || state.writes > 0,
            "a write without an answer keeps a hold from the next thread",
        );
        sys::reached_if(
            || !state.asked.is_empty(),
            "a hold that was asked for is not left to a thread",
        );
        sys::reached_if(|| !is_sound, "a hold on a short lease is not left to a thread");
        sys::reached_if(|| stays, "a hold that has to last is not left to a thread");
        if state.over || !alone || !state.asked.is_empty() || !is_sound || stays {
            return false;
        }
        state.grants.clear();
        grant.end(End::Released);
        drop(state);
        grant.tell();
        true
    }

    /// A hold of what another thread has left. None if the lease is too short by now, or somebody has it.
    pub(crate) fn take_over(self: &Arc<Self>, owner: Option<ThreadId>) -> Option<Arc<Grant>> {
        let is_sound = self.is_sound();
        let mut state = self.state.lock();
        let free = !state.over && state.grants.is_empty() && is_sound;
        sys::reached_if(|| free, "a thread takes over what another has left");
        sys::reached_if(|| !free, "what was left to a thread is over by now");
        free.then(|| self.push_grant(&mut state, owner))
    }

    /// How long they may be kept if that is for `time` after the grant. None if not at all, or if somebody has
    /// come.
    pub(super) fn may_keep(&self, time: Duration) -> Option<Instant> {
        let until = after(self.granted, time);
        let mut state = self.state.lock();
        state.keep_until = Some(until);
        (until > sys::now() && !state.recalled).then_some(until)
    }

    /// Are they kept for whoever comes, not only for whoever waits?
    pub(crate) fn stays(&self) -> bool {
        let state = self.state.lock();
        let in_time = state.keep_until.is_some_and(|until| until > sys::now());
        !state.over && in_time && state.recall.is_some() && !state.recalled
    }

    /// Until when they are kept, if nobody holds them.
    pub(super) fn kept_until(&self) -> Option<Instant> {
        let state = self.state.lock();
        let kept = !state.over && state.grants.is_empty();
        kept.then(|| state.keep_until.unwrap_or(self.granted + FAR))
    }

    /// The directory is watched from now on by this, if it is not yet.
    pub(super) fn watch_directory(&self, watcher: &Watcher) -> bool {
        let mut state = self.state.lock();
        let first = !state.over && state.recall.is_none();
        if first {
            state.recall = Some(watcher.clone());
        }
        first
    }

    /// Returns what watches their directory, while they are kept.
    pub(super) fn kept_watcher(&self) -> Option<Watcher> {
        let state = self.state.lock();
        state.recall.clone().filter(|_| state.grants.is_empty())
    }

    /// Somebody has come: they are not kept again.
    pub(super) fn recall(&self) {
        self.state.lock().recalled = true;
    }

    /// A read is about to stand in their place, too.
    pub(crate) fn read_under(&self) {
        self.state.lock().read_under = true;
    }

    // ---- being watched

    /// Returns when to look at them. The first look is a quarter of the session timeout after the grant, so that
    /// short holds cost nothing.
    pub(super) fn look_due(&self, timeout: Duration) -> Option<Instant> {
        let state = self.state.lock();
        (!state.over).then(|| state.look_again.unwrap_or(self.granted + timeout / 4))
    }

    /// They are watched from now on by this. False if they are already, or are over.
    pub(super) fn watch(&self, watcher: &Watcher) -> bool {
        let mut state = self.state.lock();
        let first = !state.over && state.watcher.is_none();
        if first {
            state.watcher = Some(watcher.clone());
        }
        first
    }

    /// They are being looked at, and will be again.
    pub(super) fn look_again_at(&self, when: Instant) {
        self.state.lock().look_again = Some(when);
    }

    pub(super) fn watcher(&self) -> Option<Watcher> {
        self.state.lock().watcher.clone()
    }

    /// The read that should have set the watch failed.
    pub(super) fn stop_watching(&self) {
        let mut state = self.state.lock();
        let watcher = state.watcher.take();
        state.look_again = None;
        drop(state);
        drop(watcher);
    }

    /// Transaction `mzxid` has asked the holder of the node with this index to let go.
    pub(super) fn ask(&self, index: usize, mzxid: i64) {
        let mut state = self.state.lock();
        // Read once more, it is the same request.
        if state.asked.insert(index, mzxid) != Some(mzxid) {
            let grants = state.grants.clone();
            drop(state);
            grants.iter().for_each(|grant| grant.ask(index));
        }
    }

    /// Has the holder of the node with this index been asked to let go?
    pub(crate) fn is_asked_for(&self, index: usize) -> bool {
        self.state.lock().asked.contains_key(&index)
    }

    pub(super) fn owners(&self) -> Vec<Option<ThreadId>> {
        self.state.lock().grants.iter().map(|grant| grant.owner).collect()
    }
}

impl State {
    /// To be dropped without the mutex.
    fn let_go(&mut self) -> (Option<Watcher>, Option<Watcher>) {
        (self.watcher.take(), self.recall.take())
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

    /// The path of the node with this index.
    pub(crate) fn znode(&self, index: usize) -> String {
        self.nodes.path_of(&self.nodes.list[index])
    }

    pub(crate) fn ended(&self) -> &Ended {
        self.ended.ended()
    }

    /// Reads the clocks: a lease that has run out is a loss, whoever has noticed.
    pub(crate) fn state(&self) -> HoldState {
        // Before the look at the end, which comes before that of the lease when the client is closed.
        let is_connected =
            self.nodes.session.upgrade().is_some_and(|session| session.is_connected());
        let left = self.nodes.valid_for();
        match *self.end.lock() {
            Some(End::Released) => HoldState::Released,
            Some(End::Lost(reason)) => HoldState::Lost(reason),
            None if left.is_zero() => HoldState::Lost(LossReason::LeaseExpired),
            None if is_connected => HoldState::Held,
            None => HoldState::Suspended,
        }
    }

    /// What is left of the lease; zero unless held.
    pub(crate) fn valid_for(&self) -> Duration {
        let left = self.nodes.valid_for();
        match *self.end.lock() {
            Some(_) => Duration::ZERO,
            None => left,
        }
    }

    /// An error if it is over.
    pub(crate) fn check(&self) -> Result<()> {
        let path = self.path().to_owned();
        match self.state() {
            HoldState::Held | HoldState::Suspended => Ok(()),
            HoldState::Lost(reason) => Err(Error::Lost { path, reason }),
            HoldState::Released => Err(Error::NotHeld { path }),
        }
    }

    /// Has the nodes watched from now on, if they are not yet.
    pub(crate) fn watch_now(&self) {
        if let Some(session) = self.nodes.session.upgrade() {
            session.watch(&self.nodes);
        }
    }

    /// A write that its nodes guard is about to be sent. An error if it is over.
    pub(super) fn start_write(self: &Arc<Self>) -> Result<()> {
        self.check()?;
        let mut state = self.nodes.state.lock();
        if state.grants.iter().any(|grant| Arc::ptr_eq(grant, self)) {
            state.writes += 1;
            return Ok(());
        }
        drop(state);
        sys::reached("a guarded write comes behind the end of its hold");
        self.check().and(Err(Error::NotHeld { path: self.path().to_owned() }))
    }

    /// It is known what became of it.
    pub(super) fn end_write(&self) {
        self.nodes.state.lock().writes -= 1;
    }

    /// Has these carried out while the nodes of all of these holds are there.
    pub(crate) fn commit(holds: &[(Arc<Grant>, usize)], writes: &[Write]) -> Result<()> {
        let session = holds.first().and_then(|(grant, _)| grant.nodes.session.upgrade());
        session.ok_or(Error::Closed)?.commit(holds, writes)
    }

    /// One more hold of the same nodes, for the same owner. None if it is over.
    pub(crate) fn share(&self) -> Option<Arc<Grant>> {
        let mut state = self.nodes.state.lock();
        (!state.over).then(|| self.nodes.push_grant(&mut state, self.owner))
    }

    /// Until when nobody else gets its nodes, though it lets go, if that is yet to come.
    fn reserved_until(&self) -> Option<Instant> {
        let until = after(self.since, self.nodes.claim.at_least);
        (until > sys::now()).then_some(until)
    }

    // ---- being observed

    /// Its end is told from now on. How it has ended, if it has by now: then nobody else tells.
    pub(crate) fn observe(&self, observed: &Observed) -> Option<impl FnOnce() + use<>> {
        *self.observed.lock() = Some(observed.clone());
        let end = *self.end.lock();
        end.and_then(|end| self.tells(end))
    }

    /// What tells the observer of its end, for the first who asks; to be called where that may block.
    pub(super) fn tells(&self, end: End) -> Option<impl FnOnce() + Send + use<>> {
        let (observed, held) = (self.observed.lock().take()?, sys::now() - self.since);
        Some(move || observed.ended(held, end.loss()))
    }

    /// Lets go of it by `release`, and has the observer told behind that how it ended. Of a loss that was
    /// noticed before it hears from whoever noticed.
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

    /// A channel with a message for each time that the holder is asked to let go of one of the nodes;
    /// disconnected when the hold ends.
    pub(crate) fn revocation(&self, index: usize) -> Receiver<()> {
        let (sender, receiver) = bounded(1);
        let mut listeners = self.listeners.lock();
        if self.end.lock().is_none() {
            listeners.push((index, sender.clone()));
        }
        drop(listeners);
        // Behind that, so that none is missed.
        if self.nodes.is_asked_for(index) {
            let _ = sender.try_send(());
        }
        receiver
    }

    fn ask(&self, index: usize) {
        for (_, listener) in self.listeners.lock().iter().filter(|(other, _)| *other == index) {
            // Full: it has not listened since the last one.
            let _ = listener.try_send(());
        }
    }

    /// To be [told](Self::tell) behind that, without any mutex.
    fn end(&self, end: End) {
        self.end.lock().get_or_insert(end);
    }

    fn tell(&self) {
        let listeners = std::mem::take(&mut *self.listeners.lock());
        drop(listeners);
        self.ended.raise();
    }
}
