//! The first level of a lock: the threads of one process, in the order of their calls. It knows
//! threads and what they hold, nothing of ZooKeeper.
//!
//! Not a `parking_lot` guard kept over the hold: that could not be unlocked by another call
//! without `unsafe`, could not be cancelled or closed, and `parking_lot`'s `RawThreadId` is given
//! to later threads again, which would make them owners. A [`ThreadId`] is never given twice.

use std::collections::VecDeque;

use crossbeam_channel::{Sender, bounded};

use crate::signal::{Broadcast, Ended, Until};
use crate::sys::thread::{self, ThreadId};
use crate::sys::{self, Mutex, select_biased};

/// Who may unlock and enter again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The hold is the object's: any thread unlocks, nobody enters twice.
    AnyThread,
    /// The hold is a thread's: it alone unlocks, and it may enter again.
    ThisThread,
}

impl Ownership {
    /// The thread that owns what this one takes, where a thread does.
    pub(crate) fn of(self, thread: ThreadId) -> Option<ThreadId> {
        (self == Ownership::ThisThread).then_some(thread)
    }
}

/// A fair mutex over what a lock object holds, and what a thread leaves to the next one.
pub(crate) struct Local<H, L> {
    ownership: Ownership,
    state: Mutex<State<H, L>>,
    cancel: Broadcast,
    unclaimed: Unclaimed<L>,
}

/// What becomes of what was [left](Turn::leave) to a next thread when there is none.
pub(crate) struct Unclaimed<L> {
    /// Does it stay for whoever comes? Asked under the mutex.
    pub(crate) stays: fn(&L) -> bool,
    /// Does away with it.
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
    /// What the last thread has left to the next one, and how often that was done in a row.
    left: Option<L>,
    times: u32,
    waiting: VecDeque<Waiter>,
    next: u64,
}

struct Waiter {
    number: u64,
    thread: ThreadId,
    turn: Sender<()>,
}

/// How a thread got in.
pub(crate) enum Entry<'a, H, L> {
    /// As the only one: it goes on to the second level.
    First(Turn<'a, H, L>),
    /// It is in already, with this. Not counted before [`Local::deepen`].
    Again(H),
}

/// Why a thread did not get in.
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

/// How a thread unlocks.
pub(crate) enum Exit<'a, H, L> {
    /// It stays in.
    Inner(H),
    /// It was the last time: what it held, and the turn to give back afterwards.
    Last(H, Turn<'a, H, L>),
}

/// The first level, taken. Dropped, it goes to the next thread: a second level that fails or
/// unwinds gives the first one back.
pub(crate) struct Turn<'a, H, L> {
    local: &'a Local<H, L>,
    kept: bool,
}

impl<H, L> Turn<'_, H, L> {
    /// The second level is taken as well.
    pub(crate) fn keep(mut self, hold: H) {
        let mut state = self.local.state.lock();
        state.hold = Some(hold);
        state.depth = 1;
        self.kept = true;
    }

    /// What the thread before has left.
    pub(crate) fn take_left(&self) -> Option<L> {
        let left = self.local.state.lock().left.take();
        if left.is_none() {
            self.start_over();
        }
        left
    }

    /// What was left is of no use: this is the first of those that follow on each other.
    pub(crate) fn start_over(&self) {
        self.local.state.lock().times = 0;
    }

    /// Does a thread wait, and may the hold be left to it? So many times in a row.
    pub(crate) fn may_leave(&self, times: u32) -> bool {
        let state = self.local.state.lock();
        state.times < times && !state.waiting.is_empty()
    }

    /// Gives the first level to the next thread with the second one, which that need not take.
    pub(crate) fn leave(self, left: L) {
        let mut state = self.local.state.lock();
        state.left = Some(left);
        state.times = state.times.saturating_add(1);
    }
}

impl<H, L> Drop for Turn<'_, H, L> {
    fn drop(&mut self) {
        if !self.kept {
            self.local.hand_over();
        }
    }
}

impl<H: Clone, L> Local<H, L> {
    pub(crate) fn new(ownership: Ownership, unclaimed: Unclaimed<L>) -> Local<H, L> {
        Local {
            ownership,
            unclaimed,
            state: Mutex::new(State {
                owner: None,
                hold: None,
                depth: 0,
                left: None,
                times: 0,
                waiting: VecDeque::new(),
                next: 0,
            }),
            cancel: Broadcast::new(),
        }
    }

    /// Ready at the next [`Local::cancel_waiters`]; to be taken at the start of a call.
    pub(crate) fn cancelled(&self) -> Ended {
        self.cancel.listen()
    }

    pub(crate) fn cancel_waiters(&self) {
        self.cancel.send();
    }

    /// Enters without waiting, if the way is free or the thread is in.
    pub(crate) fn try_enter(&self) -> Option<Entry<'_, H, L>> {
        self.take(&mut self.state.lock())
    }

    /// Enters, after all who came before.
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
        self.leave_queue(number);
        Err(stopped)
    }

    fn take(&self, state: &mut State<H, L>) -> Option<Entry<'_, H, L>> {
        let me = thread::current().id();
        match (state.owner, &state.hold) {
            (None, _) => {
                state.owner = Some(me);
                Some(Entry::First(self.turn()))
            }
            (Some(owner), Some(hold)) if self.ownership == Ownership::ThisThread && owner == me => {
                Some(Entry::Again(hold.clone()))
            }
            _ => None,
        }
    }

    fn turn(&self) -> Turn<'_, H, L> {
        Turn { local: self, kept: false }
    }

    /// Stops waiting. A hand-over sets the owner before it wakes it, so who is not in the queue
    /// any more has been made the owner, and passes it on.
    fn leave_queue(&self, number: u64) {
        let mut state = self.state.lock();
        let position = state.waiting.iter().position(|w| w.number == number);
        match position {
            Some(position) => drop(state.waiting.remove(position)),
            None => {
                sys::reached("a thread gives up though it has the turn");
                drop(state);
                self.hand_over();
            }
        }
    }

    /// Counts one more entry of the thread that is in.
    pub(crate) fn deepen(&self) {
        self.state.lock().depth += 1;
    }

    /// Begins to unlock; with `only`, only if that is what is held.
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
        if self.ownership == Ownership::ThisThread && owner != thread::current().id() {
            return Err(Refused::NotOwner(owner));
        }
        state.depth -= 1;
        if state.depth > 0 {
            return Ok(Exit::Inner(hold));
        }
        state.hold = None;
        Ok(Exit::Last(hold, self.turn()))
    }

    /// What the calling thread holds, or the object where any thread may unlock.
    pub(crate) fn hold(&self) -> Option<H> {
        let state = self.state.lock();
        let mine =
            self.ownership == Ownership::AnyThread || state.owner == Some(thread::current().id());
        state.hold.clone().filter(|_| mine)
    }

    /// Does anybody hold it, both levels?
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().hold.is_some()
    }

    /// How often the calling thread is in.
    pub(crate) fn depth(&self) -> u32 {
        let state = self.state.lock();
        match state.owner {
            Some(owner) if owner == thread::current().id() => state.depth,
            _ => 0,
        }
    }

    /// Takes out what is held, whoever owns it: for the end of the object.
    pub(crate) fn abandon(&mut self) -> Option<H> {
        let state = self.state.get_mut();
        if let Some(left) = state.left.take() {
            (self.unclaimed.discard)(left);
        }
        state.hold.take()
    }
}

impl<H, L> Local<H, L> {
    /// To the next thread in the queue, or free.
    fn hand_over(&self) {
        let mut state = self.state.lock();
        state.hold = None;
        state.depth = 0;
        let next = state.waiting.pop_front();
        state.owner = next.as_ref().map(|waiter| waiter.thread);
        let discarded = state.left.take_if(|left| next.is_none() && !(self.unclaimed.stays)(left));
        drop(state);
        if let Some(waiter) = next {
            // Room for one, and only one is ever sent.
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
