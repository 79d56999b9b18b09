//! The certified lease: for how long the servers cannot expire a session. Pure: the instants of
//! connections, requests and answers are inputs.
//!
//! The lease is not "the last answer plus the session timeout". A follower that is cut off from its
//! leader answers reads for seconds, but the leader, which alone expires sessions, is not notified of
//! these reads. The follower reports signs of life to the leader in its answers to the leader's pings,
//! one every half tick. An answered *write* proves that the follower was connected to the leader when
//! the write was sent.
//!
//! Therefore a request counts only when a later write has also been answered. That write must be sent
//! at least half a tick after the answer to the request. A session timeout is at least two ticks
//! (`minSessionTimeout`), so a quarter of it covers the half tick. With an `ObserverMaster`, signs of
//! life take up to a whole tick, so the timeout must be four ticks.
//!
//! A resumed session is different. The follower asks its leader before it resumes the session, so
//! there is no need to wait for a quarter of the timeout after the ConnectRequest. But that leader
//! may have been deposed without having detected it. The first write answered on the new connection
//! certifies the ConnectRequest.

use std::time::{Duration, Instant};

use super::clock::Moment;

/// An answered request, as a sign of life.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: Moment,
    /// A write sent from this instant on certifies the sample.
    settles: Instant,
}

impl Sample {
    /// Returns whether this sample should be replaced, although it has not settled yet, by one with
    /// these instants, which would renew the lease for much longer and settles hardly later. When a
    /// server that stalled continues, it answers all requests from the stall at once, the oldest first.
    fn is_worse_than(&self, sent: Instant, settles: Instant) -> bool {
        let longer = sent.saturating_duration_since(self.sent.monotonic);
        let later = settles.saturating_duration_since(self.settles);
        longer > later * 4
    }
}

/// The lease of one session, over its connections.
///
/// The lease lasts for `T - T/50` from the instant at which the newest certified request was sent. Two
/// samples are enough: when `newer` is answered, a write that is sent now can already certify `older`.
#[derive(Debug)]
pub(crate) struct Lease {
    timeout: Duration,
    /// The shortest session timeout since the certified request was sent.
    granted: Duration,
    certified: Moment,
    older: Sample,
    newer: Sample,
    /// Counts the times that the lease was renewed after it had run out. What was granted in one
    /// term ends with that term: a later renewal does not restore it.
    term: u64,
    /// Whether a check has found that the lease is over. It stays over, even if the system clock is
    /// set back.
    over: bool,
}

/// What an answer proves about the connection between the server and its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The leader took part: a write, answered with Ok, BadVersion, NoNode or NodeExists.
    Leader,
    /// The server may have answered by itself: a read, a ping.
    Server,
}

impl Lease {
    /// Creates the lease of a new session, whose creation was a write. `connect` is the instant
    /// before its ConnectRequest, `answered` the instant of the answer.
    pub(crate) fn new(timeout: Duration, connect: Moment, answered: Instant) -> Lease {
        let sample = Sample { sent: connect, settles: answered + timeout / 4 };
        Lease {
            timeout,
            granted: timeout,
            certified: connect,
            older: sample,
            newer: sample,
            term: 0,
            over: false,
        }
    }

    /// Creates the lease of the next session, with another term.
    pub(crate) fn next(&self, timeout: Duration, connect: Moment, answered: Instant) -> Lease {
        Lease { term: self.term + 1, ..Lease::new(timeout, connect, answered) }
    }

    /// Continues the lease on another connection. Certified requests still count; samples of the
    /// earlier connection do not.
    pub(crate) fn resumed(&mut self, timeout: Duration, connect: Moment, answered: Instant) {
        let sample = Sample { sent: connect, settles: answered };
        self.timeout = timeout;
        // From now on, the servers apply the new timeout. A longer lease would outlive the session.
        self.granted = self.granted.min(timeout);
        self.older = sample;
        self.newer = sample;
    }

    /// Ends the lease, because its session has ended.
    pub(crate) fn end_now(&mut self) {
        self.over = true;
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the time between two samples, and between a sample and the write that certifies it.
    pub(crate) fn step(&self) -> Duration {
        self.timeout / 4
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    fn length(&self) -> Duration {
        self.granted - self.granted / 50
    }

    /// Returns what is left of the lease; zero when it has run out.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        if self.over {
            return Duration::ZERO;
        }
        self.length().saturating_sub(now.at_most_since(self.certified))
    }

    /// Like `remaining`, for callers that report the result. A lease that is over when this is called
    /// stays over from then on.
    pub(crate) fn look(&mut self, now: Moment) -> Duration {
        let remaining = self.remaining(now);
        self.over = remaining.is_zero();
        remaining
    }

    /// Returns when the lease runs out, by the monotonic clock.
    pub(crate) fn end(&self) -> Instant {
        self.certified.monotonic + self.length()
    }

    /// Returns the request that a write sent at `now` certifies once it is answered: the newest
    /// sample that is old enough. Call this when the write is sent, because answers that arrive before
    /// the write's own answer replace the samples.
    pub(crate) fn settled(&self, now: Instant) -> Moment {
        // Only the monotonic clock is used. A system clock that is set forward would make the
        // sample settle too early.
        let settled = |sample: &&Sample| sample.settles <= now;
        let newest = [&self.newer, &self.older].into_iter().find(settled);
        newest.map_or(self.certified, |sample| sample.sent)
    }

    /// Notes an answer that came at `now` to a request sent at `sent`. If the answer proves that the
    /// leader took part, it certifies the request that `settled` returned when this one was sent.
    pub(crate) fn answered(&mut self, sent: Moment, settled: Moment, now: Moment, proof: Proof) {
        if proof == Proof::Leader {
            self.certify(settled, now);
        }
        let sample = Sample { sent, settles: now.monotonic + self.step() };
        if now.monotonic >= self.newer.settles {
            self.older = self.newer;
            self.newer = sample;
        } else if self.newer.is_worse_than(sent.monotonic, sample.settles) {
            self.newer = sample;
        }
    }

    fn certify(&mut self, settled: Moment, now: Moment) {
        if settled.monotonic > self.certified.monotonic {
            if self.look(now).is_zero() {
                self.term += 1;
            }
            self.certified = settled;
            self.granted = self.timeout;
            self.over = false;
        }
    }

    /// Returns when a write is due to keep the lease going: as soon as it can certify the older of the
    /// uncertified samples. An earlier write would certify nothing. A fixed time after the last write
    /// would not be enough: with frequent short locks, too little of the lease could be left to
    /// reconnect.
    pub(crate) fn write_due(&self) -> Instant {
        let older_is_certified = self.older.sent.monotonic <= self.certified.monotonic;
        let next = if older_is_certified { &self.newer } else { &self.older };
        next.settles
    }

    /// Returns when a request is due whose answer is the next sample. It is due at once if the newest
    /// sample was answered late, and a request that is sent now can still replace it.
    pub(crate) fn sample_due(&self, now: Instant) -> Instant {
        let answered = self.newer.settles - self.step();
        let took = answered.saturating_duration_since(self.newer.sent.monotonic);
        let can_be_replaced = self.newer.is_worse_than(now, now + self.step());
        if took > self.step() / 2 && can_be_replaced { answered } else { self.newer.settles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_does_not_outlive_a_session_that_is_resumed_with_a_shorter_timeout() {
        let (start, second) = (Moment::now(), Duration::from_secs(1));
        let mut lease = Lease::new(10 * second, start, start.monotonic);
        lease.resumed(2 * second, start.after(second), start.after(second).monotonic);
        assert!(lease.remaining(start.after(3 * second)).is_zero());
    }

    #[test]
    fn late_write_never_moves_the_lease_back() {
        let (start, timeout) = (Moment::now(), Duration::from_secs(8));
        let at = |milliseconds| start.after(Duration::from_millis(milliseconds));
        let mut lease = Lease::new(timeout, start, at(10).monotonic);
        // The write certifies the request that had been settled when the write was sent.
        let (late, settled) = (at(2100), lease.settled(at(2100).monotonic));
        for (sent, answered, proof) in [(2500, 2510, Proof::Server), (4600, 4610, Proof::Leader)] {
            let settled = lease.settled(at(sent).monotonic);
            lease.answered(at(sent), settled, at(answered), proof);
        }
        let end = at(2500).monotonic + timeout - timeout / 50;
        assert_eq!(lease.end(), end);
        lease.answered(late, settled, at(4620), Proof::Leader);
        assert_eq!(lease.end(), end);
    }
}
