//! The certified lease: how long the servers cannot have expired a session. Pure: it is told when
//! requests were sent and answered and does no I/O.
//!
//! "The last answer plus the session timeout" is not it. In an ensemble a follower that is cut off
//! from its leader goes on answering reads for seconds while the leader, which alone expires
//! sessions, hears nothing of them: signs of life travel from follower to leader with the answers
//! to the leader's pings, one every half tick. An answered *write* proves that the follower was
//! connected to the leader when the write was sent. So a request counts once a write that was sent
//! at least half a tick after its answer has been answered too. A session timeout is at least two
//! ticks (`minSessionTimeout`), so a quarter of it covers the half tick.

use std::time::{Duration, Instant};

use crate::clock::Moment;

/// A request and its answer, as a sign of life.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: Moment,
    answered: Instant,
}

/// The lease of one connection.
///
/// It runs for `T - T/50` from the sending of the newest certified request. Two samples are
/// enough: `newer`, at least `T/4` younger than `older`, is certified when its time comes.
#[derive(Debug)]
pub(crate) struct Lease {
    timeout: Duration,
    certified: Moment,
    older: Sample,
    newer: Sample,
    /// Counts the times that the lease was renewed after it had run out. A hold belongs to the
    /// term it was granted in: a later renewal does not bring it back.
    term: u64,
}

/// What an answer says about the connection between the server and its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The leader took part: a write, answered with Ok, BadVersion, NoNode or NodeExists.
    Leader,
    /// The server may have answered by itself: a read, an authentication, NoAuth.
    Server,
}

impl Lease {
    /// `connect` is the instant before the connect, `answered` that of the first answer: creating
    /// a session is a write.
    pub(crate) fn new(timeout: Duration, connect: Moment, answered: Instant) -> Lease {
        let sample = Sample {
            sent: connect,
            answered,
        };
        Lease {
            timeout,
            certified: connect,
            older: sample,
            newer: sample,
            term: 0,
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How far apart samples are, and a sample and the write that certifies it.
    pub(crate) fn step(&self) -> Duration {
        self.timeout / 4
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// What is left of the lease; zero when it has run out.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        let length = self.timeout - self.timeout / 50;
        length.saturating_sub(now.at_most_since(self.certified))
    }

    /// Takes note of an answer that came at `now` to a request sent at `sent`.
    pub(crate) fn answered(&mut self, sent: Moment, now: Moment, proof: Proof) {
        if proof == Proof::Leader {
            self.certify(sent.monotonic, now);
        }
        // After the certifying, which may still need `older`.
        if now.monotonic >= self.newer.answered + self.step() {
            self.older = self.newer;
            self.newer = Sample {
                sent,
                answered: now.monotonic,
            };
        }
    }

    /// A write sent at `write` was answered: the newest sample old enough by then is certified.
    fn certify(&mut self, write: Instant, now: Moment) {
        let step = self.step();
        // The monotonic clock alone: a system clock set forward would certify too early.
        let settled = |sample: &&Sample| sample.answered + step <= write;
        let Some(sample) = [&self.newer, &self.older].into_iter().find(settled) else {
            return;
        };
        if sample.sent.monotonic > self.certified.monotonic {
            if self.remaining(now).is_zero() {
                self.term += 1;
            }
            self.certified = sample.sent;
        }
    }

    /// When a write is wanted to keep the lease going: as soon as it certifies the older of the
    /// samples not yet certified, never earlier (it would certify nothing). "A while after the
    /// last write" would let frequent short locks leave nothing to reconnect with.
    pub(crate) fn write_due(&self) -> Instant {
        let older_is_certified = self.older.sent.monotonic <= self.certified.monotonic;
        let next = if older_is_certified {
            &self.newer
        } else {
            &self.older
        };
        next.answered + self.step()
    }

    /// When an answer, of whatever kind, is wanted as the next sample.
    pub(crate) fn sample_due(&self) -> Instant {
        self.newer.answered + self.step()
    }
}
