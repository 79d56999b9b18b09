//! Rules: which frame is to be dropped or held, and the handles tests keep on them.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::FaultProxy;
use super::control::Control;
use super::link::Link;
use super::op::Op;

/// What happens to the connection after a frame of it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The connection is closed. What a network does: a TCP stream does not lose single frames.
    Cut,
    /// The connection stays open but nothing passes any more, in either direction, not even its
    /// end, until it is cut.
    Hold,
    /// Everything else passes as if the frame had never been sent.
    Continue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Drop(Then),
    /// So many bytes pass, and then the connection is closed.
    Tear(usize),
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Counts matching requests down to its own.
    Armed(u64),
    /// Its request has passed; its answer has not come yet.
    Awaited,
    Fired,
    Cancelled,
}

/// The shared half of a rule.
#[derive(Debug)]
pub(crate) struct Trigger {
    pub(crate) side: Side,
    pub(crate) action: Action,
    op: Op,
    path: String,
    state: Mutex<(Phase, Released)>,
    changed: Condvar,
}

type Released = bool;

impl Trigger {
    /// Counts a frame that is of the rule's side, or a request whose answer is; true for the one
    /// the rule is about.
    pub(crate) fn counts(&self, op: Op, path: &str) -> bool {
        if self.op != op || !path.contains(&self.path) {
            return false;
        }
        let mut state = self.state();
        match state.0 {
            Phase::Armed(1) => state.0 = Phase::Awaited,
            Phase::Armed(left) => {
                state.0 = Phase::Armed(left - 1);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Lets the rule act on its frame; false when it was cancelled meanwhile.
    pub(crate) fn fire(&self, link: &Link) -> bool {
        let mut state = self.state();
        if state.0 != Phase::Awaited {
            return false;
        }
        // Before anybody hears that it has fired, who may restore all at once.
        if self.action == Action::Drop(Then::Hold) {
            link.will_be_silent();
        }
        state.0 = Phase::Fired;
        self.changed.notify_all();
        true
    }

    /// Ends a hold; a rule that has not fired never will.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        if state.0 != Phase::Fired {
            state.0 = Phase::Cancelled;
        }
        state.1 = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_released(&self) -> bool {
        self.state().1
    }

    /// Whether the rule can do nothing any more.
    pub(crate) fn is_over(&self) -> bool {
        let (phase, released) = *self.state();
        match (phase, self.action) {
            (Phase::Fired, Action::Drop(_) | Action::Tear(_)) | (Phase::Cancelled, _) => true,
            _ => released,
        }
    }

    fn fired(&self) -> bool {
        self.state().0 == Phase::Fired
    }

    fn wait(&self, longest: Duration) -> bool {
        let pending =
            |state: &mut (Phase, Released)| matches!(state.0, Phase::Armed(_) | Phase::Awaited);
        let waited = self.changed.wait_timeout_while(self.state(), longest, pending);
        waited.unwrap_or_else(PoisonError::into_inner).0.0 == Phase::Fired
    }

    fn state(&self) -> MutexGuard<'_, (Phase, Released)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rule in the making; see [`FaultProxy::on`].
#[derive(Debug)]
#[must_use = "a rule is made by its last call, such as `drop_request`"]
pub struct RuleBuilder<'a> {
    pub(crate) proxy: &'a FaultProxy,
    pub(crate) op: Op,
    pub(crate) nth: u64,
    pub(crate) path: String,
}

impl RuleBuilder<'_> {
    /// The rule is about the n-th matching request from now on, 1 for the next; 1 unless set.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }

    /// Only requests (or watch events) whose path contains this count.
    pub fn path_contains(mut self, part: &str) -> Self {
        self.path = part.into();
        self
    }

    /// The request is swallowed before it reaches the server.
    pub fn drop_request(self, then: Then) -> Rule {
        self.rule(Side::Request, Action::Drop(then))
    }

    /// The request reaches the server, its answer is swallowed.
    pub fn drop_answer(self, then: Then) -> Rule {
        self.rule(Side::Answer, Action::Drop(then))
    }

    /// Only so many bytes of the request, of its length and what follows, reach the server; then
    /// the connection is closed.
    pub fn tear_request(self, bytes: usize) -> Rule {
        self.rule(Side::Request, Action::Tear(bytes))
    }

    /// Only so many bytes of the answer, of its length and what follows, reach the client; then
    /// the connection is closed.
    pub fn tear_answer(self, bytes: usize) -> Rule {
        self.rule(Side::Answer, Action::Tear(bytes))
    }

    /// The request, and everything behind it on its way to the server, waits for
    /// [`Hold::release`].
    pub fn hold_request(self) -> Hold {
        self.hold(Side::Request)
    }

    /// The answer, and everything behind it on its way to the client, waits for
    /// [`Hold::release`].
    pub fn hold_answer(self) -> Hold {
        self.hold(Side::Answer)
    }

    fn rule(self, side: Side, action: Action) -> Rule {
        Rule { trigger: self.arm(side, action) }
    }

    fn hold(self, side: Side) -> Hold {
        let control = Arc::clone(&self.proxy.control);
        let trigger = self.arm(side, Action::Hold);
        Hold { trigger, control }
    }

    fn arm(self, side: Side, action: Action) -> Arc<Trigger> {
        let trigger = Arc::new(Trigger {
            side,
            action,
            op: self.op,
            path: self.path,
            state: Mutex::new((Phase::Armed(self.nth.max(1)), false)),
            changed: Condvar::new(),
        });
        self.proxy.control.arm(Arc::clone(&trigger));
        trigger
    }
}

/// A handle on a rule that drops one frame, or the end of it. The rule stays when the handle is dropped.
#[derive(Clone)]
pub struct Rule {
    trigger: Arc<Trigger>,
}

impl Rule {
    /// Whether the frame has been dropped.
    #[must_use]
    pub fn fired(&self) -> bool {
        self.trigger.fired()
    }

    /// Waits until the frame has been dropped; false when it has not within `longest`, or when
    /// [`FaultProxy::restore`] took the rule away.
    #[must_use = "false means that the fault has not happened"]
    pub fn wait(&self, longest: Duration) -> bool {
        self.trigger.wait(longest)
    }
}

/// A handle on a rule that holds one frame and what follows it. Dropping it releases.
#[must_use = "dropping it releases what it holds"]
pub struct Hold {
    trigger: Arc<Trigger>,
    control: Arc<Control>,
}

impl Hold {
    /// Whether the frame has come and was held, now or in the past.
    #[must_use]
    pub fn fired(&self) -> bool {
        self.trigger.fired()
    }

    /// Waits until the frame is being held; false when it has not come within `longest`.
    #[must_use = "false means that nothing is being held"]
    pub fn wait(&self, longest: Duration) -> bool {
        self.trigger.wait(longest)
    }

    /// Lets the frame and what is behind it go on. When the frame has not come yet, the rule is
    /// taken away.
    pub fn release(&self) {
        self.trigger.release();
        self.control.wake_all();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("trigger", &self.trigger).finish()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("trigger", &self.trigger).finish()
    }
}
