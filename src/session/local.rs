//! The first level of a lock: the threads of one process, in the order of their calls, whichever
//! lock objects they use. It knows threads, objects and what they hold, and nothing of ZooKeeper.
//!
//! It is not a `parking_lot` guard kept over the hold. Such a guard could not be unlocked by
//! another call without `unsafe`, and could not be cancelled or closed. `parking_lot`'s
//! `RawThreadId` is reused for later threads, which would become owners. A [`ThreadId`] is never
//! reused.

use std::collections::VecDeque;

use crossbeam_channel::{Sender, bounded};

use crate::base::signal::Ended;
use crate::base::sys::thread::{self, ThreadId};
use crate::base::sys::{self, Mutex, MutexGuard};
use crate::base::wait::{Stopped, Until};

/// A fair mutex over what the lock objects of one path hold. A thread can hand something over to
/// the next one.
pub(crate) struct Local<H, L> {
    /// A hold belongs to the thread that entered: only that thread unlocks, and it may enter again.
    /// Otherwise any thread unlocks the object, and none enters it again.
    is_of_a_thread: bool,
    state: Mutex<State<H, L>>,
    discard: Discard<L>,
}

/// Discards something that was [handed over](Turn::hand_over) when there is no next thread.
pub(crate) type Discard<L> = Box<dyn Fn(L) + Send + Sync>;

/// | owner | its hold | means |
/// |---|---|---|
/// | none | none | free for every object without a hold |
/// | some | none | a thread is between the levels, on its way in or out |
/// | some | some | held |
///
/// The other holds were lost, and are not unlocked yet. Each keeps its own object in use, and no
/// other one.
struct State<H, L> {
    owner: Option<Owner>,
    /// At most one for each object.
    holds: Vec<Held<H>>,
    /// What the last thread handed over. `times` counts how often that happened in a row.
    handed: Option<L>,
    times: u32,
    waiting: VecDeque<Waiter>,
    next: u64,
}

/// A lock object, by the number that it has for its life, and the thread that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    object: u64,
    thread: ThreadId,
}

struct Held<H> {
    by: Owner,
    hold: H,
    /// How often its thread has entered.
    depth: u32,
}

struct Waiter {
    number: u64,
    by: Owner,
    turn: Sender<()>,
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
    /// The last unlock of a hold that was [lost](Local::lose). Others have the level.
    Lost(H),
}

/// Ownership of the local level. Dropping it wakes the next thread, so a failure or panic at the
/// second level releases the first.
pub(crate) struct Turn<'a, H, L> {
    local: &'a Local<H, L>,
    by: Owner,
    is_kept: bool,
}

impl<H, L> Turn<'_, H, L> {
    /// Ends the turn as a success: the thread has the second level as well, and keeps both.
    pub(crate) fn keep(mut self, hold: H) {
        let held = Held { by: self.by, hold, depth: 1 };
        self.local.state.lock().holds.push(held);
        self.is_kept = true;
    }

    /// Takes what the previous thread handed over.
    pub(crate) fn take_handed(&self) -> Option<L> {
        self.local.state.lock().handed.take()
    }

    /// Starts a new series of hand-overs, because the thread goes on to the servers.
    pub(crate) fn start_over(&self) {
        self.local.state.lock().times = 0;
    }

    /// Returns whether a thread waits that may enter, and something was handed over less often than
    /// this in a row.
    pub(crate) fn has_next(&self, times: u32) -> bool {
        let state = self.local.state.lock();
        state.times < times && state.next_waiter().is_some()
    }

    /// Leaves something to the next thread, which gets the first level when this is dropped, here.
    pub(crate) fn hand_over(self, handed: L) {
        let mut state = self.local.state.lock();
        state.handed = Some(handed);
        state.times = state.times.saturating_add(1);
    }
}

impl<H, L> Drop for Turn<'_, H, L> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.local.pass_on(self.local.state.lock());
        }
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
                next: 0,
            }),
        }
    }

    /// Enters without waiting, if the level is free.
    pub(crate) fn try_enter(&self, object: u64) -> Option<Turn<'_, H, L>> {
        self.take(Owner::here(object), &mut self.state.lock())
    }

    /// Enters, after all earlier threads.
    pub(crate) fn enter(
        &self,
        object: u64,
        until: &Until,
        closed: &Ended,
    ) -> Result<Turn<'_, H, L>, Stopped> {
        let by = Owner::here(object);
        let (number, turn) = {
            let mut state = self.state.lock();
            if let Some(turn) = self.take(by, &mut state) {
                return Ok(turn);
            }
            let (sender, turn) = bounded(1);
            state.next += 1;
            let number = state.next;
            state.waiting.push_back(Waiter { number, by, turn: sender });
            (number, turn)
        };
        let waited = until.wait_for(&turn, closed).inspect_err(|_| self.stop_waiting(number));
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
        Turn { local: self, by, is_kept: false }
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
                self.pass_on(state);
            }
        }
    }

    /// Increments the entry count of an object's hold.
    pub(crate) fn deepen(&self, object: u64) {
        let mut state = self.state.lock();
        if let Some(at) = state.position(object) {
            state.holds[at].depth += 1;
        }
    }

    /// Begins to unlock an object, if this is its hold.
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

    /// Begins to unlock an object at its end, however deep its hold is and whoever owns it.
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
        sys::reached("a lost hold is unlocked behind the turns of other objects");
        if state.owner.is_none() {
            self.pass_on(state);
        }
        Exit::Lost(hold)
    }

    /// Lets other objects in, because this hold was lost. Its own object stays in use until it is
    /// unlocked. Does nothing if the hold is not the current one.
    pub(crate) fn lose(&self, is_it: impl Fn(&H) -> bool) {
        let state = self.state.lock();
        let is_its = |held: &Held<H>| state.owner == Some(held.by) && is_it(&held.hold);
        if state.holds.iter().any(is_its) {
            sys::reached("a lost hold lets other objects in");
            self.pass_on(state);
        }
    }

    /// Returns the hold of an object. Where a thread owns it, returns that of the calling thread.
    pub(crate) fn hold(&self, object: u64) -> Option<H> {
        let state = self.state.lock();
        let held = state.hold_of(object)?;
        let is_mine = !self.is_of_a_thread || held.by.thread == thread::current().id();
        is_mine.then(|| held.hold.clone())
    }

    /// Returns whether an object would have to wait, whatever the servers say: a thread holds both
    /// levels, or the object itself has a lost hold that is not unlocked yet.
    pub(crate) fn keeps_out(&self, object: u64) -> bool {
        let state = self.state.lock();
        let keeps_out = |held: &Held<H>| state.owner == Some(held.by) || held.by.object == object;
        state.holds.iter().any(keeps_out)
    }

    /// Returns whether any thread holds both levels through this object.
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
    /// Gives the level to the next thread in the queue whose object has no hold, or frees it.
    fn pass_on(&self, mut state: MutexGuard<'_, State<H, L>>) {
        let next = state.next_waiter();
        sys::reached_if(next > Some(0), "a thread waits behind the lost hold of its object");
        let next = next.and_then(|next| state.waiting.remove(next));
        state.owner = next.as_ref().map(|waiter| waiter.by);
        let discarded = state.handed.take_if(|_| next.is_none());
        drop(state);
        if let Some(waiter) = next {
            // The channel has room for one, and only one is ever sent.
            let _ = waiter.turn.try_send(());
        }
        if let Some(discarded) = discarded {
            sys::reached("nobody comes for what a thread has left");
            (self.discard)(discarded);
        }
    }
}

impl<H, L> State<H, L> {
    fn position(&self, object: u64) -> Option<usize> {
        self.holds.iter().position(|held| held.by.object == object)
    }

    /// Returns the position of the first thread in the queue whose object has no hold.
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
