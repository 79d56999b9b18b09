//! What is due: deadlines, the end of the lease, signs of life, and the end of a silent connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Core, LeaseEnd, earlier};
use crate::core::clock::Moment;
use crate::core::connection::{Call, Connection, Effect, Greeting};
use crate::core::message::{self, OpCode};
use crate::core::vitals::{Pulse, Verdict};
use crate::core::watches::Listen;
use crate::error::{Error, ErrorKind};
use crate::types::SessionEventKind;

/// If the clock is read later than planned by more than this, the whole process was paused.
const STALL: Duration = Duration::from_millis(250);
/// The longest time between two readings of the clocks while a lease is kept.
const LOOK: Duration = Duration::from_millis(100);
/// The time until the clock is next read when nothing is due.
const FAR: Duration = Duration::from_secs(3600);

impl<S, W: Listen> Core<S, W> {
    pub(crate) fn keep_lease(&mut self, now: Moment) {
        if self.keeping.keepers == 0 {
            let is_over = self.look_at_lease(now).1.is_zero();
            self.keeping.end = if is_over { LeaseEnd::Unkept } else { LeaseEnd::NotYet };
        }
        self.keeping.keepers += 1;
    }

    pub(crate) fn release_lease(&mut self) {
        self.keeping.keepers = self.keeping.keepers.saturating_sub(1);
    }

    /// Does everything that is due. Returns when to call this again.
    pub(crate) fn tick(&mut self, now: Moment) -> Instant {
        // In each third of the session timeout, at most one pause is excused. Otherwise, a process
        // that is always late would never end a silent connection.
        if now.monotonic > self.looks.planned + STALL
            && now.monotonic > self.looks.excused + self.timeout() / 3
        {
            self.looks.excused = now.monotonic + LOOK;
        }
        if self.queue.next_deadline.is_some_and(|deadline| deadline <= now.monotonic) {
            self.expire_calls(now.monotonic);
        }
        let looks = [self.queue.next_deadline, self.watch_lease(now), self.watch_connection(now)];
        self.looks.planned = looks.into_iter().flatten().min().unwrap_or(now.monotonic + FAR);
        self.looks.planned
    }

    fn watch_lease(&mut self, now: Moment) -> Option<Instant> {
        if self.keeping.keepers == 0 || self.is_over() {
            return None;
        }
        let (_, left) = self.look_at_lease(now);
        if left.is_zero() {
            self.tell_lease_ended();
            return None;
        }
        Some(now.monotonic + left.min(LOOK).min(self.timeout() / 20))
    }

    pub(super) fn tell_lease_ended(&mut self) {
        if self.keeping.keepers > 0
            && self.keeping.end == LeaseEnd::NotYet
            && self.lease().term() > 0
        {
            self.keeping.end = LeaseEnd::Told;
            self.tell(SessionEventKind::LeaseEnded);
        }
    }

    fn watch_connection(&mut self, now: Moment) -> Option<Instant> {
        let connection = self.connection.as_ref().filter(|known| known.doomed.is_none())?;
        let greeting = connection.greeting;
        let next = match self.judge(greeting, now) {
            Ok(next) => next,
            // Answers that arrived while the process was paused are read first.
            Err(_) if now.monotonic < self.looks.excused => self.looks.excused,
            Err(problem) => {
                self.doom(&problem);
                self.connection.iter_mut().for_each(|known| known.is_silent = greeting.is_some());
                self.touch(now);
                return None;
            }
        };
        if greeting.is_some() {
            return Some(next);
        }
        if !self.queue.waiting.is_empty() && now.monotonic >= self.queue.retry_at {
            self.send_waiting(now);
        }
        let retry = (!self.queue.waiting.is_empty()).then_some(self.queue.retry_at);
        earlier(earlier(Some(next), retry), Some(self.pulse(now)))
    }

    /// Returns until when the connection may continue, or why it may not.
    fn judge(&self, greeting: Option<Greeting>, now: Moment) -> Result<Instant, String> {
        let end = self.tries.end(self.long());
        if let Some(Greeting { until, sent, .. }) = greeting {
            let waited = now.monotonic.saturating_duration_since(sent.monotonic);
            return match until.min(end) {
                until if now.monotonic < until => Ok(until),
                _ => Err(format!("no answer to the handshake in {waited:.1?}")),
            };
        }
        match self.vitals.verdict(now.monotonic, self.keeping.keepers > 0) {
            Verdict::Silent(time) => Err(format!("the server was silent for {time:.1?}")),
            Verdict::Alive(_) if now.monotonic >= end => {
                Err(format!("no request was accepted in {:.1?}", self.timeout()))
            }
            Verdict::Alive(until) => Ok(until.min(end)),
        }
    }

    /// Sends a sign of life if one is due. Returns when to check again.
    pub(super) fn pulse(&mut self, now: Moment) -> Instant {
        let is_held = self.keeping.keepers > 0;
        match (self.vitals.pulse(now.monotonic, is_held), &mut self.connection) {
            (Pulse::Rest(until), _) => return until,
            (Pulse::Read, Some(connection)) => {
                let sign = self.vitals.sending(now, false);
                connection.ping(sign, &mut self.outbox.bytes);
                self.outbox.counts.requests += 1;
                self.touch(now);
            }
            (Pulse::Write, _) => {
                let renewal = Call::nobodys(OpCode::SetData, message::renew_lease);
                self.send(Call { effect: Effect::Renew, ..renewal }, now);
            }
            (Pulse::Read, None) => {}
        }
        now.monotonic + self.lease().step() / 8
    }

    fn expire_calls(&mut self, now: Instant) {
        let (mut next, mut ended, mut is_closed) = (None, Vec::new(), false);
        let mut expire = |call: &mut Call<S, W>| {
            if call.deadline.is_none_or(|deadline| deadline > now) {
                next = earlier(next, call.deadline);
                return false;
            }
            is_closed |= call.code == OpCode::CloseSession;
            ended.extend(call.slot.take().map(|slot| (slot, call.was_sent)));
            (call.deadline, call.repeat, call.effect) = (None, false, Effect::None);
            true
        };
        // Answers to these requests may still arrive, so the requests keep their positions.
        for call in self.connection.iter_mut().flat_map(Connection::calls_mut) {
            expire(call);
        }
        self.gathering.retain_mut(|call| !expire(call));
        self.queue.waiting.retain_mut(|call| !expire(call));
        self.queue.next_deadline = next;
        if is_closed {
            self.end();
        }
        for (slot, was_sent) in ended {
            let kind = if was_sent { ErrorKind::Timeout } else { ErrorKind::NoConnection };
            let error = match &self.outage.reason {
                Some(reason) => Error::because(kind, Arc::clone(reason)),
                None => Error::new(kind),
            };
            self.fail(Some(slot), error);
        }
    }
}
