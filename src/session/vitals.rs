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
        Vitals {
            lease,
            in_flight: BTreeMap::new(),
            next: 0,
        }
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
        self.in_flight.insert(number, Flight { sent: now, write });
        number
    }

    /// The request was answered, or failed without an answer (`proof` is none).
    pub(crate) fn answered(&mut self, number: u64, now: Moment, proof: Option<Proof>) {
        if let (Some(flight), Some(proof)) = (self.in_flight.remove(&number), proof) {
            self.lease.answered(flight.sent, now, proof);
        }
    }

    /// What the pulse should do now.
    pub(crate) fn pulse(&self, now: Instant, held: bool) -> Pulse {
        let due = if held {
            self.lease.write_due()
        } else {
            self.lease.sample_due()
        };
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

    /// May the connection go on? While something is held, a request may be without an answer for
    /// a third of the session timeout, or a quarter once the lease wants certifying for that
    /// long: what is left of the lease then is needed to reconnect. Otherwise two thirds, since a
    /// slow disk must not make every client reconnect at once.
    pub(crate) fn verdict(&self, now: Instant, held: bool) -> Verdict {
        let timeout = self.lease.timeout();
        let limit = if held { timeout / 3 } else { timeout / 3 * 2 };
        let Some(oldest) = self.in_flight.values().next() else {
            return Verdict::Alive(now + limit.min(self.lease.step()));
        };
        let sent = oldest.sent.monotonic;
        let mut end = sent + limit;
        if held {
            let step = self.lease.step();
            end = end.min((self.lease.write_due() + step).max(sent + step));
        }
        if now >= end {
            Verdict::Silent(now.saturating_duration_since(sent))
        } else {
            Verdict::Alive(end)
        }
    }
}
