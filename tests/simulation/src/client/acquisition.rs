//! An acquisition of a lock: the call, the operations during the hold, and the release.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kernel::thread;
use zoolock::{CancelToken, ClientState, Hold, HoldState, ReadLock};
use zoolock_checker::Unlocked;

use super::objects::{Object, Taken, mode, release};
use super::{Shared, Token, may_wait};
use crate::coverage::count_variant;
use crate::monitor::{self, Held, Left, NodeId, limit, monitor, violation};
use crate::network;
use crate::plan::{AcquisitionPlan, End, Kind, ObjectPlan, Operation, Place, Wait, What};

/// A lock object, and its number in the plan. A call may also use a fresh object with that number.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub number: usize,
    pub is_fresh: bool,
    pub object: &'a Object,
    pub plan: &'a ObjectPlan,
}

#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub who: &'a str,
    pub target: Target<'a>,
    pub wait: Wait,
    pub permits: u32,
}

pub(super) struct Acquisition<'a> {
    pub who: &'a str,
    pub target: Target<'a>,
    /// The number with which the monitor identifies the hold.
    pub number: usize,
    pub own: Hold,
    /// Whether a revocation request for the hold has been received. Only this thread reads the channel for requests.
    pub was_asked: Cell<bool>,
}

impl Target<'_> {
    /// Returns the object's number if other calls use the object as well.
    pub(super) fn shared(self) -> Option<usize> {
        (!self.is_fresh).then_some(self.number)
    }
}

impl Acquisition<'_> {
    pub(super) fn kind(&self) -> Kind {
        self.target.plan.kind
    }

    pub(super) fn place(&self) -> Place {
        self.target.plan.place
    }

    pub(super) fn node(&self) -> NodeId {
        monitor::id_of(self.kind(), &self.own)
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.own.state(), HoldState::Lost(_))
    }

    pub(super) fn count(&self) -> u32 {
        monitor::acquisitions(self.place(), self.kind(), self.own.fencing_token())
    }

    /// Returns the data of a guarded write: the node, the token and the hold.
    pub(super) fn data(&self) -> String {
        let (path, token) = self.node();
        format!("{path} {token} {}", self.number)
    }
}

/// Converts the result of an unlock to the one that the checkers use.
pub(super) fn said(answer: Option<()>) -> Unlocked {
    answer.map_or(Unlocked::Silent, |()| Unlocked::Fine)
}

impl Shared {
    pub(super) fn use_lock(&self, name: &str, target: Target<'_>, plan: &AcquisitionPlan) {
        let AcquisitionPlan { wait, permits, ref while_held, end, .. } = *plan;
        let ObjectPlan { kind, place, .. } = *target.plan;
        let who = format!("{}, {name}", self.name);
        if target.is_fresh {
            kernel::count("call: an object for one call");
        }
        kernel::note(|| format!("wants {place} ({kind:?}, {wait:?})"));
        count_variant("kind", &kind);
        if matches!(wait, Wait::Connected(..)) {
            kernel::count("option: a wait is limited without a connection");
        }
        let is_guard = !matches!(end, End::Unlock | End::Downgrade);
        let call = if matches!(wait, Wait::Forever) { "lock" } else { "try lock" };
        let ask = Ask { who: &who, target, wait, permits: permits.min(limit(place)) };
        let Some((taken, acquisition)) = self.get(call, ask, is_guard) else { return };
        // If there is no acquisition, the hold has already ended.
        let Some(acquisition) = acquisition else {
            return self.give_back(target, taken, end, None);
        };
        while_held.iter().for_each(|operation| self.do_operation(&acquisition, operation));
        let read = match end {
            End::Downgrade => self.read_below(&acquisition),
            _ => None,
        };
        self.give_back(target, taken, end, Some(&acquisition));
        if let (Some(read), Object::Write(_, lock)) = (read, target.object) {
            kernel::count("operation: goes on as a read");
            thread::sleep(Duration::from_millis(30));
            self.end_read(read, lock);
        }
        if while_held.iter().any(|operation| matches!(operation, Operation::Verify)) {
            self.verify(&acquisition);
        }
    }

    /// Acquires a lock. Returns the holds, and an acquisition unless the hold has already ended.
    pub(super) fn get<'a>(
        &self,
        call: &str,
        ask: Ask<'a>,
        is_guard: bool,
    ) -> Option<(Taken, Option<Acquisition<'a>>)> {
        let Ask { who, target, wait, permits } = ask;
        let ObjectPlan { kind, place, ref options } = *target.plan;
        let (begun, mode) = (kernel::elapsed(), mode(kind, permits));
        let waits = !matches!(wait, Wait::Try);
        let was_free = self.is_free(target.plan, begun);
        let waiting = waits.then(|| monitor::waits(target.shared(), target.plan, mode));
        let _ = self.reports();
        let token = self.token(target);
        let its = token.as_ref().map(|token| &token.token);
        let was_cancelled = its.is_some_and(CancelToken::is_cancelled);
        let take = || target.object.take(wait, its, permits, is_guard);
        let taken = self.timed(call, self.limit_of(kind, wait), || self.call_at(place, take));
        if let (Some(number), Ok(Some(_))) = (waiting, &taken) {
            monitor::in_order(number, who);
        }
        let ahead = self.check_report(ask, &taken);
        waiting.into_iter().for_each(monitor::waits_no_more);
        if matches!(taken, Ok(None)) {
            self.check_busy(target.plan, begun, was_free);
        }
        self.check_outage(ask, begun, taken.as_ref().err());
        self.check_cancel(ask, begun, token.as_ref(), was_cancelled, &taken);
        let least = match wait {
            Wait::Forever | Wait::Try => self.client.session_timeout(),
            Wait::For(time) => time,
            // `check_outage` checks for how long such a call waits without a connection.
            Wait::Connected(..) => Duration::ZERO,
        };
        let taken = self.checked_since(call, begun, least, taken)??;
        let mut holds = target.object.holds(&taken);
        if kind == Kind::Several {
            self.check_members(who, target, &holds);
            // Only the first member of a multi-lock is at a place where other clients lock as well.
            holds.truncate(1);
        }
        let acquisition = holds.first().cloned().map(|own| {
            let held = Held::new(who.to_owned(), kind, place, mode, holds);
            let number = monitor::granted(held, begun, options.hold_at_most, None);
            let acquisition = Acquisition { who, target, number, own, was_asked: Cell::new(false) };
            self.check_acquisition(&acquisition, begun, ahead);
            if number.is_multiple_of(8) {
                self.expect_end(&acquisition.own);
            }
            acquisition
        });
        Some((taken, acquisition))
    }

    /// Returns the cancel token of an object's calls.
    fn token(&self, target: Target<'_>) -> Option<Token> {
        let number = target.shared()?;
        let is_it =
            |what: &What| matches!(what, What::CancelWaiters { object } if *object == number);
        self.plan.has(is_it).then(|| self.tokens[number].borrow().clone())
    }

    /// Registers a callback for the end of a hold. The program does not end before it has been called.
    fn expect_end(&self, own: &Hold) {
        kernel::count("call: on_end");
        let (ends, who, hold) = (Arc::clone(&self.ends), self.name.clone(), own.clone());
        ends[0].fetch_add(1, Ordering::Relaxed);
        own.on_end(move || {
            may_wait("the end of a hold");
            if hold.is_held() {
                violation(format!("{who} is notified of the end of a hold that lasts"));
            }
            ends[1].fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(super) fn end_read(&self, read: Option<usize>, lock: &ReadLock) {
        read.into_iter().for_each(monitor::left);
        let said = said(self.checked("unlock", || lock.unlock()));
        read.into_iter().for_each(|read| monitor::ended(read, said));
    }

    pub(super) fn call_at<T>(&self, place: Place, call: impl FnOnce() -> T) -> T {
        let calls = &self.calls[place.0];
        calls.update(|(begun, returned)| (begun + 1, returned));
        let called = call();
        calls.update(|(begun, returned)| (begun, returned + 1));
        called
    }

    pub(super) fn give_back(
        &self,
        target: Target<'_>,
        taken: Taken,
        end: End,
        acquisition: Option<&Acquisition<'_>>,
    ) {
        let ObjectPlan { kind, place, options } = target.plan;
        acquisition.into_iter().for_each(|acquisition| monitor::left(acquisition.number));
        kernel::note(|| format!("gives {place} back ({end:?})"));
        let limit = self.client.session_timeout() / 3 * kind.members();
        let was_lost = acquisition.is_some_and(Acquisition::is_lost);
        let members = match kind {
            Kind::Several => target.object.holds(&taken),
            _ => Vec::new(),
        };
        if let Some(acquisition) = acquisition.filter(|_| !members.is_empty()) {
            self.check_members(acquisition.who, target, &members);
        }
        if !members.is_empty() && monitor(|monitor| monitor.robberies > 0) {
            monitor(|monitor| monitor.robberies -= 1);
            for own in &members {
                let (path, _) = monitor::id_of(*kind, own);
                let _ = network::serve(|servers, now| servers.delete(&path, now));
            }
        }
        let was_there =
            acquisition.is_none_or(|acquisition| monitor::is_there(&acquisition.node()));
        let connections = self.client.stats().connections;
        // The other members of a multi-lock are at separate paths, where multi-locks of any place meet.
        let calls = || match kind {
            Kind::Several => {
                let all = self.calls.iter().map(Cell::get);
                all.fold((0, 0), |sum, calls| (sum.0 + calls.0, sum.1 + calls.1))
            }
            _ => self.calls[place.0].get(),
        };
        let others = calls();
        let acquisitions = acquisition.map_or(0, Acquisition::count);
        let begun = kernel::elapsed();
        let was_connected = self.client.state() == ClientState::Connected;
        let _ = self.reports();
        let released = self.timed("unlock", Some(limit), || release(target.object, taken, end));
        let is_silent = matches!(end, End::Drop | End::Panic);
        if acquisition.is_some() && !is_silent && *kind != Kind::Several {
            self.check_end(&released);
        }
        // When numbers no longer show the order, the downgraded read keeps the node of its write.
        let is_shared =
            |acquisition: &Acquisition<'_>| acquisition.node().0.ends_with(&i32::MAX.to_string());
        let goes_on = matches!(end, End::Downgrade) && acquisition.is_some_and(is_shared);
        // With other options, the node may be deleted in the background, and a refusal is not reported.
        let is_released = options.is_plain() && released.is_ok() && !goes_on && !was_lost;
        // The client has received an answer, so it knows whether the node has been deleted.
        let is_connected = self.client.state() == ClientState::Connected;
        let is_same = || self.client.stats().connections == connections;
        let is_answered = was_connected
            && is_connected
            // This is checked after the answer, because the client may have reconnected in the meantime.
            && is_same()
            // A multi-lock releases its members one after another.
            && kernel::elapsed() - begun < self.client.session_timeout() / 6
            // A thread that gives up may include the deletion of this node in its request.
            && others.0 == others.1
            && calls() == others
            // The calls of leaderships are not counted.
            && !self.leads_at(*place);
        let may_go = is_same()
            && options.hold_at_least.is_none()
            && options.hold_at_most.is_none()
            // A multi-lock may take over a member in the process, and then wait for its next member.
            && *kind != Kind::Several;
        if let Some(acquisition) = acquisition {
            let node = acquisition.node();
            if is_released && is_answered && *kind != Kind::Single {
                self.check_release(acquisition, was_there, is_silent);
            }
            // If not, the next acquisition already uses the node.
            if may_go && acquisition.count() == acquisitions {
                let left = Left { process: kernel::own_process(), since: kernel::elapsed() };
                monitor(|monitor| monitor.left.insert(node, left));
            }
        }
        self.check_unlock(was_lost && !is_silent, &released);
        let said = said(released.ok().filter(|()| !is_silent));
        acquisition.into_iter().for_each(|acquisition| monitor::ended(acquisition.number, said));
    }

    /// Checks the node after its owner has received the answer to its release.
    fn check_release(&self, acquisition: &Acquisition<'_>, was_there: bool, is_silent: bool) {
        let node = acquisition.node();
        if !was_there && !is_silent {
            self.fail(format!("{} had been deleted, but the unlock returned Ok", node.0));
        }
        // A silent release does not report that the servers have refused to delete the node.
        let may_stay = is_silent && monitor(|monitor| monitor.has_hidden);
        // If the hold has exceeded its time limit, the node is deleted in the background.
        let is_lost = monitor::is_lost(acquisition.number);
        if monitor::is_there(&node) && !may_stay && !is_lost {
            self.fail(format!("{} still exists after the unlock", node.0));
        }
    }
}
