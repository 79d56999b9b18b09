//! A hold: a grant of nodes, until it is released or lost.

use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Nodes, after};
use crate::base::error::{Error, LossReason, Result};
use crate::base::signal::{Ended, Signal};
use crate::base::sys::thread::{self, ThreadId};
use crate::base::sys::{self, Mutex};
use crate::observer::Observed;
use crate::session::facts::Node;

/// The state of a hold.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// Held. The connection is alive.
    Held,
    /// The connection is broken, but the lease still runs. The hold is still yours: another client
    /// cannot acquire the lock. If the session is resumed in time, the state is `Held` again.
    Suspended,
    /// Lost: another client may hold the lock. This state is final.
    Lost(LossReason),
    /// Released by its owner.
    Released,
}

/// One hold.
pub(crate) struct Grant {
    nodes: Arc<Nodes>,
    /// The thread that acquired the hold.
    pub(super) thread: ThreadId,
    /// The `hold_at_most` of the call that acquired the hold. The other options are those of the
    /// nodes.
    pub(super) at_most: Option<Duration>,
    since: Instant,
    ending: Mutex<Ending>,
    ended: Signal,
    /// The channels for revocation requests, one for each node. They are created when the program
    /// first listens to one of them.
    requests: OnceLock<Vec<Receiver<()>>>,
}

struct Ending {
    /// How the hold has ended: as lost or released. `None` if it has not ended.
    end: Option<HoldState>,
    /// The instant until which the hold may last.
    due: Option<Instant>,
    /// The observer of the hold's end. The first thread that reports to the observer takes it out
    /// of here.
    observed: Option<Observed>,
    /// The channels, which are disconnected when the hold ends.
    requests: Vec<Sender<()>>,
    /// The functions of users to call after it has ended.
    calls: Vec<Box<dyn FnOnce() + Send>>,
}

impl Ending {
    fn is_overdue(&self) -> bool {
        self.due.is_some_and(|due| due <= sys::now())
    }
}

impl Grant {
    /// Creates a hold of the calling thread.
    pub(super) fn new(nodes: &Arc<Nodes>, at_most: Option<Duration>) -> Arc<Grant> {
        let since = sys::now();
        let due = at_most.map(|time| after(since, time));
        Arc::new(Grant {
            nodes: Arc::clone(nodes),
            thread: thread::current().id(),
            at_most,
            since,
            ending: Mutex::new(Ending {
                end: None,
                due,
                observed: None,
                requests: Vec::new(),
                calls: Vec::new(),
            }),
            ended: Signal::default(),
            requests: OnceLock::new(),
        })
    }

    pub(crate) fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    pub(crate) fn list(&self) -> &[Node] {
        &self.nodes.list
    }

    pub(crate) fn path(&self) -> &str {
        self.nodes.facts.lock.as_str()
    }

    /// Returns the path of the node with this index.
    pub(crate) fn znode(&self, index: usize) -> String {
        self.nodes.facts.path_of(&self.nodes.list[index])
    }

    pub(crate) fn ended(&self) -> &Ended {
        self.ended.ended()
    }

    /// Returns whether the end of the hold was detected.
    pub(crate) fn is_over(&self) -> bool {
        self.known_end().is_some()
    }

    /// Returns how the hold has ended, if that was detected.
    pub(super) fn known_end(&self) -> Option<HoldState> {
        self.ending.lock().end
    }

    /// Returns the state, according to the clocks. The hold is lost if its lease or its maximum
    /// time has run out, even if that was not detected before.
    pub(crate) fn state(&self) -> HoldState {
        if self.nodes.term.is_copy() {
            return HoldState::Lost(LossReason::LeaseExpired);
        }
        // Closing a client ends its holds before its connection. Therefore, the connection is
        // checked first, and `known_end` last.
        let is_connected = self.nodes.term.is_connected();
        let (left, reason) = self.left();
        match self.known_end() {
            Some(end) => end,
            None if left.is_zero() => HoldState::Lost(reason),
            None if is_connected => HoldState::Held,
            None => HoldState::Suspended,
        }
    }

    /// Returns the time until the clocks end the hold, and the reason for that loss.
    pub(super) fn left(&self) -> (Duration, LossReason) {
        let lease = self.nodes.term.left();
        let due = self.ending.lock().due;
        match due.map(|due| due.saturating_duration_since(sys::now())) {
            Some(left) if left < lease => (left, LossReason::HeldTooLong),
            _ => (lease, LossReason::LeaseExpired),
        }
    }

    /// Returns when the clocks end the hold, according to the current lease. Returns `None` if only
    /// the end of the lease ends the hold, because the client reports that end.
    pub(in crate::session) fn ends_at(&self) -> Option<Instant> {
        let has_margin = !self.nodes.facts.options.margin.is_zero();
        let lost = has_margin.then(|| sys::now() + self.nodes.term.left());
        self.ending.lock().due.into_iter().chain(lost).min()
    }

    /// Sets the instant until which the hold may last, which is never before its minimum time.
    /// Returns false if it has already ended.
    pub(in crate::session) fn expire_at(&self, due: Instant) -> bool {
        let due = due.max(after(self.since, self.nodes.facts.options.hold_at_least));
        let mut ending = self.ending.lock();
        let is_over = ending.end.is_some() || ending.is_overdue();
        if !is_over {
            ending.due = Some(due);
        }
        !is_over
    }

    /// Returns the time until the clocks end the hold as lost; zero if it is not held.
    pub(crate) fn valid_for(&self) -> Duration {
        if self.nodes.term.is_copy() {
            return Duration::ZERO;
        }
        let (left, _) = self.left();
        if self.is_over() { Duration::ZERO } else { left }
    }

    /// Returns an error if the hold is over.
    pub(crate) fn check(&self) -> Result<()> {
        let path = || self.path().to_owned();
        match self.state() {
            HoldState::Held | HoldState::Suspended => Ok(()),
            HoldState::Lost(reason) => Err(Error::Lost { path: path(), reason }),
            HoldState::Released => Err(Error::NotHeld { path: path() }),
        }
    }

    /// Returns the instant until which its nodes have to stay after a release. Returns `None` if
    /// that instant has passed.
    pub(super) fn reserved_until(&self) -> Option<Instant> {
        let until = after(self.since, self.nodes.facts.options.hold_at_least);
        (until > sys::now()).then_some(until)
    }

    // ---- observers

    /// Registers the observer, which is notified when the hold ends. If it has already ended,
    /// returns the report for the caller to make.
    pub(crate) fn observe(&self, observed: &Observed) -> Option<impl FnOnce() + use<>> {
        self.ending.lock().observed = Some(observed.clone());
        self.take_report()
    }

    /// Returns the report of the hold's end to the observer, but only to the first caller. Call the
    /// report on a thread where an observer may block.
    pub(in crate::session) fn take_report(&self) -> Option<impl FnOnce() + Send + use<>> {
        let mut ending = self.ending.lock();
        let (end, held) = (ending.end?, sys::now() - self.since);
        let observed = ending.observed.take()?;
        let loss = match end {
            HoldState::Lost(reason) => Some(reason),
            _ => None,
        };
        Some(move || observed.ended(held, loss))
    }

    /// Releases the hold with `release`, and then reports that to the observer.
    pub(crate) fn release_by(&self, release: impl FnOnce() -> Result<()>) -> Result<()> {
        let held = sys::now() - self.since;
        let released = release();
        // If a loss was detected earlier, the thread that detected it reports it.
        let is_released = self.known_end() == Some(HoldState::Released);
        let observed = is_released.then(|| self.ending.lock().observed.take()).flatten();
        if let Some(observed) = observed {
            observed.ended(held, released.as_ref().err().and_then(Error::loss));
        }
        released
    }

    /// Returns the channel that receives a message for each revocation request for one of the
    /// nodes. It is disconnected when the hold ends.
    pub(crate) fn revocation(&self, index: usize) -> &Receiver<()> {
        let mut is_new = false;
        let requests = self.requests.get_or_init(|| {
            is_new = true;
            let (senders, receivers) = self.list().iter().map(|_| bounded(1)).unzip();
            let mut ending = self.ending.lock();
            if ending.end.is_none() {
                ending.requests = senders;
            }
            receivers
        });
        // This is done after the channels exist, so that no request is missed.
        if is_new {
            let requested = (0..requests.len()).filter(|index| self.nodes.is_requested(*index));
            requested.for_each(|index| self.tell_request(index));
        }
        &requests[index]
    }

    /// Notifies the receivers that the holder of the node with this index was asked to release the
    /// lock.
    pub(crate) fn tell_request(&self, index: usize) {
        let sender = self.ending.lock().requests.get(index).cloned();
        // If the channel is full, it contains an unread request.
        let _ = sender.map(|sender| sender.try_send(()));
    }

    /// Schedules `call` for after the hold's end, on a thread where it may block.
    pub(crate) fn on_end(&self, call: impl FnOnce() + Send + 'static) {
        self.ending.lock().calls.push(Box::new(call));
        // If the hold is not over, the thread that ends it schedules `call`.
        if self.is_over() {
            self.tell_end();
        }
    }

    fn tell_end(&self) {
        let calls = mem::take(&mut self.ending.lock().calls);
        if let Some(requests) = self.nodes.term.requests.upgrade() {
            calls.into_iter().for_each(|call| requests.zk.call_aside(call));
        }
    }

    /// Sets how the hold ended. [`raise`](Grant::raise) has to follow, while no mutex is locked.
    pub(super) fn set_end(&self, end: HoldState) {
        self.ending.lock().end.get_or_insert(end);
    }

    /// Notifies all listeners that the hold has ended.
    pub(super) fn raise(&self) {
        let requests = mem::take(&mut self.ending.lock().requests);
        drop(requests);
        self.ended.raise();
        self.tell_end();
    }
}
