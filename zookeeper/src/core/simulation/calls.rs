//! What the client's callers ask for, and what becomes of each call.

use std::time::{Duration, Instant};

use super::super::connection::{Call, Credential, Effect};
use super::super::message::{self, OpCode};
use super::super::watches::WatchKind;
use super::client::{Around, Client};
use super::stage::{Property, Stage, Time};
use super::watchers::Ear;
use crate::acl::{Acl, Permissions};
use crate::error::ErrorKind;
use crate::types::CreateMode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Answered by a server.
    Server(i32),
    Failed(ErrorKind),
    Done,
}

#[derive(Debug)]
pub(super) struct CallRecord {
    pub(super) code: OpCode,
    path: String,
    pub(super) deadline: Option<Instant>,
    pub(super) repeat: bool,
    session: Option<i64>,
    watch: Option<(WatchKind, Ear)>,
    pub(super) outcome: Option<Outcome>,
}

/// Watched nodes, each of which may have children.
pub(super) const WATCHED: u64 = 3;

impl Client {
    /// A few calls at once, and whatever else callers do.
    pub(super) fn call(&mut self, around: &mut Around<'_>) {
        let stage = &mut *around.stage;
        let now = self.now(stage);
        if stage.chance(0.08) {
            match self.keepers {
                0 => {
                    // What ran out before is nobody's loss.
                    self.story.is_kept = !self.core.look_at_lease(now).1.is_zero();
                    self.core.keep_lease(now);
                    self.keepers += 1;
                    self.story.kept_since = stage.now;
                    self.wake(stage);
                }
                1 if !stage.world.kept => {
                    self.core.release_lease();
                    self.keepers -= 1;
                    (self.story.is_kept, self.story.lease_ended) = (false, false);
                }
                _ => {}
            }
        }
        for _ in 0..1 + stage.rng.below(3) {
            let call = self.invent(stage, now.monotonic);
            let deadline = call.deadline;
            self.core.submit(call, now);
            if let Some(deadline) = deadline {
                self.plan_earlier(stage, deadline);
            }
        }
        self.carry(around);
    }

    fn invent(&mut self, stage: &mut Stage, now: Instant) -> Call<u32, Ear> {
        let tag = self.calls.len() as u32;
        let node = format!("/w{}{}", stage.rng.below(WATCHED), stage.world.suffix);
        let child = format!("{node}/c{tag}");
        let watch = stage.chance(0.6);
        // Now and then the same listener as before, for another node or for the same.
        let ear = Ear(if stage.chance(0.2) { tag.saturating_sub(3) } else { tag });
        let ttl = stage.world.timeout.min(30_000_000) as f64;
        let share = if stage.chance(0.3) { 0.05 } else { 1.5 };
        let deadline =
            now + Duration::from_micros((ttl * share * stage.rng.fraction()) as Time + 500);
        // Now and then the one before.
        let former = stage.chance(0.1);
        let session = if former { self.story.former } else { self.core.session_id() };
        let session = (session != 0 && (former || stage.chance(0.2))).then_some(session);
        let kind = stage.rng.below(14);
        let secret = kind == 13 && self.remembered && stage.chance(0.5);
        let (code, path) = match kind {
            0 | 1 => (OpCode::Create2, node),
            2 | 3 => (OpCode::Create2, child),
            4 => (OpCode::SetData, node),
            5 => (OpCode::Delete, node),
            6 | 7 => (OpCode::Delete, self.somebodys_child(stage).unwrap_or(child)),
            8 | 9 => (OpCode::Exists, node),
            10 => (OpCode::GetData, node),
            11 => (OpCode::GetChildren2, node),
            12 => (OpCode::GetChildren2, "/".into()),
            _ if secret => (OpCode::Exists, "/secret".into()),
            _ if stage.world.auth => (OpCode::Auth, String::new()),
            _ => (OpCode::Exists, node),
        };
        let repeat = code == OpCode::Delete && kind >= 6;
        let reads = [OpCode::Exists, OpCode::GetData, OpCode::GetChildren2].contains(&code);
        let child_watch = code == OpCode::GetChildren2;
        let watched = if child_watch { WatchKind::Child } else { WatchKind::Data };
        let watch = (watch && reads && !secret).then_some((watched, ear));
        let tagged = format!("{path}#{tag}");
        let on = ("", tagged.as_str());
        let acl = [Acl::new(Permissions::ALL, "world", "anyone")];
        let ephemeral = code == OpCode::Create2 && (kind == 3 || kind == 1);
        let mode = if ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        let frame = message::request(code, |out| match code {
            OpCode::Create2 => message::create(out, on, b"data", &acl, mode),
            OpCode::SetData => message::set_data(out, on, b"data", None),
            OpCode::Delete => message::versioned(out, on, None),
            OpCode::Auth => message::auth(out, "digest", b"somebody:secret"),
            _ => message::watched(out, on, watch.is_some()),
        });
        let effect = match &watch {
            Some((kind, ear)) => Effect::Watch(*kind, path.clone(), ear.clone()),
            None if code == OpCode::Auth => Effect::Remember(Credential {
                scheme: "digest".into(),
                secret: b"somebody:secret".to_vec(),
            }),
            None => Effect::None,
        };
        let deadline = (!repeat).then_some(deadline);
        stage.note(|| {
            let by = deadline.map(|deadline| self.clocks.shown(deadline));
            format!("call {tag}: {code:?} {path}, by {by:?}, watched: {watch:?}, in {session:x?}")
        });
        let record = CallRecord { code, path, deadline, repeat, session, watch, outcome: None };
        self.calls.push(record);
        self.open.push(tag);
        Call { frame, code, slot: Some(tag), effect, deadline, repeat, session, was_sent: false }
    }

    /// A node that a call of this client has made, or may have.
    fn somebodys_child(&self, stage: &mut Stage) -> Option<String> {
        let from = stage.rng.below(self.calls.len() as u64 + 1) as usize;
        let made = |call: &&CallRecord| call.code == OpCode::Create2 && call.path.contains("/c");
        self.calls[from..].iter().find(made).map(|call| call.path.clone())
    }

    /// Closes the client.
    pub(super) fn close(&mut self, around: &mut Around<'_>) {
        let stage = &mut *around.stage;
        let now = self.now(stage);
        let patient = stage.chance(0.6);
        let longest = stage.world.timeout * 2;
        let deadline = now.monotonic + Duration::from_micros(1000 + stage.some(longest));
        let tag = self.calls.len() as u32;
        stage.note(|| format!("call {tag}: close, patiently: {patient}"));
        stage.figures.closes += 1;
        self.closing = true;
        if patient {
            self.calls.push(CallRecord {
                code: OpCode::CloseSession,
                path: String::new(),
                deadline: Some(deadline),
                repeat: true,
                session: None,
                watch: None,
                outcome: None,
            });
            self.open.push(tag);
        }
        self.core.close(patient.then_some(tag), deadline, now);
        self.wake(stage);
        self.carry(around);
    }

    /// A call is answered.
    pub(super) fn settle(
        &mut self,
        around: &mut Around<'_>,
        tag: u32,
        outcome: Outcome,
        frame: &[u8],
    ) {
        let stage = &mut *around.stage;
        stage.note(|| format!("call {tag}: {outcome:?}"));
        self.open.retain(|open| *open != tag);
        let call = &mut self.calls[tag as usize];
        let before = call.outcome.replace(outcome);
        stage.check(before.is_none(), Property::OnceAndInTime, || {
            format!("call {tag} is answered twice, {before:?} and {outcome:?}")
        });
        let lost = outcome == Outcome::Failed(ErrorKind::ConnectionLoss);
        let over = self.closing || self.story.is_over();
        stage.check(!(lost && call.repeat) || over, Property::Repeats, || {
            format!("call {tag} is not repeated any more, and the session goes on")
        });
        match outcome {
            Outcome::Server(code) => {
                stage.check(!call.repeat || code != -127, Property::Repeats, || {
                    format!("call {tag} is not repeated by a server that was busy")
                });
                if call.path == "/secret" {
                    stage.figures.secrets += 1;
                    let known = code == 0 || code == -127;
                    stage
                        .check(known, Property::NoHarm, || "the credentials were forgotten".into());
                }
                let created = code == -101 && call.code == OpCode::Exists;
                if let (true, Some((kind, ear))) = (code == 0 || created, call.watch.take()) {
                    let kind = if created { WatchKind::Exist } else { kind };
                    let header = message::header(&mut super::super::wire::Reader(frame));
                    let zxid = header.expect("a header").zxid;
                    self.watchers.add(around.ensemble, ear, kind, &call.path, zxid);
                }
            }
            Outcome::Failed(ErrorKind::ConnectionLoss) => stage.figures.losses += 1,
            Outcome::Failed(ErrorKind::Timeout) => stage.figures.timeouts += 1,
            Outcome::Failed(ErrorKind::NoConnection) => stage.figures.no_connections += 1,
            Outcome::Failed(ErrorKind::SessionExpired) => stage.figures.of_expired += 1,
            Outcome::Failed(ErrorKind::Closed) => stage.figures.of_closed += 1,
            Outcome::Done => self.remembered |= call.code == OpCode::Auth,
            Outcome::Failed(_) => {}
        }
    }

    /// What was done is compared with what was said, when everything has had the time to happen.
    pub(super) fn check_calls(&self, around: &mut Around<'_>) {
        let (stage, ensemble) = (&mut *around.stage, &*around.ensemble);
        for (tag, call) in self.calls.iter().enumerate() {
            let (done, session) = ensemble.done.get(&(tag as u32)).copied().unwrap_or_default();
            let reached = ensemble.reached.get(&(tag as u32)).copied().unwrap_or_default();
            stage.check(call.repeat || reached <= 1, Property::OnceAndInTime, || {
                format!("call {tag} was sent {reached} times")
            });
            if let (Some(meant), true) = (call.session, done > 0) {
                stage.check(meant == session, Property::NotDoneIsCertain, || {
                    format!("call {tag} was meant for session {meant:x} and done in {session:x}")
                });
            }
            let fine = match call.outcome {
                None => call.code == OpCode::CloseSession && !self.core.is_over(),
                Some(Outcome::Server(0)) if call.code.is_write() => done == 1,
                Some(Outcome::Server(0)) | Some(Outcome::Done) => true,
                Some(Outcome::Server(_)) => done == 0 || call.repeat,
                Some(Outcome::Failed(ErrorKind::ConnectionLoss | ErrorKind::Timeout)) => done <= 1,
                Some(Outcome::Failed(_)) => done == 0,
            };
            let lost = done > 0
                && call.outcome.is_some_and(|outcome| {
                    outcome == Outcome::Failed(ErrorKind::ConnectionLoss)
                        || outcome == Outcome::Failed(ErrorKind::Timeout)
                });
            stage.figures.lost_answers += u64::from(lost);
            let property = match call.outcome {
                None => Property::OnceAndInTime,
                _ => Property::NotDoneIsCertain,
            };
            stage.check(fine, property, || format!("call {tag}, {call:?}, was done {done} times"));
        }
    }
}
