//! Whether what the client says and does is true, and in time.

use std::time::Instant;

use super::client::Client;
use super::codec::{self, Op};
use super::ensemble::Ensemble;
use super::stage::{Property, Stage};
use crate::types::State;

impl Client {
    /// While the lease is kept, a connection begins with what certifies it.
    pub(super) fn check_first_words(&mut self, stage: &mut Stage, was_open: bool) {
        if was_open || !self.core.is_open() || self.keepers == 0 || !self.story.had_session() {
            return;
        }
        let mut out = self.core.out().as_slice();
        let mut writes = false;
        while let Some((length, rest)) = out.split_first_chunk() {
            let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
            let op = codec::asked(frame).map(|asked| asked.op);
            writes |= matches!(op, Ok(Op::SetData { .. }));
            out = rest;
        }
        stage.check(writes, Property::Lease, || "a resume is not followed by a heartbeat".into());
    }

    pub(super) fn check_content(&self, stage: &mut Stage, slot: u32, code: i32, body: &[u8]) {
        if code == 0 {
            let content = codec::content(self.calls[slot as usize].code, body);
            let own = matches!(content, Ok(None)) || content == Ok(Some(slot.into()));
            stage.check(own, Property::OwnAnswer, || format!("call {slot}: {content:?}"));
        }
    }

    pub(super) fn check_deadlines(&self, stage: &mut Stage, now: Instant, next: Instant) {
        for tag in &self.open {
            let Some(deadline) = self.calls[*tag as usize].deadline else {
                continue;
            };
            stage.check(deadline > now, Property::OnceAndInTime, || {
                format!("call {tag} is not answered by its deadline")
            });
            stage.check(next <= deadline, Property::OnceAndInTime, || {
                format!("nobody looks at the deadline of call {tag}")
            });
        }
    }

    /// Looks at the lease, and whether it is true.
    pub(super) fn look(&mut self, stage: &mut Stage, ensemble: &Ensemble) {
        if self.stopped_until > stage.now || self.closing || ensemble.restored {
            return;
        }
        let now = self.now(stage);
        let (term, left) = self.core.look_at_lease(now);
        self.story.looked(stage, term, left);
        if left.is_zero() {
            let good = stage.calm
                && self.keepers > 0
                && self.story.kept_since + stage.world.timeout * 3 < stage.now;
            stage.check(!good, Property::Liveness, || "the lease has run out for no reason".into());
            return;
        }
        let end = stage.now + self.clocks.real(left);
        let session = self.core.session_id();
        let until = ensemble.lives_until(session);
        let spare = until.map(|until| (until as f64 - end as f64) / stage.world.timeout as f64);
        stage.figures.looks += 1;
        stage.figures.spare(spare);
        stage.check(spare.is_some_and(|spare| spare >= 0.0), Property::Lease, || {
            let until = until.map(|until| until as f64 / 1e6);
            format!(
                "session {session:x}: the lease ends at {} s, it may be expired at {until:?} s",
                end as f64 / 1e6
            )
        });
    }

    pub(super) fn check_calm(&mut self, stage: &mut Stage) {
        let state = self.core.state();
        let fine = self.closing || state == State::Connected;
        stage.check(fine, Property::Liveness, || format!("{state:?} long after the last fault"));
    }
}
