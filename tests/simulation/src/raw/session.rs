//! Checks the session events and the lease of one client.

use kernel::Process;
use zookeeper::{Lease, SessionEvent, SessionEventKind};

use super::judge::{Program, report};

impl Program {
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
