//! Rules that drop or hold a frame, and the handles with which tests control them.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::FaultProxy;
use super::control::Control;
use super::link::Link;
use super::op::Op;
use crate::lock;

/// What happens to a connection after one of its frames was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The connection is closed. This is what real networks do, because a TCP stream cannot lose a single frame.
    Cut,
    /// The connection stays open, but until it is cut, nothing passes in either direction, not even the end of a side.
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Drop(Then),
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Counts down to the request to which the rule applies.
    Armed(u64),
    /// The request has passed, but its answer has not arrived yet.
    Awaited,
    Fired,
    Cancelled,
}

/// The state of a rule that its handles share with the proxy.
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
    /// Counts a frame to which the rule may apply, or, for a rule about answers, its request. Returns true if this is
    /// the frame, or the request, to which the rule applies.
    pub(crate) fn counts(&self, op: Op, path: &str) -> bool {
        if self.op != op || !path.contains(&self.path) {
            return false;
        }
        let mut state = lock(&self.state);
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

    /// Applies the rule to its frame. Returns false if the rule was cancelled in the meantime.
    pub(crate) fn fire(&self, link: &Link) -> bool {
        let mut state = lock(&self.state);
        if state.0 != Phase::Awaited {
            return false;
        }
        // First of all, because a test that is notified that the rule has fired may call `restore` immediately.
        if self.action == Action::Drop(Then::Hold) {
            link.will_be_silent();
        }
        state.0 = Phase::Fired;
        self.changed.notify_all();
        true
    }

    /// Ends a hold. If the rule has not fired yet, it never fires.
    pub(crate) fn release(&self) {
        let mut state = lock(&self.state);
        if state.0 != Phase::Fired {
            state.0 = Phase::Cancelled;
        }
        state.1 = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_released(&self) -> bool {
        lock(&self.state).1
    }

    /// Returns whether the rule can no longer act.
    pub(crate) fn is_over(&self) -> bool {
        let (phase, released) = *lock(&self.state);
        match (phase, self.action) {
            (Phase::Fired, Action::Drop(_)) | (Phase::Cancelled, _) => true,
            _ => released,
        }
    }
}

/// A rule that is being built; see [`FaultProxy::on`].
#[derive(Debug)]
#[must_use = "a rule is made by its last call, such as `drop_request`"]
pub struct RuleBuilder<'a> {
    pub(crate) proxy: &'a FaultProxy,
    pub(crate) op: Op,
    pub(crate) nth: u64,
    pub(crate) path: String,
}

impl RuleBuilder<'_> {
    /// Selects the n-th matching request from now on. The default is 1, the next request.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }

    /// Counts only requests (or watch events) whose path contains `part`.
    pub fn path_contains(mut self, part: &str) -> Self {
        self.path = part.into();
        self
    }

    /// Drops the request before it reaches the server.
    pub fn drop_request(self, then: Then) -> Rule {
        self.rule(Side::Request, Action::Drop(then))
    }

    /// Lets the request reach the server, but drops the answer.
    pub fn drop_answer(self, then: Then) -> Rule {
        self.rule(Side::Answer, Action::Drop(then))
    }

    /// Holds the request, and everything that follows it in its direction, until [`Hold::release`].
    pub fn hold_request(self) -> Hold {
        self.hold(Side::Request)
    }

    /// Holds the answer, and everything that follows it in its direction, until [`Hold::release`].
    pub fn hold_answer(self) -> Hold {
        self.hold(Side::Answer)
    }

    fn rule(self, side: Side, action: Action) -> Rule {
        let trigger = Arc::new(Trigger {
            side,
            action,
            op: self.op,
            path: self.path,
            state: Mutex::new((Phase::Armed(self.nth.max(1)), false)),
            changed: Condvar::new(),
        });
        lock(&self.proxy.control.books).triggers.push(Arc::clone(&trigger));
        Rule { trigger }
    }

    fn hold(self, side: Side) -> Hold {
        let control = Arc::clone(&self.proxy.control);
        let rule = self.rule(side, Action::Hold);
        Hold { rule, control }
    }
}

/// A handle to a rule about a single frame. The rule remains if the handle is dropped.
#[derive(Debug, Clone)]
pub struct Rule {
    trigger: Arc<Trigger>,
}

impl Rule {
    /// Returns whether the frame has been dropped, or is or was held.
    #[must_use]
    pub fn fired(&self) -> bool {
        lock(&self.trigger.state).0 == Phase::Fired
    }

    /// Waits until the frame has been dropped or is held. Returns false after `longest`, or if the rule has been
    /// removed by [`FaultProxy::restore`].
    #[must_use = "false means that the fault has not happened"]
    pub fn wait(&self, longest: Duration) -> bool {
        let is_pending =
            |state: &mut (Phase, Released)| matches!(state.0, Phase::Armed(_) | Phase::Awaited);
        let Trigger { state, changed, .. } = &*self.trigger;
        drop(changed.wait_timeout_while(lock(state), longest, is_pending));
        self.fired()
    }
}

/// A [`Rule`] that holds a frame and everything that follows it. Dropping it releases them.
#[derive(Debug)]
#[must_use = "dropping it releases what it holds"]
pub struct Hold {
    rule: Rule,
    control: Arc<Control>,
}

impl Hold {
    /// Releases the frame and everything that follows it. If the frame has not arrived yet, removes the rule.
    pub fn release(&self) {
        self.rule.trigger.release();
        self.control.wake_all();
    }
}

impl Deref for Hold {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        &self.rule
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}
