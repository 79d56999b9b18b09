//! The vital signs of a connection: whether it is alive, and what to send to find out. They include the
//! lease and the instants of requests in flight. Pure: the time is an input.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::clock::Moment;
use super::lease::{Lease, Proof};

/// The vital signs of a session and its connection.
#[derive(Debug)]
pub(crate) struct Vitals {
    lease: Lease,
    /// The requests without an answer, by number from `oldest` on. `None` stands for one that was
    /// answered before an older one.
    in_flight: VecDeque<Option<Sign>>,
    oldest: u64,
    /// The instant of the last answer.
    heard: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Sign {
    sent: Moment,
    write: bool,
    /// The request that the answer to this one certifies if the leader takes part.
    settled: Moment,
}

/// The next sign of life to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// Nothing before this instant.
    Rest(Instant),
    /// A write now, to certify the lease of a hold.
    Write,
    /// A read now.
    Read,
}

/// Whether the connection may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection may continue, at least until this instant.
    Alive(Instant),
    /// The connection must end: a request has had no answer for this long.
    Silent(Duration),
}

impl Vitals {
    pub(crate) fn new(lease: Lease) -> Vitals {
        Vitals { lease, in_flight: VecDeque::new(), oldest: 0, heard: None }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn lease_mut(&mut self) -> &mut Lease {
        &mut self.lease
    }

    /// Returns the number of requests without an answer.
    pub(crate) fn under_way(&self) -> usize {
        self.in_flight.len()
    }

    /// Forgets the requests in flight, because their connection broke.
    pub(crate) fn broke(&mut self) {
        self.oldest += self.in_flight.len() as u64;
        self.in_flight.clear();
    }

    /// Notes a request that is about to be sent. Returns its number, for [`Vitals::answered`].
    pub(crate) fn sending(&mut self, now: Moment, write: bool) -> u64 {
        let settled = self.lease.settled(now.monotonic);
        let flight = Sign { sent: now, write, settled };
        self.in_flight.push_back(Some(flight));
        self.oldest + self.in_flight.len() as u64 - 1
    }

    /// Notes the answer to a request. Without a `proof`, the request has no answer, or one that proves
    /// nothing.
    pub(crate) fn answered(&mut self, number: u64, now: Moment, proof: Option<Proof>) {
        let index = number.checked_sub(self.oldest);
        let flight = index.and_then(|index| self.in_flight.get_mut(index as usize)?.take());
        if let (Some(flight), Some(proof)) = (flight, proof) {
            self.heard = Some(now.monotonic);
            self.lease.answered(flight.sent, flight.settled, now, proof);
        }
        while self.in_flight.front().is_some_and(Option::is_none) {
            self.in_flight.pop_front();
            self.oldest += 1;
        }
    }

    /// Returns what to send now.
    pub(crate) fn pulse(&self, now: Instant, held: bool) -> Pulse {
        let wants_write = held && now >= self.lease.write_due();
        let due = if wants_write { self.lease.write_due() } else { self.lease.sample_due(now) };
        let serves = |flight: &Sign| flight.sent.monotonic >= due && (flight.write || !wants_write);
        if now < due {
            Pulse::Rest(due)
        } else if self.in_flight.iter().flatten().any(serves) {
            // A request in flight already counts as the sign of life that is due. The next check is
            // an eighth of a step later.
            Pulse::Rest(due.max(now) + self.lease.step() / 8)
        } else if wants_write {
            Pulse::Write
        } else {
            Pulse::Read
        }
    }

    /// Returns whether the connection may go on.
    ///
    /// Normally a request may stay unanswered until two thirds of the session timeout after the last
    /// answer, but for at least a third. A slow disk must not make every client reconnect at once, and
    /// a third is needed to resume the session elsewhere.
    ///
    /// While something is held, a request may stay unanswered for only a third of the session timeout.
    /// That becomes a quarter once the lease has been due for renewal for that long, and a fifth once
    /// at most a fifth of the timeout is left of the lease, because reconnecting needs that much.
    pub(crate) fn verdict(&self, now: Instant, held: bool) -> Verdict {
        let timeout = self.lease.timeout();
        let third = timeout / 3;
        let Some(oldest) = self.in_flight.front().and_then(Option::as_ref) else {
            return Verdict::Alive(now + self.lease.step());
        };
        let sent = oldest.sent.monotonic;
        let mut end = sent + third;
        if !held {
            end = end.max(self.heard.unwrap_or(sent) + third * 2);
        } else {
            let step = self.lease.step();
            let uncertified = self.lease.write_due() + step;
            let fifth = timeout / 5;
            let scarce = self.lease.end() - fifth;
            end = end.min(uncertified.max(sent + step)).min(scarce.max(sent + fifth));
        }
        if now >= end {
            Verdict::Silent(now.saturating_duration_since(sent))
        } else {
            Verdict::Alive(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(12);
    const STEP: Duration = Duration::from_secs(3);
    const MICROSECOND: Duration = Duration::from_micros(1);

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A connection, and the instant before it was opened, from which all times below are counted.
    struct Story {
        start: Moment,
        vitals: Vitals,
    }

    impl Story {
        /// Begins with a first answer at 10 ms.
        fn new() -> Story {
            let start = Moment::now();
            let lease = Lease::new(T, start, start.monotonic + ms(10));
            let vitals = Vitals::new(lease);
            Story { start, vitals }
        }

        fn at(&self, passed: Duration) -> Moment {
            self.start.after(passed)
        }

        fn send(&mut self, at: Duration, write: bool) -> u64 {
            self.vitals.sending(self.at(at), write)
        }

        fn answer(&mut self, number: u64, at: Duration, proof: Option<Proof>) {
            self.vitals.answered(number, self.at(at), proof);
        }

        fn read(&mut self, sent: Duration, answered: Duration) {
            let number = self.send(sent, false);
            self.answer(number, answered, Some(Proof::Server));
        }

        fn verdict(&self, at: Duration, held: bool) -> Verdict {
            self.vitals.verdict(self.at(at).monotonic, held)
        }

        fn alive(&self, until: Duration) -> Verdict {
            Verdict::Alive(self.at(until).monotonic)
        }

        fn left(&self, at: Duration) -> Duration {
            self.vitals.lease().remaining(self.at(at))
        }
    }

    #[test]
    fn heartbeat_certifies_samples_answered_before_its_answer() {
        let mut story = Story::new();
        story.read(ms(4000), ms(4010));
        story.read(ms(7020), ms(7030));
        // The first read is old enough for the heartbeat to certify it.
        let heartbeat = story.send(ms(10_020), true);
        // When this read is answered, the second one has settled, so this read becomes the newest
        // sample.
        story.read(ms(10_025), ms(10_030));
        story.answer(heartbeat, ms(10_040), Some(Proof::Leader));
        let certified = story.left(ms(10_040)) + ms(10_040) - (T - T / 50);
        assert_eq!(certified, ms(4000));
    }

    #[test]
    fn renewal_after_a_stall_counts_from_the_youngest_request() {
        // The server stalls, and then answers both requests at `end`.
        let end = ms(10_900);
        for last in [ms(10_000), end] {
            let mut story = Story::new();
            story.read(ms(3100), ms(3110));
            let first = story.send(ms(6120), true);
            story.answer(first, end, Some(Proof::Leader));
            let pulse = |held| story.vitals.pulse(story.at(end).monotonic, held);
            assert_eq!([false, true].map(pulse), [Pulse::Read; 2]);
            story.read(last, end);
            let pulse = |held| story.vitals.pulse(story.at(end).monotonic, held);
            assert_eq!([false, true].map(pulse), [Pulse::Rest(story.at(end + STEP).monotonic); 2]);
            let renewal = story.send(end + STEP, true);
            story.answer(renewal, end + STEP, Some(Proof::Leader));
            assert_eq!(story.left(end + STEP), T - T / 50 - (end + STEP - last));
        }
    }

    #[test]
    fn silence_of_two_thirds_leaves_a_third_for_a_resume() {
        let mut story = Story::new();
        story.read(ms(20), ms(100));
        let ping = ms(100) + STEP;
        story.send(ping, false);
        let end = ms(100) + T / 3 * 2;
        assert_eq!(story.verdict(end - MICROSECOND, false), story.alive(end));
        assert_eq!(story.verdict(end, false), Verdict::Silent(T / 3 * 2 - STEP));
        let late = ms(100) + T / 2;
        let mut story = Story::new();
        story.read(ms(20), ms(100));
        story.send(late, false);
        assert_eq!(story.verdict(end, false), story.alive(late + T / 3), "a third at least");
    }

    #[test]
    fn silence_is_noticed_the_sooner_the_less_is_left_of_a_lease() {
        for (sent, limit) in [(ms(2000), T / 3), (ms(5000), T / 4), (ms(8000), T / 5)] {
            let mut story = Story::new();
            story.send(sent, false);
            assert_eq!(story.verdict(sent, true), story.alive(sent + limit));
        }
    }

    #[test]
    fn oldest_unanswered_request_decides_in_any_order_of_answers() {
        let mut story = Story::new();
        let first = story.send(ms(100), false);
        let second = story.send(ms(200), false);
        story.send(ms(300), false);
        story.answer(second, ms(400), Some(Proof::Server));
        let limit = T / 3;
        assert_eq!(story.verdict(ms(500), true), story.alive(ms(100) + limit), "the first is open");
        story.answer(first, ms(600), Some(Proof::Server));
        assert_eq!(story.verdict(ms(700), true), story.alive(ms(300) + limit), "the third is open");
    }
}
