//! The session events and the lease of one client, and the checks of both.

use std::time::Duration;

use kernel::Process;
use zookeeper::{Lease, SessionEvent, SessionEventKind};

use super::judge::report;

#[derive(Debug, Default)]
pub(super) struct Story {
    last: Option<SessionEventKind>,
    /// The present session, or 0, and the one before it.
    pub(super) session: i64,
    pub(super) former: i64,
    pub(super) all: Vec<i64>,
    lease_ended: bool,
    /// Somebody keeps the lease, and it was certainly valid at the start.
    pub(super) is_kept: bool,
    /// The newest term that was looked at, and whether the lease of that term was seen to be over.
    term: u64,
    is_over: bool,
    /// When connections were lost, and when sessions ended.
    pub(super) lost: Vec<Duration>,
    pub(super) ended: Vec<Duration>,
    pub(super) lease_ends: u64,
}

impl Story {
    pub(super) fn is_closed(&self) -> bool {
        self.last == Some(SessionEventKind::Closed)
    }

    /// Returns whether watches may report that they have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.last == Some(SessionEventKind::Expired)
    }

    /// Records and checks an event.
    pub(super) fn told(&mut self, process: Process, event: SessionEvent) {
        use SessionEventKind::{
            Closed, Connected, Expired, LeaseEnded, LeaseRenewed, Resumed, Suspended,
        };
        let SessionEvent { kind, session_id } = event;
        let (last, now) = (self.last, kernel::elapsed());
        let fail = |problem| report(process, format!("{kind:?} of {session_id:#x} {problem}"));
        let is_in_order = match kind {
            Connected => matches!(last, None | Some(Expired)),
            Suspended => matches!(last, Some(Connected | Resumed)),
            Resumed | Expired => last == Some(Suspended),
            Closed => last != Some(Closed),
            LeaseEnded => last.is_some(),
            LeaseRenewed => last.is_some() && self.lease_ended,
            _ => true,
        };
        if !is_in_order {
            fail(format!("behind {last:?}"));
        }
        if kind == Connected {
            self.session = session_id;
            self.lease_ended = false;
            self.all.push(session_id);
        }
        if session_id != self.session {
            fail(format!("and it has {:#x}", self.session));
        }
        match kind {
            LeaseEnded => {
                self.lease_ended = true;
                self.lease_ends += 1;
            }
            LeaseRenewed => self.lease_ended = false,
            Suspended => self.lost.push(now),
            Expired => {
                if self.is_kept && !self.lease_ended {
                    fail("with a lease that was kept and ends untold".to_owned());
                }
                self.ended.push(now);
                (self.former, self.session) = (self.session, 0);
            }
            Closed => {
                self.lost.push(now);
                self.ended.push(now);
            }
            _ => {}
        }
        if !matches!(kind, LeaseEnded | LeaseRenewed) {
            self.last = Some(kind);
        }
    }

    /// Checks the lease: terms rise, and an ended lease stays ended.
    pub(super) fn looked(&mut self, process: Process, lease: Lease) {
        let Lease { term, valid_for: left, session_id, .. } = lease;
        // The session may have changed since the look.
        if session_id != self.session {
            return;
        }
        if term < self.term {
            report(process, format!("term {term} of the lease behind {}", self.term));
        }
        if term > self.term {
            (self.term, self.is_over) = (term, false);
        }
        if self.is_over && !left.is_zero() {
            report(process, format!("the lease of term {term} was over, and has {left:?} left"));
        }
        self.is_over |= left.is_zero();
    }
}
