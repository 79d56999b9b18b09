//! The in-process queue of a lock: the threads of one process, in the order of their calls,
//! whichever lock objects they use. This module handles threads, objects and their holds, and does
//! not use ZooKeeper.
//!
//! A `parking_lot` guard that lives as long as the hold could not replace this module. Another call
//! could not unlock such a guard without `unsafe`, and waiting for it could not be cancelled or
//! ended by closing the client. In `parking_lot`, later threads reuse the `RawThreadId` of earlier
//! ones, and would become owners. A [`ThreadId`] is never reused.

use std::collections::VecDeque;
use std::mem;

use crossbeam_channel::{Sender, bounded};

use crate::base::signal::Ended;
use crate::base::sys::thread::{self, ThreadId};
use crate::base::sys::{self, Mutex, MutexGuard};
use crate::base::wait::{Stopped, Until};

/// A fair mutex for the holds of the lock objects of one path. A thread can hand a value over to
/// the next thread.
pub(crate) struct Local<H, L> {
    /// If true, a hold belongs to the thread that entered: only that thread unlocks, and it may
    /// enter again. Otherwise, any thread unlocks the object, and it cannot be entered again while
    /// it is held.
    is_of_a_thread: bool,
    state: Mutex<State<H, L>>,
    discard: Discard<L>,
}

/// Discards a value that was [handed over](Turn::hand_over), if there is no next thread.
pub(crate) type Discard<L> = Box<dyn Fn(L) + Send + Sync>;

/// | owner | its hold | means |
/// |---|---|---|
/// | none | none | free for each object that does not have a hold |
/// | some | none | a thread is between the two queues, while it locks or unlocks |
/// | some | some | held |
///
/// Any holds of other objects were lost, and are not unlocked yet. Each of them keeps only its own
/// object in use.
struct State<H, L> {
    owner: Option<Owner>,
    /// At most one hold for each object.
    holds: Vec<Held<H>>,
    /// The value that the last thread handed over. `times` counts how often values were handed over
    /// in a row.
    handed: Option<L>,
    times: u32,
    /// The threads that wait, each at most once.
    waiting: VecDeque<Waiter>,
}

/// A lock object, identified by its permanent number, and the thread that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    object: u64,
    thread: ThreadId,
}

struct Held<H> {
    by: Owner,
    hold: H,
    /// How often the thread has entered.
    depth: u32,
}

struct Waiter {
    by: Owner,
    turn: Sender<()>,
}

/// Why a thread may not unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    NotHeld,
    NotOwner(ThreadId),
}

/// The result of unlocking once.
pub(crate) enum Exit<'a, H, L> {
    /// The thread still holds the lock.
    Inner(H),
    /// The last unlock: the hold of the thread, and the turn, which has to be dropped afterwards.
    Last(H, Turn<'a, H, L>),
    /// The last unlock of a hold that was [lost](Local::lose). Other threads own the queue.
    Lost(H),
}

/// Ownership of the in-process queue. If it is dropped, the next thread is woken. Therefore, a
/// failure or panic in the ZooKeeper queue releases the in-process queue.
pub(crate) struct Turn<'a, H, L> {
    local: &'a Local<H, L>,
    by: Owner,
}

impl<H, L> Turn<'_, H, L> {
    /// Ends the turn successfully: the thread has acquired the lock in the ZooKeeper queue as well,
    /// and keeps both.
    pub(crate) fn keep(self, hold: H) {
        let held = Held { by: self.by, hold, depth: 1 };
        self.local.state.lock().holds.push(held);
        // Dropping `self` would pass the turn to the next thread.
        mem::forget(self);
    }

    /// Takes the value that the previous thread handed over.
    pub(crate) fn take_handed(&self) -> Option<L> {
        self.local.state.lock().handed.take()
    }

    /// Resets the count of values that were handed over in a row, because the thread now queues on
    /// the servers.
    pub(crate) fn start_over(&self) {
        self.local.state.lock().times = 0;
    }

    /// Returns whether a thread that may enter is waiting, and values were handed over fewer than
    /// `times` in a row.
    pub(crate) fn has_next(&self, times: u32) -> bool {
        let state = self.local.state.lock();
        state.times < times && state.next_waiter().is_some()
    }

    /// Hands a value over to the next thread, which gets the in-process queue when `self` is
    /// dropped at the end of this function.
    pub(crate) fn hand_over(self, handed: L) {
        let mut state = self.local.state.lock();
        state.handed = Some(handed);
        state.times = state.times.saturating_add(1);
    }
}

impl<H, L> Drop for Turn<'_, H, L> {
    fn drop(&mut self) {
        self.local.pass_on(self.local.state.lock());
    }
}

impl<H: Clone, L> Local<H, L> {
    pub(crate) fn new(is_of_a_thread: bool, discard: Discard<L>) -> Local<H, L> {
        Local {
            is_of_a_thread,
            discard,
            state: Mutex::new(State {
                owner: None,
                holds: Vec::new(),
                handed: None,
                times: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Enters without waiting, if the queue is free.
    pub(crate) fn try_enter(&self, object: u64) -> Option<Turn<'_, H, L>> {
        self.take(Owner::here(object), &mut self.state.lock())
    }

    /// Enters after all earlier threads.
    pub(crate) fn enter(
        &self,
        object: u64,
        until: &Until,
        closed: &Ended,
    ) -> Result<Turn<'_, H, L>, Stopped> {
        let by = Owner::here(object);
        let mut state = self.state.lock();
        if let Some(turn) = self.take(by, &mut state) {
            return Ok(turn);
        }
        let (sender, turn) = bounded(1);
        state.waiting.push_back(Waiter { by, turn: sender });
        drop(state);
        let waited = until.wait_for(&turn, closed).inspect_err(|_| self.stop_waiting(by));
        waited.map(|()| self.turn(by))
    }

    fn take(&self, by: Owner, state: &mut State<H, L>) -> Option<Turn<'_, H, L>> {
        let is_free = state.owner.is_none() && state.hold_of(by.object).is_none();
        is_free.then(|| {
            state.owner = Some(by);
            self.turn(by)
        })
    }

    fn turn(&self, by: Owner) -> Turn<'_, H, L> {
        Turn { local: self, by }
    }

    /// Stops waiting. The next owner is set before its thread is woken. Therefore, if this thread
    /// is no longer in the queue, it has become the owner, and passes the turn on.
    fn stop_waiting(&self, by: Owner) {
        let mut state = self.state.lock();
        let position = state.waiting.iter().position(|waiter| waiter.by == by);
        match position {
            Some(position) => drop(state.waiting.remove(position)),
            None => self.pass_on(state),
        }
    }

    /// Increments the entry count of an object's hold.
    pub(crate) fn deepen(&self, object: u64) {
        let mut state = self.state.lock();
        if let Some(at) = state.position(object) {
            state.holds[at].depth += 1;
        }
    }

    /// Begins to unlock an object, if `is_it` is true for its hold.
    pub(crate) fn exit(
        &self,
        object: u64,
        is_it: impl Fn(&H) -> bool,
    ) -> Result<Exit<'_, H, L>, Refused> {
        let mut state = self.state.lock();
        let at = state.position(object).ok_or(Refused::NotHeld)?;
        let held = &mut state.holds[at];
        if !is_it(&held.hold) {
            return Err(Refused::NotHeld);
        }
        if self.is_of_a_thread && held.by.thread != thread::current().id() {
            return Err(Refused::NotOwner(held.by.thread));
        }
        held.depth -= 1;
        if held.depth > 0 {
            return Ok(Exit::Inner(held.hold.clone()));
        }
        Ok(self.leave(at, state))
    }

    /// Begins to unlock an object that is being dropped, regardless of the owner and of how often
    /// it has entered.
    pub(crate) fn end(&self, object: u64) -> Option<Exit<'_, H, L>> {
        let state = self.state.lock();
        let at = state.position(object)?;
        Some(self.leave(at, state))
    }

    fn leave(&self, at: usize, mut state: MutexGuard<'_, State<H, L>>) -> Exit<'_, H, L> {
        let Held { by, hold, .. } = state.holds.swap_remove(at);
        if state.owner == Some(by) {
            return Exit::Last(hold, self.turn(by));
        }
        if state.owner.is_none() {
            self.pass_on(state);
        }
        Exit::Lost(hold)
    }

    /// Lets other objects enter, because this hold was lost. The object of the hold stays in use
    /// until it is unlocked. Does nothing if the hold is not the current one.
    pub(crate) fn lose(&self, is_it: impl Fn(&H) -> bool) {
        let state = self.state.lock();
        let is_its = |held: &Held<H>| state.owner == Some(held.by) && is_it(&held.hold);
        if state.holds.iter().any(is_its) {
            self.pass_on(state);
        }
    }

    /// Returns the hold of an object. If holds belong to threads, returns it only to the thread
    /// that owns it.
    pub(crate) fn hold(&self, object: u64) -> Option<H> {
        let state = self.state.lock();
        let held = state.hold_of(object)?;
        let is_mine = !self.is_of_a_thread || held.by.thread == thread::current().id();
        is_mine.then(|| held.hold.clone())
    }

    /// Returns whether an object would have to wait, regardless of the state on the servers: a
    /// thread holds the lock in both queues, or the object itself has a lost hold that is not
    /// unlocked yet.
    pub(crate) fn keeps_out(&self, object: u64) -> bool {
        let state = self.state.lock();
        let keeps_out = |held: &Held<H>| state.owner == Some(held.by) || held.by.object == object;
        state.holds.iter().any(keeps_out)
    }

    /// Returns whether any thread holds the lock in both queues through this object.
    pub(crate) fn is_held_by(&self, object: u64) -> bool {
        self.state.lock().hold_of(object).is_some()
    }

    /// Returns how often the calling thread has entered an object.
    pub(crate) fn depth(&self, object: u64) -> u32 {
        let state = self.state.lock();
        match state.hold_of(object) {
            Some(held) if held.by.thread == thread::current().id() => held.depth,
            _ => 0,
        }
    }
}

impl<H, L> Local<H, L> {
    /// Passes the turn to the next thread in the queue whose object does not have a hold. If there
    /// is no such thread, the queue becomes free.
    fn pass_on(&self, mut state: MutexGuard<'_, State<H, L>>) {
        let next = state.next_waiter().and_then(|next| state.waiting.remove(next));
        state.owner = next.as_ref().map(|waiter| waiter.by);
        let discarded = state.handed.take_if(|_| next.is_none());
        drop(state);
        if let Some(waiter) = next {
            // The channel has a capacity of one message, and only one is ever sent.
            let _ = waiter.turn.try_send(());
        }
        if let Some(discarded) = discarded {
            sys::reached("no thread takes a value that was handed over");
            (self.discard)(discarded);
        }
    }
}

impl<H, L> State<H, L> {
    fn position(&self, object: u64) -> Option<usize> {
        self.holds.iter().position(|held| held.by.object == object)
    }

    /// Returns the position of the first thread in the queue whose object does not have a hold.
    fn next_waiter(&self) -> Option<usize> {
        let may_enter = |waiter: &Waiter| self.hold_of(waiter.by.object).is_none();
        self.waiting.iter().position(may_enter)
    }

    fn hold_of(&self, object: u64) -> Option<&Held<H>> {
        self.position(object).map(|at| &self.holds[at])
    }
}

impl Owner {
    /// Returns the calling thread as a user of an object.
    fn here(object: u64) -> Owner {
        Owner { object, thread: thread::current().id() }
    }
}

#[cfg(test)]
mod tests;
