//! Is the connection alive, and what should be sent to find out: the lease and the requests in
//! flight. Pure: it is told the time and does no I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::lease::{Lease, Proof};
use crate::clock::Moment;

/// The vital signs of one connection.
#[derive(Debug)]
pub(crate) struct Vitals {
    lease: Lease,
    /// Keyed by number, so the first is the oldest.
    in_flight: BTreeMap<u64, Flight>,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    sent: Moment,
    write: bool,
    /// What its answer certifies, if the leader takes part in it.
    settled: Moment,
}

/// What to send next as a sign of life, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// Nothing before this instant.
    Rest(Instant),
    /// A write now: something is held and its lease wants certifying.
    Write,
    /// A read now.
    Read,
}

/// Whether the connection may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Yes, for all that is known before this instant.
    Alive(Instant),
    /// No: a request has been without an answer for too long.
    Silent(Duration),
}

impl Vitals {
    pub(crate) fn new(lease: Lease) -> Vitals {
        Vitals { lease, in_flight: BTreeMap::new(), next: 0 }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The connection has proved itself: its signs of life begin here.
    pub(crate) fn connected(&mut self, lease: Lease) {
        self.lease = lease;
    }

    /// A request is about to be sent. Returns its number, for [`Vitals::answered`].
    pub(crate) fn sending(&mut self, now: Moment, write: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        let settled = self.lease.settled(now.monotonic);
        let flight = Flight { sent: now, write, settled };
        self.in_flight.insert(number, flight);
        number
    }

    /// The request was answered, or failed without an answer (`proof` is none).
    pub(crate) fn answered(&mut self, number: u64, now: Moment, proof: Option<Proof>) {
        if let (Some(flight), Some(proof)) = (self.in_flight.remove(&number), proof) {
            self.lease.answered(flight.sent, flight.settled, now, proof);
        }
    }

    /// What the pulse should do now.
    pub(crate) fn pulse(&self, now: Instant, held: bool) -> Pulse {
        let due = if held { self.lease.write_due() } else { self.lease.sample_due() };
        let serves = |flight: &Flight| flight.sent.monotonic >= due && (flight.write || !held);
        if now < due {
            Pulse::Rest(due)
        } else if self.in_flight.values().any(serves) {
            // One is on its way already; its answer moves what is due by at least this much.
            Pulse::Rest(due.max(now) + self.lease.step() / 8)
        } else if held {
            Pulse::Write
        } else {
            Pulse::Read
        }
    }

    /// May the connection go on? A request may be without an answer for two thirds of the session
    /// timeout, since a slow disk must not make every client reconnect at once. While something
    /// is held, for a third; for a quarter once the lease wants certifying for that long; and for
    /// a fifth once the lease has no more than that left, which is needed to reconnect.
    ///
    /// While a hold of an earlier connection waits to move here, with `pressed` left of its lease:
    /// for as long as is then left for another connection, if that is of any use.
    pub(crate) fn verdict(&self, now: Instant, held: bool, pressed: Option<Duration>) -> Verdict {
        let timeout = self.lease.timeout();
        let limit = match held || pressed.is_some() {
            true => timeout / 3,
            false => timeout / 3 * 2,
        };
        let Some(oldest) = self.in_flight.values().next() else {
            return Verdict::Alive(now + limit.min(self.lease.step()));
        };
        let sent = oldest.sent.monotonic;
        let mut end = sent + limit;
        if held {
            let step = self.lease.step();
            let uncertified = self.lease.write_due() + step;
            let fifth = timeout / 5;
            let scarce = self.lease.end() - fifth;
            end = end.min(uncertified.max(sent + step)).min(scarce.max(sent + fifth));
        }
        if let Some(left) = pressed.filter(|&left| left >= timeout / 20) {
            let age = now.saturating_duration_since(sent);
            end = end.min(now + left.saturating_sub(age) / 2);
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

    /// A connection and the instant before its connect. All times below are counted from there.
    struct Story {
        start: Moment,
        vitals: Vitals,
    }

    impl Story {
        /// The first answer comes at 10 ms.
        fn new() -> Story {
            let start = Moment::now();
            let lease = Lease::new(T, start, start.monotonic + ms(10));
            let vitals = Vitals::new(lease);
            Story { start, vitals }
        }

        fn at(&self, passed: Duration) -> Moment {
            Moment { monotonic: self.start.monotonic + passed, system: self.start.system + passed }
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

        fn pulse(&self, at: Duration, held: bool) -> Pulse {
            self.vitals.pulse(self.at(at).monotonic, held)
        }

        fn rest(&self, until: Duration) -> Pulse {
            Pulse::Rest(self.at(until).monotonic)
        }

        fn verdict(&self, at: Duration, held: bool) -> Verdict {
            self.vitals.verdict(self.at(at).monotonic, held, None)
        }

        fn alive(&self, until: Duration) -> Verdict {
            Verdict::Alive(self.at(until).monotonic)
        }

        fn left(&self, at: Duration) -> Duration {
            self.vitals.lease().remaining(self.at(at))
        }
    }

    // ---- the pulse

    #[test]
    fn a_sign_of_life_is_wanted_a_quarter_after_the_last_and_never_earlier() {
        let story = Story::new();
        let due = ms(10) + STEP;
        for (held, wanted) in [(false, Pulse::Read), (true, Pulse::Write)] {
            let early = story.pulse(due - MICROSECOND, held);
            assert_eq!(early, story.rest(due), "held: {held}");
            assert_eq!(story.pulse(due, held), wanted, "held: {held}");
            assert_eq!(story.pulse(due + T, held), wanted, "held: {held}");
        }
    }

    #[test]
    fn a_heartbeat_sent_when_it_is_wanted_renews_the_lease() {
        let mut story = Story::new();
        story.read(ms(4000), ms(4010));
        let due = ms(4010) + STEP;
        assert_eq!(story.pulse(due - MICROSECOND, true), story.rest(due));
        assert_eq!(story.pulse(due, true), Pulse::Write);
        let number = story.send(due, true);
        let before = story.left(due);
        story.answer(number, due, Some(Proof::Leader));
        assert_eq!(story.left(due) - before, ms(4000));
    }

    #[test]
    fn only_an_uncertified_older_sample_makes_a_heartbeat_due_at_once() {
        let mut story = Story::new();
        story.read(ms(4000), ms(4010));
        story.read(ms(8000), ms(8010));
        assert_eq!(story.pulse(ms(8010), true), Pulse::Write);
        let unheld = story.pulse(ms(8010), false);
        assert_eq!(unheld, story.rest(ms(8010) + STEP));
    }

    #[test]
    fn a_request_on_its_way_serves_if_it_is_of_the_kind_and_not_too_early() {
        let due = ms(10) + STEP;
        let now = due + ms(1);
        for (sent, write, held, serves) in [
            (due, true, true, true),
            (due, true, false, true),
            (due, false, false, true),
            (due, false, true, false),
            (due - MICROSECOND, true, true, false),
            (due - MICROSECOND, false, false, false),
        ] {
            let mut story = Story::new();
            story.send(sent, write);
            let pulse = story.pulse(now, held);
            let rests = matches!(pulse, Pulse::Rest(until) if until > story.at(now).monotonic);
            assert_eq!(rests, serves, "sent at {sent:?}, write: {write}, held: {held}: {pulse:?}");
        }
    }

    #[test]
    fn a_request_that_failed_without_an_answer_is_no_sign_of_life() {
        let mut story = Story::new();
        let number = story.send(ms(4000), true);
        story.answer(number, ms(4010), None);
        assert_eq!(story.pulse(ms(4010), false), Pulse::Read);
        assert_eq!(story.left(ms(4010)), T - T / 50 - ms(4010));
        assert_eq!(story.verdict(ms(60_000), true), story.alive(ms(60_000) + STEP));
    }

    #[test]
    fn a_refused_write_is_a_sample_but_certifies_nothing() {
        let mut story = Story::new();
        story.read(ms(3500), ms(3510));
        let before = story.left(ms(7010));
        let number = story.send(ms(7000), true);
        story.answer(number, ms(7010), Some(Proof::Server));
        assert_eq!(story.left(ms(7010)), before);
        assert_eq!(story.pulse(ms(7010), false), story.rest(ms(7010) + STEP));
        assert_eq!(story.pulse(ms(7010), true), Pulse::Write);
    }

    #[test]
    fn a_heartbeat_certifies_whatever_is_answered_before_its_own_answer() {
        let mut story = Story::new();
        story.read(ms(4000), ms(4010));
        story.read(ms(7020), ms(7030));
        // The first read is old enough for it.
        let heartbeat = story.send(ms(10_020), true);
        // The second has been the newest for a quarter: this becomes the newest.
        story.read(ms(10_025), ms(10_030));
        story.answer(heartbeat, ms(10_040), Some(Proof::Leader));
        let certified = story.left(ms(10_040)) + ms(10_040) - (T - T / 50);
        assert_eq!(certified, ms(4000));
    }

    // ---- the verdict

    #[test]
    fn without_a_request_it_is_alive_and_looked_at_again_in_a_quarter() {
        let story = Story::new();
        for held in [false, true] {
            let now = T * 100;
            assert_eq!(story.verdict(now, held), story.alive(now + STEP));
        }
    }

    #[test]
    fn a_request_may_be_unanswered_for_two_thirds_while_nothing_is_held() {
        let mut story = Story::new();
        story.send(ms(20), true);
        let end = ms(20) + T / 3 * 2;
        assert_eq!(story.verdict(end - MICROSECOND, false), story.alive(end));
        let verdict = story.verdict(end, false);
        assert_eq!(verdict, Verdict::Silent(T / 3 * 2));
    }

    #[test]
    fn a_request_may_be_unanswered_for_a_third_while_something_is_held() {
        let mut story = Story::new();
        story.send(ms(20), false);
        let end = ms(20) + T / 3;
        assert_eq!(story.verdict(end - MICROSECOND, true), story.alive(end));
        assert_eq!(story.verdict(end, true), Verdict::Silent(T / 3));
    }

    #[test]
    fn a_heartbeat_may_be_unanswered_for_a_quarter() {
        let mut story = Story::new();
        let due = ms(10) + STEP;
        story.send(due, true);
        let end = due + STEP;
        assert_eq!(story.verdict(end - MICROSECOND, true), story.alive(end));
        assert_eq!(story.verdict(end, true), Verdict::Silent(STEP));
    }

    #[test]
    fn a_request_from_shortly_before_the_heartbeat_is_due_has_a_quarter_from_then() {
        let mut story = Story::new();
        let due = ms(10) + STEP;
        story.send(due - ms(500), false);
        story.send(due, true);
        let end = due + STEP;
        assert_eq!(story.verdict(end - MICROSECOND, true), story.alive(end));
        assert_eq!(story.verdict(end, true), Verdict::Silent(STEP + ms(500)));
    }

    #[test]
    fn the_oldest_unanswered_request_decides_in_whatever_order_answers_come() {
        let mut story = Story::new();
        let first = story.send(ms(100), false);
        let second = story.send(ms(200), false);
        story.send(ms(300), false);
        story.answer(second, ms(400), Some(Proof::Server));
        let limit = T / 3 * 2;
        assert_eq!(
            story.verdict(ms(500), false),
            story.alive(ms(100) + limit),
            "the first is open"
        );
        story.answer(first, ms(600), Some(Proof::Server));
        assert_eq!(
            story.verdict(ms(700), false),
            story.alive(ms(300) + limit),
            "the third is open"
        );
    }

    #[test]
    fn a_hold_shortens_the_patience_with_what_is_under_way() {
        let mut story = Story::new();
        story.send(ms(20), true);
        let age = T / 2;
        let now = ms(20) + age;
        assert_eq!(story.verdict(now, false), story.alive(ms(20) + T / 3 * 2), "unheld");
        assert_eq!(story.verdict(now, true), Verdict::Silent(age), "held");
    }

    #[test]
    fn a_hold_that_waits_to_move_here_leaves_as_long_for_another_connection() {
        let mut story = Story::new();
        story.send(ms(20), true);
        let at = |age: u64, left: u64| {
            let now = story.at(ms(20) + ms(age)).monotonic;
            story.vitals.verdict(now, false, Some(ms(left)))
        };
        // The lease of the other one ends 4 s after the request was sent.
        assert_eq!(at(0, 4000), story.alive(ms(2020)));
        assert_eq!(at(1000, 3000), story.alive(ms(2020)));
        assert_eq!(at(2000, 2000), Verdict::Silent(ms(2000)));
        assert_eq!(at(10, 20_000), story.alive(ms(20) + T / 3), "never longer");
        let useless = (T / 20).as_millis() as u64 - 1;
        assert_eq!(at(3000, useless), story.alive(ms(20) + T / 3));
    }

    #[test]
    fn proving_the_connection_keeps_what_is_in_flight() {
        let mut story = Story::new();
        story.send(ms(20), false);
        let lease = Lease::new(T, story.start, story.at(ms(50)).monotonic);
        story.vitals.connected(lease);
        assert_eq!(story.verdict(ms(60), false), story.alive(ms(20) + T / 3 * 2));
        assert_eq!(story.pulse(ms(60), false), story.rest(ms(50) + STEP));
    }
}
