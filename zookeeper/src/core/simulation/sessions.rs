//! The story of the sessions, as it is told, and whether it can be true.

use std::time::Duration;

use super::ensemble::Ensemble;
use super::stage::{Property, Stage, Time};
use crate::types::{SessionEvent, SessionEventKind};

#[derive(Debug, Default)]
pub(super) struct Story {
    last: Option<SessionEventKind>,
    session: i64,
    /// The one before, or 0.
    pub(super) former: i64,
    /// The end of the lease was told, and nothing of it since.
    pub(super) lease_ended: bool,
    /// Somebody wants to be told of it.
    pub(super) is_kept: bool,
    /// The newest term that was looked at, and whether it was seen over.
    term: u64,
    over: bool,
    pub(super) kept_since: Time,
}

impl Story {
    /// Has the session ended, and no other begun?
    pub(super) fn is_over(&self) -> bool {
        matches!(self.last, Some(SessionEventKind::Expired | SessionEventKind::Closed))
    }

    /// Is there a session that was connected before?
    pub(super) fn had_session(&self) -> bool {
        self.last == Some(SessionEventKind::Suspended)
    }

    /// True if the session is over.
    pub(super) fn told(
        &mut self,
        stage: &mut Stage,
        ensemble: &Ensemble,
        event: SessionEvent,
    ) -> bool {
        use SessionEventKind::{
            Closed, Connected, Expired, LeaseEnded, LeaseRenewed, Resumed, Suspended,
        };
        let SessionEvent { kind, session_id } = event;
        stage.note(|| format!("session {session_id:x}: {kind:?}"));
        let last = self.last;
        let in_order = match kind {
            Connected => matches!(last, None | Some(Expired)),
            Suspended => matches!(last, Some(Connected | Resumed)),
            Resumed | Expired => last == Some(Suspended),
            Closed => last != Some(Closed),
            LeaseEnded => last.is_some(),
            LeaseRenewed => last.is_some() && self.lease_ended,
        };
        stage.check(in_order, Property::SessionEvents, || format!("{kind:?} after {last:?}"));
        match kind {
            Connected => {
                stage.figures.connects += 1;
                self.lease_ended = false;
                self.session = session_id;
            }
            Resumed => stage.figures.resumes += 1,
            Expired => {
                stage.figures.expired += 1;
                stage.check(self.lease_ended || !self.is_kept, Property::SessionEvents, || {
                    "a kept lease ends with its session, and nobody is told".into()
                });
                let over = ensemble.judged.contains(&session_id)
                    || ensemble.misjudged.contains(&session_id);
                stage.check(over, Property::NeverGivenUp, || {
                    format!(
                        "session {session_id:x} is given up, and no server has said that it is over"
                    )
                });
            }
            LeaseEnded => {
                stage.figures.lease_ends += 1;
                self.lease_ended = true;
                return false;
            }
            LeaseRenewed => {
                stage.figures.lease_renewals += 1;
                self.lease_ended = false;
                return false;
            }
            Closed | Suspended => {}
        }
        let own = session_id == self.session;
        stage.check(own, Property::SessionEvents, || format!("{kind:?} of session {session_id:x}"));
        if kind == Expired {
            (self.former, self.session) = (self.session, 0);
        }
        self.last = Some(kind);
        kind == Expired || kind == Closed
    }

    /// The lease was looked at: what was seen over is over, and terms rise.
    pub(super) fn looked(&mut self, stage: &mut Stage, term: u64, left: Duration) {
        let before = self.term;
        stage.check(term >= before, Property::Lease, || format!("term {term} after {before}"));
        if term > before {
            (self.term, self.over) = (term, false);
        }
        let over = self.over;
        stage.check(!over || left.is_zero(), Property::Lease, || {
            format!("the lease of term {term} was over, and is not any more")
        });
        let untold = self.is_kept && self.lease_ended && !left.is_zero();
        stage.check(!untold, Property::SessionEvents, || "the lease goes on untold".into());
        self.over |= left.is_zero();
    }
}
