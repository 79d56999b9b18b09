//! Checks what the library promises to a client: the errors and the duration of calls, and the meanings of options and
//! tokens.

use std::time::Duration;

use kernel::thread;
use zoolock::observer::HoldOutcome;
use zoolock::{ClientState, Error, ErrorKind, Hold, HoldState, LossReason, Result};

use super::acquisition::{Acquisition, Ask, Target};
use super::{Ahead, Report, SLACK, Shared, Token, board, has_jumped, has_stalled, stalled};
use crate::coverage::count_variant;
use crate::monitor::{self, Monitor, READ, SECOND, monitor, outages, violation};
use crate::network;
use crate::plan::{Kind, ObjectPlan, Odd, Wait, What};

impl Shared {
    /// Makes a call. Returns its value, or checks its error.
    pub(super) fn checked<T>(&self, call: &str, make: impl FnOnce() -> Result<T>) -> Option<T> {
        let begun = kernel::elapsed();
        self.checked_since(call, begun, Duration::from_secs(1), make())
    }

    /// Checks the error of a call that began at `begun` and may take `least` or a third of the session timeout.
    pub(super) fn checked_since<T>(
        &self,
        call: &str,
        begun: Duration,
        least: Duration,
        result: Result<T>,
    ) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        kernel::note(|| format!("{call}: {error}"));
        count_variant("error", &error);
        if !self.may_say(call, &error) {
            self.fail(format!("{call}: {error}"));
        }
        // If the client is closed between a write and its answer, the call is not checked.
        if error.kind() == ErrorKind::Unavailable && !self.is_closed.get() {
            self.check_unknown(call, begun, least);
        }
        None
    }

    /// Checks the error of a guarded write without a connection: until its time is over, it must know the outcome.
    pub(super) fn check_unsent(&self, call: &str, begun: Duration, written: &Result<()>) {
        let (process, took) = (kernel::own_process(), kernel::elapsed() - begun);
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable)
            && took + SLACK < self.client.session_timeout() / 3
            && !self.is_closed.get()
            && !has_jumped(process, begun)
        {
            self.fail(format!("a {call} that was not sent has no answer after {took:?}"));
        }
    }

    /// Checks a call that reports an unknown state: its client was disconnected for a while, or its time was over.
    fn check_unknown(&self, call: &str, begun: Duration, least: Duration) {
        let (process, took) = (kernel::own_process(), kernel::elapsed() - begun);
        let patience = self.client.session_timeout() / 3;
        let problem = format!("{}: {call} found nothing out in {took:?}", self.name);
        if took + SLACK < least.min(patience) && !has_jumped(process, begun) {
            // After a malformed answer, first the request fails, and then the connection ends.
            kernel::after(SLACK, move || {
                if !outages::was_cut_off(process, begun) {
                    violation(problem);
                }
            });
        }
    }

    /// Returns whether the call's documentation allows this error.
    pub(super) fn may_say(&self, call: &str, error: &Error) -> bool {
        let waits_or_tries = matches!(call, "lock" | "try lock" | "nested lock");
        match error {
            Error::Closed => self.is_closed.get(),
            Error::Multiple { failures, .. } => {
                (waits_or_tries || call == "unlock")
                    && failures.iter().all(|one| {
                        !matches!(one, Error::Multiple { .. })
                            && (self.may_say(call, one) || self.may_say("unlock", one))
                    })
            }
            Error::Disconnected { .. } => {
                !matches!(call, "lock" | "unlock" | "re-entry" | "revocation" | "set_limit")
            }
            Error::MaybeDone { .. } => {
                call.ends_with("commit") || matches!(call, "revoke" | "break_lock")
            }
            Error::Lost { path, reason, .. } if !monitor::may_be_lost(path, *reason) => false,
            Error::Lost { reason: LossReason::ClientClosed, .. } => self.is_closed.get(),
            // The runs for which this matters have no fault that could cost a hold.
            Error::Lost { reason: LossReason::HeldTooLong, .. } => {
                !matches!(call, "close" | "verify" | "contenders")
            }
            Error::Lost { .. } if monitor(|monitor| monitor.is_gentle) => self.is_closed.get(),
            Error::Lost { .. } => {
                let of_holds = ["re-entry", "read below", "revocation", "expire_in"];
                let is_commit = call.ends_with("commit");
                waits_or_tries
                    || is_commit
                    || call.starts_with("unlock")
                    || of_holds.contains(&call)
            }
            // An ephemeral node may now be at the path of a directory that a lost hold used.
            Error::InvalidPath { .. } => waits_or_tries || call == "read below",
            Error::Cancelled { .. } => waits_or_tries,
            // All other kinds use few nodes.
            Error::LimitExceeded { .. } => {
                let is_much =
                    |what: &What| matches!(what, What::Odd { odd: Odd::LongPaths { .. }, .. });
                waits_or_tries && self.plan.has(is_much)
            }
            Error::WouldDeadlock { .. } => call == "nested lock",
            Error::NotHeld { .. } => {
                matches!(call, "revoke" | "break_lock" | "late commit" | "unlock of nothing")
            }
            Error::NotOwner { .. } => call == "unlock of nothing",
            Error::Conflict { .. } => call == "careful commit",
            Error::InvalidArgument { .. } => {
                waits_or_tries
                    || matches!(call, "revoke" | "break_lock" | "commit" | "careful commit")
            }
            Error::CloseTimeout { .. } => call == "close",
            Error::PermissionDenied { .. } => monitor(|monitor| monitor.has_hidden),
            _ => false,
        }
    }

    /// Checks that a call gives up when it has been disconnected for as long as it may wait, and not earlier.
    pub(super) fn check_outage(&self, ask: Ask<'_>, begun: Duration, error: Option<&Error>) {
        if let Wait::Connected(time, limit) = ask.wait {
            // After its deadline, a call that has received no answer returns the same error.
            let is_in_time = time.is_none_or(|time| kernel::elapsed() < begun + time);
            let is_disconnected = is_in_time && matches!(error, Some(Error::Disconnected { .. }));
            // The call also releases what it has acquired so far. It may be the next ping that detects a broken
            // connection.
            let members = ask.target.plan.kind.members();
            let more = self.client.session_timeout() / 3 * (2 * members + 1);
            outages::check(begun, limit, more, is_disconnected);
        }
    }

    /// Returns whether, since `begun`, a lock has had no other contender, neither on the servers nor in this process.
    pub(super) fn is_free(&self, object: &ObjectPlan, begun: Duration) -> bool {
        let ObjectPlan { kind, place, .. } = *object;
        let (others, returned) = self.calls[place.0].get();
        // Nodes of calls that have given up may still exist.
        let is_idle = others == returned && self.client.stats().deleting == 0;
        let is_held = self.leads_at(place) || monitor::has_here(kernel::own_process(), kind, place);
        // If the limit is lowered, too few permits may be left for a call.
        let narrows = |what: &What| matches!(what, What::Narrow { .. });
        let may_be_small = kind == Kind::Semaphore && self.plan.has(narrows);
        is_idle
            && !is_held
            && !may_be_small
            && !monitor(|monitor| monitor.was_taken(kind, place, begun))
    }

    /// Checks a call that reports that a lock is busy: another contender must have existed, or, if the client was
    /// disconnected, a thread of this process must have held the lock.
    pub(super) fn check_busy(&self, object: &ObjectPlan, begun: Duration, was_free: bool) {
        let ObjectPlan { kind, place, .. } = *object;
        let (process, now) = (kernel::own_process(), kernel::elapsed());
        // The client needs some time after a pause to find out what has happened.
        let since = begun.saturating_sub(SLACK);
        // A multi-lock releases the members it has acquired, and some members are at other places.
        if matches!(kind, Kind::Several | Kind::Leadership) || has_stalled(process, since) {
            return;
        }
        let is_cut = outages::is_cut_off(process, now.saturating_sub(SLACK))
            && self.client.state() != ClientState::Connected;
        if is_cut && !monitor::may_hold_here(process, kind, place) {
            let name = &self.name;
            let problem =
                format!("{name}: {place} ({kind:?}) is reported as busy, without a connection");
            // A thread that has acquired the lock may be paused before its call returns.
            kernel::after(SLACK, move || {
                if !monitor::may_hold_here(process, kind, place) {
                    violation(problem);
                }
            });
        }
        if was_free && self.is_free(object, begun) {
            self.fail(format!("{place} ({kind:?}) is reported as busy, but was free"));
        }
    }

    /// Checks that an idle client that holds nothing has no nodes on the servers.
    pub(super) fn check_nodes(&self) {
        let limit = kernel::elapsed() + self.client.session_timeout() * 2;
        while let Some(path) = monitor::node_of(kernel::own_process()) {
            if kernel::elapsed() > limit {
                return self.fail(format!("{path} exists, but its client has forgotten it"));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Checks that a call is cancelled only by its own token and returns soon after that, and that it acquires nothing
    /// if the token was cancelled before the call.
    pub(super) fn check_cancel<T>(
        &self,
        ask: Ask<'_>,
        begun: Duration,
        token: Option<&Token>,
        was_cancelled: bool,
        taken: &Result<Option<T>>,
    ) {
        let is_cancelled = matches!(taken, Err(Error::Cancelled { .. }));
        let token = token.filter(|token| token.token.is_cancelled());
        if is_cancelled && token.is_none() {
            self.fail("a call failed as cancelled, but its token was not");
        }
        let kind = ask.target.plan.kind;
        if was_cancelled && kind != Kind::Leadership {
            kernel::count("call: cancelled before it began");
            if !matches!(taken, Err(Error::Cancelled { .. })) {
                self.fail("a call acquired, though it was cancelled before it began");
            }
        }
        if let Some(since) = token.and_then(|token| token.cancelled.get()) {
            let since = since.max(begun);
            let late = kernel::elapsed() - since;
            // A multi-lock releases its members one by one.
            let more = self.client.session_timeout() / 3 * (kind.members() - 1);
            if late > more + SLACK + self.delay(since) {
                self.fail(format!("a cancelled call took {late:?} to return"));
            }
        }
    }

    /// Checks an acquisition's options, and how many contenders were reported ahead of it. Its call began at `begun`.
    pub(super) fn check_acquisition(
        &self,
        acquisition: &Acquisition<'_>,
        begun: Duration,
        ahead: Option<Ahead>,
    ) {
        let ObjectPlan { kind, place, options } = acquisition.target.plan;
        let (own, node) = (&acquisition.own, acquisition.node());
        let in_a_row = match kind {
            Kind::Read | Kind::Semaphore | Kind::Leadership => None,
            Kind::Single => Some(1),
            _ => Some(options.local_handoffs + 1),
        };
        // A multi-lock may have held its first member for a while before it acquired the last one.
        let at_least = options.hold_at_least.filter(|_| *kind != Kind::Several);
        let is_first = monitor::acquisition(*place, *kind, &node, in_a_row, at_least);
        if let Some(ahead) =
            ahead.filter(|_| !matches!(kind, Kind::Several | Kind::Semaphore | Kind::Single))
        {
            monitor::stood(&node, ahead, is_first, begun);
        }
        // All members of a multi-lock have the options of the multi-lock.
        monitor::says(&node, options.identity);
        monitor(|monitor| monitor.left.remove(&node));
        // A new hold is valid for long enough to work with, but pauses and set clocks may use up some of that time.
        let given = monitor(|monitor| monitor.given.get(&node).copied()).filter(|_| !is_first);
        let since = given.map_or(begun, |at| at.max(begun));
        let timeout = self.client.session_timeout();
        // A multi-lock may take over a member in the process, and then wait for its next member.
        let is_new = is_first || *kind == Kind::Several;
        let least = if is_new { timeout / 5 } else { timeout / 3 };
        let left = own.valid_for();
        if own.state() == HoldState::Held
            && options.hold_at_most.is_none()
            && left + SLACK / 5 < least
            && !has_jumped(kernel::own_process(), since)
        {
            violation(format!("{} has {place} for no longer than {left:?}", self.name));
        }
    }

    /// Checks what a multi-lock that holds all its members reports about them.
    pub(super) fn check_members(&self, who: &str, target: Target<'_>, holds: &[Hold]) {
        let Some(lock) = target.object.lock() else { return };
        let mut paths = [target.plan.place.path(), SECOND, READ];
        paths.sort_unstable();
        if lock.path() != paths.join(", ") || !holds.iter().map(Hold::path).eq(paths) {
            self.fail(format!("{} has the holds {holds:?}", lock.path()));
        }
        let are_held = || holds.iter().all(Hold::is_held);
        let (before, said) = (are_held(), lock.is_held());
        if before == are_held() && said != before {
            self.fail(format!("{} is held: {said}; its holds are {holds:?}", lock.path()));
        }
        holds.iter().for_each(|own| monitor::is_first(who, own));
    }

    /// Returns, and forgets, what the observer was notified of on this thread. Returns `None` if there is no observer.
    pub(super) fn reports(&self) -> Option<Vec<(Report, Ahead)>> {
        self.observer.as_ref()?;
        Some(board(|board| board.reports.remove(&thread::number())).unwrap_or_default())
    }

    /// Checks what the observer was notified of about a call. For a multi-lock, it receives a report about each member.
    /// Returns how many contenders were reported ahead.
    pub(super) fn check_report<T>(&self, ask: Ask<'_>, taken: &Result<Option<T>>) -> Option<Ahead> {
        let Ask { wait, target: Target { plan: &ObjectPlan { kind, place, .. }, .. }, .. } = ask;
        let mut all = self.reports().filter(|_| kind != Kind::Leadership)?;
        all.retain(|(report, _)| !matches!(report, Report::Ended(_)));
        let (reports, aheads): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let ahead = aheads.last().copied();
        let expected = match taken {
            Ok(Some(_)) => Report::Acquired,
            Ok(None) if matches!(wait, Wait::Try) => Report::Busy,
            // The deadline may have passed before the call tried the last member.
            Ok(None) if kind == Kind::Several && reports.last() == Some(&Report::Busy) => {
                return ahead;
            }
            Ok(None) => Report::TimedOut,
            Err(Error::Cancelled { .. }) => Report::Cancelled,
            // A member that was acquired before may have been lost.
            Err(_) if kind == Kind::Several => return ahead,
            Err(_) => Report::Failed,
        };
        let is_reported = match kind {
            Kind::Several => reports.last() == Some(&expected),
            _ => reports == [expected],
        };
        // If the numbers of two nodes do not show their order, neither node is reported as ahead of the other.
        let is_behind = expected != Report::Busy
            || ahead != Some(Some(0))
            || kind == Kind::Semaphore
            || monitor(|monitor| monitor.is_any_robbed(place.path()))
            || !monitor::lists::are_normal(place);
        if !is_reported || !is_behind {
            self.fail(format!(
                "an observer receives {reports:?} of a call, {ahead:?}: {expected:?}"
            ));
        }
        ahead
    }

    /// Checks what the observer was notified of about a release. A loss may have been reported before the release.
    pub(super) fn check_end(&self, released: &Result<()>) {
        let Some(mut reports) = self.reports() else { return };
        reports.retain(|(report, _)| matches!(report, Report::Ended(_)));
        let is = |outcome| move |(one, _): &(Report, Ahead)| *one == Report::Ended(outcome);
        let is_reported = match released {
            Ok(()) => reports.len() == 1 && reports.iter().all(is(HoldOutcome::Released)),
            Err(Error::Lost { reason, .. }) => reports.iter().all(is(HoldOutcome::Lost(*reason))),
            Err(_) => true,
        };
        if !is_reported {
            self.fail(format!("an observer receives {reports:?} of a release: {released:?}"));
        }
    }

    pub(super) fn check_unlock(&self, was_lost: bool, released: &Result<()>) {
        if was_lost && released.is_ok() {
            self.fail("the unlock of a lost hold returned Ok");
        }
        self.checked("unlock", || released.clone());
    }

    pub(super) fn verify(&self, acquisition: &Acquisition<'_>) {
        kernel::count("operation: verify");
        let (own, node, kind) = (&acquisition.own, acquisition.node(), acquisition.kind());
        let is_there = || monitor::is_there(&node);
        let before = (own.is_held(), is_there());
        let begun = kernel::elapsed();
        let Some(said) = self.checked("verify", || self.client.verify_token(own.path(), node.1))
        else {
            return;
        };
        let is_plain = !matches!(kind, Kind::Read | Kind::Write);
        // At a path that has a queue, `verify_token` does not check semaphores.
        let is_seen = kind != Kind::Semaphore;
        if said && !before.1 && is_plain {
            self.fail(format!("{:#x} was verified, but is over", node.1));
        }
        // Right after a write has been deleted, its downgraded read may be ahead for a moment.
        let is_sure = |monitor: &mut Monitor| {
            let has_change = monitor.has_left_since(own.path(), begun);
            !monitor.has_strangers && !monitor.is_any_robbed(own.path()) && !has_change
        };
        if !said
            && is_seen
            && monitor(is_sure)
            && before.0
            && before.1
            && own.is_held()
            && is_there()
        {
            self.fail(format!("{:#x} was not verified, and is held", node.1));
        }
    }

    pub(super) fn verify_former(&self) {
        let Some((path, node)) = monitor::former() else { return };
        kernel::count("operation: verifies what may be over");
        let was_there = monitor::is_there(&node);
        let said = self.checked("verify", || self.client.verify_token(&path, node.1));
        if said == Some(true) && !was_there {
            self.fail(format!("{:#x} was verified, and is over: {}", node.1, node.0));
        }
    }

    pub(super) fn limit_of(&self, kind: Kind, wait: Wait) -> Option<Duration> {
        let members = kind.members();
        match wait {
            Wait::Forever | Wait::Connected(None, _) => None,
            // After that, a multi-lock releases the members that it has acquired, one by one.
            Wait::Try => Some(self.client.session_timeout() / 3 * (2 * members - 1)),
            Wait::For(time) | Wait::Connected(Some(time), _) => {
                let patience = self.client.session_timeout() / 3;
                let slowest = monitor(|monitor| monitor.is_undisturbed.then_some(monitor.slowest));
                Some(time + slowest.unwrap_or(patience).min(patience) * (members - 1))
            }
        }
    }

    /// Makes a call, and checks that it returns within `limit`.
    pub(super) fn timed<T>(&self, call: &str, limit: Option<Duration>, f: impl FnOnce() -> T) -> T {
        let begun = kernel::elapsed();
        let made = f();
        let took = kernel::elapsed() - begun;
        if let Some(limit) = limit
            && took > limit + self.delay(begun) + SLACK
        {
            self.fail(format!("{call} took {took:?} instead of {limit:?}"));
        }
        made
    }

    /// Returns for how long a call may have been delayed since `since`.
    fn delay(&self, since: Duration) -> Duration {
        // The observer makes a call for each of two locks.
        let observers = self.observer.as_ref().map(|_| self.client.session_timeout() * 2);
        stalled(kernel::own_process(), since) + observers.unwrap_or_default()
    }
}

/// Checks that no deleted contender's node is watched. Such a node never exists again, so the watch would never end.
pub(super) fn check_watches(name: &str) {
    let missing = || {
        let mut watched = network::with(|world| world.ensemble.watched());
        watched.retain(|path| path.contains("/_c_") && monitor::owner(path).is_none());
        watched
    };
    let before = missing();
    if before.is_empty() {
        return;
    }
    // Wait until clients have received the events of nodes that have just been deleted.
    thread::sleep(Duration::from_millis(300));
    let both = missing().into_iter().filter(|path| before.contains(path));
    both.for_each(|path| violation(format!("{name}: {path} is watched, but does not exist")));
}
