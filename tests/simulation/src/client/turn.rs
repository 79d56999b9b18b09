//! A turn with a lock: the call for it, the deeds of its owner, and its return.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kernel::thread;
use zoolock::{CancelToken, ClientState, Hold, HoldState, ReadLock};
use zoolock_judge::Unlocked;

use super::objects::{Object, Taken, mode, release};
use super::{Shared, Token, may_wait};
use crate::coverage::count_variant;
use crate::network;
use crate::plan::{Deed, End, Kind, ObjectPlan, Place, TurnPlan, Wait, What};
use crate::witness::{self, Held, Left, NodeId, limit, violation, witness};

/// A lock object, and its number in the plan. Another object of that number may be fresh, made for one call.
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

pub(super) struct Turn<'a> {
    pub who: &'a str,
    pub target: Target<'a>,
    /// Number of the hold at the witness.
    pub number: usize,
    pub own: Hold,
    /// It has received a request for the lock. Nobody else reads its channel.
    pub was_asked: Cell<bool>,
}

impl Target<'_> {
    /// Returns the number of an object that other calls use, too.
    pub(super) fn shared(self) -> Option<usize> {
        (!self.is_fresh).then_some(self.number)
    }
}

impl Turn<'_> {
    pub(super) fn kind(&self) -> Kind {
        self.target.plan.kind
    }

    pub(super) fn place(&self) -> Place {
        self.target.plan.place
    }

    pub(super) fn node(&self) -> NodeId {
        witness::id_of(self.kind(), &self.own)
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.own.state(), HoldState::Lost(_))
    }

    pub(super) fn count(&self) -> u32 {
        witness::turns(self.place(), self.kind(), self.own.fencing_token())
    }

    /// Returns the data of a guarded write: node, token and hold.
    pub(super) fn data(&self) -> String {
        let (path, token) = self.node();
        format!("{path} {token} {}", self.number)
    }
}

/// Returns what the judges learn from the answer of an unlock.
pub(super) fn said(answer: Option<()>) -> Unlocked {
    answer.map_or(Unlocked::Silent, |()| Unlocked::Fine)
}

impl Shared {
    pub(super) fn use_lock(&self, name: &str, target: Target<'_>, plan: &TurnPlan) {
        let TurnPlan { wait, permits, ref while_held, end, .. } = *plan;
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
        let Some((taken, turn)) = self.get(call, ask, is_guard) else { return };
        // Otherwise the hold has already ended.
        let Some(turn) = turn else { return self.give_back(target, taken, end, None) };
        while_held.iter().for_each(|deed| self.do_deed(&turn, deed));
        let read = match end {
            End::Downgrade => self.read_below(&turn),
            _ => None,
        };
        self.give_back(target, taken, end, Some(&turn));
        if let (Some(read), Object::Write(_, lock)) = (read, target.object) {
            kernel::count("deed: goes on as a read");
            thread::sleep(Duration::from_millis(30));
            self.end_read(read, lock);
        }
        if while_held.iter().any(|deed| matches!(deed, Deed::Verify)) {
            self.verify(&turn);
        }
    }

    /// Calls for a lock. Returns what it got, and the turn unless the hold has already ended.
    pub(super) fn get<'a>(
        &self,
        call: &str,
        ask: Ask<'a>,
        is_guard: bool,
    ) -> Option<(Taken, Option<Turn<'a>>)> {
        let Ask { who, target, wait, permits } = ask;
        let ObjectPlan { kind, place, ref options } = *target.plan;
        let (begun, mode) = (kernel::elapsed(), mode(kind, permits));
        let waits = !matches!(wait, Wait::Try);
        let was_free = self.is_free(target.plan, begun);
        let waiting = waits.then(|| witness::waits(target.shared(), target.plan, mode));
        let _ = self.reports();
        let token = self.token(target);
        let its = token.as_ref().map(|token| &token.token);
        let was_cancelled = its.is_some_and(CancelToken::is_cancelled);
        let take = || target.object.take(wait, its, permits, is_guard);
        let taken = self.timed(call, self.limit_of(kind, wait), || self.call_at(place, take));
        if let (Some(number), Ok(Some(_))) = (waiting, &taken) {
            witness::in_order(number, who);
        }
        let ahead = self.judge_report(ask, &taken);
        waiting.into_iter().for_each(witness::waits_no_more);
        if matches!(taken, Ok(None)) {
            self.judge_busy(target.plan, begun, was_free);
        }
        self.judge_outage(ask, begun, taken.as_ref().err());
        self.judge_cancel(ask, begun, token.as_ref(), was_cancelled, &taken);
        let least = match wait {
            Wait::Forever | Wait::Try => self.client.session_timeout(),
            Wait::For(time) => time,
            // Its own judge knows for how long it waits without a connection.
            Wait::Connected(..) => Duration::ZERO,
        };
        let taken = self.told_since(call, begun, least, taken)??;
        let mut holds = target.object.holds(&taken);
        if kind == Kind::Several {
            self.judge_members(who, target, &holds);
            // Only the first member is at a place that others lock, too.
            holds.truncate(1);
        }
        let turn = holds.first().cloned().map(|own| {
            let held = Held::new(who.to_owned(), kind, place, mode, holds);
            let number = witness::granted(held, begun, options.hold_at_most, None);
            let turn = Turn { who, target, number, own, was_asked: Cell::new(false) };
            self.judge_turn(&turn, begun, ahead);
            if number.is_multiple_of(8) {
                self.expect_end(&turn.own);
            }
            turn
        });
        Some((taken, turn))
    }

    /// Returns the token of the calls for an object that somebody cancels.
    fn token(&self, target: Target<'_>) -> Option<Token> {
        let number = target.shared()?;
        let is_it =
            |what: &What| matches!(what, What::CancelWaiters { object } if *object == number);
        self.plan.has(is_it).then(|| self.tokens[number].borrow().clone())
    }

    /// Has the end of a hold told, which the end of the program waits for.
    fn expect_end(&self, own: &Hold) {
        kernel::count("call: on_end");
        let (ends, who, hold) = (Arc::clone(&self.ends), self.name.clone(), own.clone());
        ends[0].fetch_add(1, Ordering::Relaxed);
        own.on_end(move || {
            may_wait("the end of a hold");
            if hold.is_held() {
                violation(format!("{who} is told of the end of a hold that lasts"));
            }
            ends[1].fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(super) fn end_read(&self, read: Option<usize>, lock: &ReadLock) {
        read.into_iter().for_each(witness::left);
        let said = said(self.told("unlock", || lock.unlock()));
        read.into_iter().for_each(|read| witness::ended(read, said));
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
        turn: Option<&Turn<'_>>,
    ) {
        let ObjectPlan { kind, place, options } = target.plan;
        turn.into_iter().for_each(|turn| witness::left(turn.number));
        kernel::note(|| format!("gives {place} back ({end:?})"));
        let limit = self.client.session_timeout() / 3 * kind.members();
        let was_lost = turn.is_some_and(Turn::is_lost);
        let members = match kind {
            Kind::Several => target.object.holds(&taken),
            _ => Vec::new(),
        };
        if let Some(turn) = turn.filter(|_| !members.is_empty()) {
            self.judge_members(turn.who, target, &members);
        }
        if !members.is_empty() && witness(|witness| witness.robberies > 0) {
            witness(|witness| witness.robberies -= 1);
            for own in &members {
                let (path, _) = witness::id_of(*kind, own);
                let _ = network::serve(|servers, now| servers.delete(&path, now));
            }
        }
        let was_there = turn.is_none_or(|turn| witness::is_there(&turn.node()));
        let connections = self.client.stats().connections;
        // Several locks have members at places of their own, which others lock from any place.
        let calls = || match kind {
            Kind::Several => {
                let all = self.calls.iter().map(Cell::get);
                all.fold((0, 0), |sum, calls| (sum.0 + calls.0, sum.1 + calls.1))
            }
            _ => self.calls[place.0].get(),
        };
        let others = calls();
        let turns = turn.map_or(0, Turn::count);
        let begun = kernel::elapsed();
        let was_connected = self.client.state() == ClientState::Connected;
        let _ = self.reports();
        let released = self.timed("unlock", Some(limit), || release(target.object, taken, end));
        let is_silent = matches!(end, End::Drop | End::Panic);
        if turn.is_some() && !is_silent && *kind != Kind::Several {
            self.judge_end(&released);
        }
        // Without numbers to order by, the read shares the node of the write that it continues.
        let is_shared = |turn: &Turn<'_>| turn.node().0.ends_with(&i32::MAX.to_string());
        let goes_on = matches!(end, End::Downgrade) && turn.is_some_and(is_shared);
        // With other options the node may go in the background, and nobody hears of a refusal.
        let is_released = options.is_plain() && released.is_ok() && !goes_on && !was_lost;
        // An answer has come, so the client knows what happened to the node.
        let is_connected = self.client.state() == ClientState::Connected;
        let is_same = || self.client.stats().connections == connections;
        let is_answered = was_connected
            && is_connected
            // Counted later: the client may connect again in between.
            && is_same()
            // Several locks are released one after another.
            && kernel::elapsed() - begun < self.client.session_timeout() / 6
            // The request of a thread that gives up may include the deletion.
            && others.0 == others.1
            && calls() == others
            // The calls of leaders are not counted.
            && !self.leads_at(*place);
        let may_go = is_same()
            && options.hold_at_least.is_none()
            && options.hold_at_most.is_none()
            // A multi-lock may take one member over locally while it waits for the next.
            && *kind != Kind::Several;
        if let Some(turn) = turn {
            let node = turn.node();
            if is_released && is_answered && *kind != Kind::Single {
                self.judge_release(turn, was_there, is_silent);
            }
            // The next turn may have the node already.
            if may_go && turn.count() == turns {
                let left = Left { process: kernel::own_process(), since: kernel::elapsed() };
                witness(|witness| witness.left.insert(node, left));
            }
        }
        self.judge_unlock(was_lost && !is_silent, &released);
        let said = said(released.ok().filter(|()| !is_silent));
        turn.into_iter().for_each(|turn| witness::ended(turn.number, said));
    }

    /// Checks a node whose owner knows that it has released it.
    fn judge_release(&self, turn: &Turn<'_>, was_there: bool, is_silent: bool) {
        let node = turn.node();
        if !was_there && !is_silent {
            self.fail(format!("{} was deleted, and the unlock says Ok", node.0));
        }
        // A silent release does not report a refused deletion.
        let may_stay = is_silent && witness(|witness| witness.has_hidden);
        // It may have lasted for too long by then, and its node goes in the background.
        let is_lost = witness::is_lost(turn.number);
        if witness::is_there(&node) && !may_stay && !is_lost {
            self.fail(format!("{} is there behind the unlock", node.0));
        }
    }
}
