//! The first level of a lock: the threads of one process, in the order of their calls. It knows
//! threads and what they hold, and nothing of ZooKeeper.
//!
//! It is not a `parking_lot` guard kept over the hold. Such a guard could not be unlocked by
//! another call without `unsafe`, and could not be cancelled or closed. `parking_lot`'s
//! `RawThreadId` is reused for later threads, which would become owners. A [`ThreadId`] is never
//! reused.

use std::collections::VecDeque;

use crossbeam_channel::{Sender, bounded};

use crate::signal::{Broadcast, Ended};
use crate::sys::thread::{self, ThreadId};
use crate::sys::{self, Mutex, select_biased};
use crate::wait::Until;

/// A fair mutex over what a lock object holds. A thread can hand something over to the next one.
pub(crate) struct Local<H, L> {
    /// A hold belongs to the thread that entered: only that thread unlocks, and it may enter again.
    /// Otherwise any thread unlocks, and none enters again.
    is_of_a_thread: bool,
    state: Mutex<State<H, L>>,
    cancel: Broadcast,
    unclaimed: Unclaimed<L>,
}

/// What to do with something that was [handed over](Turn::hand_over) when there is no next thread.
pub(crate) struct Unclaimed<L> {
    /// Returns whether it stays for a later thread. Called under the mutex.
    pub(crate) stays: fn(&L) -> bool,
    /// Discards it.
    pub(crate) discard: Box<dyn Fn(L) + Send + Sync>,
}

/// | owner | hold | depth | means |
/// |---|---|---|---|
/// | none | none | 0 | free |
/// | some | none | 0 | a thread is between the levels, on its way in or out |
/// | some | some | n | held, entered n times |
struct State<H, L> {
    owner: Option<ThreadId>,
    hold: Option<H>,
    depth: u32,
    /// What the last thread handed over. `times` counts how often that happened in a row.
    handed: Option<L>,
    times: u32,
    waiting: VecDeque<Waiter>,
    next: u64,
}

struct Waiter {
    number: u64,
    thread: ThreadId,
    turn: Sender<()>,
}

/// Result of entering the local level.
pub(crate) enum Entry<'a, H, L> {
    /// The thread is alone, and goes on to the second level.
    First(Turn<'a, H, L>),
    /// The thread is already in, with this hold. [`Local::deepen`] counts the entry.
    Again(H),
}

/// Why a thread did not enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Deadline,
    Cancelled,
    Closed,
}

/// Why a thread may not unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    NotHeld,
    NotOwner(ThreadId),
}

/// Result of unlocking once.
pub(crate) enum Exit<'a, H, L> {
    /// The thread stays in.
    Inner(H),
    /// The last unlock: what the thread held, and the turn to drop afterwards.
    Last(H, Turn<'a, H, L>),
}

/// Ownership of the local level. Dropping it wakes the next thread, so a failure or panic at the
/// second level releases the first.
pub(crate) struct Turn<'a, H, L> {
    local: &'a Local<H, L>,
    kept: bool,
}

impl<H, L> Turn<'_, H, L> {
    /// Ends the turn as a success: the thread has the second level as well, and keeps both.
    pub(crate) fn keep(mut self, hold: H) {
        let mut state = self.local.state.lock();
        state.hold = Some(hold);
        state.depth = 1;
        self.kept = true;
    }

    /// Takes what the previous thread handed over.
    pub(crate) fn take_handed(&self) -> Option<L> {
        self.local.state.lock().handed.take()
    }

    /// Starts a new series of hand-overs, because the thread goes on to the servers.
    pub(crate) fn start_over(&self) {
        self.local.state.lock().times = 0;
    }

    /// Returns whether a thread waits and the hold may be handed over to it. `times` limits how
    /// often that may happen in a row.
    pub(crate) fn may_hand_over(&self, times: u32) -> bool {
        let state = self.local.state.lock();
        state.times < times && !state.waiting.is_empty()
    }

    /// Gives the first level to the next thread, with the second one, which that thread need not
    /// take.
    pub(crate) fn hand_over(self, handed: L) {
        let mut state = self.local.state.lock();
        state.handed = Some(handed);
        state.times = state.times.saturating_add(1);
    }
}

impl<H, L> Drop for Turn<'_, H, L> {
    fn drop(&mut self) {
        if !self.kept {
            self.local.pass_on();
        }
    }
}

impl<H: Clone, L> Local<H, L> {
    pub(crate) fn new(is_of_a_thread: bool, unclaimed: Unclaimed<L>) -> Local<H, L> {
        Local {
            is_of_a_thread,
            unclaimed,
            state: Mutex::new(State {
                owner: None,
                hold: None,
                depth: 0,
                handed: None,
                times: 0,
                waiting: VecDeque::new(),
                next: 0,
            }),
            cancel: Broadcast::new(),
        }
    }

    /// Returns a signal that is ready at the next [`Local::cancel_waiters`]. Take it at the start
    /// of a call.
    pub(crate) fn cancelled(&self) -> Ended {
        self.cancel.listen()
    }

    pub(crate) fn cancel_waiters(&self) {
        self.cancel.send();
    }

    /// Enters without waiting, if the level is free or the thread is already in.
    pub(crate) fn try_enter(&self) -> Option<Entry<'_, H, L>> {
        self.take(&mut self.state.lock())
    }

    /// Enters, after all earlier threads.
    pub(crate) fn enter(&self, until: &Until, closed: &Ended) -> Result<Entry<'_, H, L>, Stopped> {
        let (number, turn) = {
            let mut state = self.state.lock();
            if let Some(entry) = self.take(&mut state) {
                return Ok(entry);
            }
            let (sender, turn) = bounded(1);
            state.next += 1;
            let number = state.next;
            state.waiting.push_back(Waiter {
                number,
                thread: thread::current().id(),
                turn: sender,
            });
            (number, turn)
        };
        let stopped = select_biased! {
            recv(closed) -> _ => {
                sys::reached("the close ends a wait for a thread");
                Stopped::Closed
            }
            recv(until.cancelled) -> _ => {
                sys::reached("a cancel ends a wait for a thread");
                Stopped::Cancelled
            }
            recv(turn) -> _ => return Ok(Entry::First(self.turn())),
            recv(until.expiry()) -> _ => {
                sys::reached("a deadline ends a wait for a thread");
                Stopped::Deadline
            }
        };
        self.stop_waiting(number);
        Err(stopped)
    }

    fn take(&self, state: &mut State<H, L>) -> Option<Entry<'_, H, L>> {
        let me = thread::current().id();
        match (state.owner, &state.hold) {
            (None, _) => {
                state.owner = Some(me);
                Some(Entry::First(self.turn()))
            }
            (Some(owner), Some(hold)) if self.is_of_a_thread && owner == me => {
                Some(Entry::Again(hold.clone()))
            }
            _ => None,
        }
    }

    fn turn(&self) -> Turn<'_, H, L> {
        Turn { local: self, kept: false }
    }

    /// Stops waiting. The next owner is set before its thread is woken. So a thread that is no longer
    /// in the queue has become the owner, and passes the turn on.
    fn stop_waiting(&self, number: u64) {
        let mut state = self.state.lock();
        let position = state.waiting.iter().position(|w| w.number == number);
        match position {
            Some(position) => drop(state.waiting.remove(position)),
            None => {
                sys::reached("a thread gives up though it has the turn");
                drop(state);
                self.pass_on();
            }
        }
    }

    /// Increments the owner's entry count.
    pub(crate) fn deepen(&self) {
        self.state.lock().depth += 1;
    }

    /// Begins to unlock. With `only`, does so only if that is the current hold.
    pub(crate) fn exit(
        &self,
        only: Option<&dyn Fn(&H) -> bool>,
    ) -> Result<Exit<'_, H, L>, Refused> {
        let mut state = self.state.lock();
        let (Some(owner), Some(hold)) = (state.owner, state.hold.clone()) else {
            return Err(Refused::NotHeld);
        };
        if only.is_some_and(|is_it| !is_it(&hold)) {
            return Err(Refused::NotHeld);
        }
        if self.is_of_a_thread && owner != thread::current().id() {
            return Err(Refused::NotOwner(owner));
        }
        state.depth -= 1;
        if state.depth > 0 {
            return Ok(Exit::Inner(hold));
        }
        state.hold = None;
        Ok(Exit::Last(hold, self.turn()))
    }

    /// Returns the hold of the calling thread, or that of the object where any thread may unlock.
    pub(crate) fn hold(&self) -> Option<H> {
        let state = self.state.lock();
        let mine = !self.is_of_a_thread || state.owner == Some(thread::current().id());
        state.hold.clone().filter(|_| mine)
    }

    /// Returns whether any thread holds both levels.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().hold.is_some()
    }

    /// Returns the entry count of the calling thread.
    pub(crate) fn depth(&self) -> u32 {
        let state = self.state.lock();
        match state.owner {
            Some(owner) if owner == thread::current().id() => state.depth,
            _ => 0,
        }
    }

    /// Takes the hold, whoever owns it, at the end of the object. Discards what was handed over.
    pub(crate) fn take_hold(&mut self) -> Option<H> {
        let state = self.state.get_mut();
        if let Some(handed) = state.handed.take() {
            (self.unclaimed.discard)(handed);
        }
        state.hold.take()
    }
}

impl<H, L> Local<H, L> {
    /// Gives the level to the next thread in the queue, or frees it.
    fn pass_on(&self) {
        let mut state = self.state.lock();
        state.hold = None;
        state.depth = 0;
        let next = state.waiting.pop_front();
        state.owner = next.as_ref().map(|waiter| waiter.thread);
        let is_unclaimed = next.is_none();
        let discarded =
            state.handed.take_if(|handed| is_unclaimed && !(self.unclaimed.stays)(handed));
        drop(state);
        if let Some(waiter) = next {
            // The channel has room for one, and only one is ever sent.
            let _ = waiter.turn.try_send(());
        }
        if let Some(discarded) = discarded {
            sys::reached("nobody comes for what a thread has left");
            (self.unclaimed.discard)(discarded);
        }
    }
}

#[cfg(test)]
mod tests;
