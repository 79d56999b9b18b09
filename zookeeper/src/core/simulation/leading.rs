//! What leaders do: proposals, and the expiry of sessions.

use std::rc::Rc;

use super::codec::NOBODY;
use super::ensemble::{Ensemble, Track};
use super::network::Network;
use super::stage::{Event, NEVER, Stage, Time};
use super::tree::{Transaction, Write, WriteKind};

impl Ensemble {
    // ---- sessions

    /// A leader knows of a session from now on.
    pub(super) fn track(
        &mut self,
        stage: &mut Stage,
        reign: usize,
        session: i64,
        timeout: Time,
        owner: Option<usize>,
    ) {
        let track = Track { deadline: 0, timeout, closing: false, owner, watched: false };
        self.reigns[reign].tracks.insert(session, track);
        self.touch(stage, reign, session, timeout);
    }

    /// A leader has heard of a session. False if there is no such.
    pub(super) fn touch(
        &mut self,
        stage: &mut Stage,
        reign: usize,
        session: i64,
        timeout: Time,
    ) -> bool {
        let tick = stage.world.tick;
        let Some(track) = self.reigns[reign].tracks.get_mut(&session) else {
            return false;
        };
        if track.closing {
            return false;
        }
        track.timeout = timeout;
        // As `ExpiryQueue.roundToNextInterval` has it.
        let deadline = ((stage.now + timeout) / tick + 1) * tick;
        track.deadline = track.deadline.max(deadline);
        let deadline = track.deadline;
        if !std::mem::replace(&mut track.watched, true) {
            stage.at(deadline, Event::Expiry { reign, session });
        }
        true
    }

    pub(super) fn expiry(&mut self, stage: &mut Stage, reign: usize, session: i64) {
        let known = &mut self.reigns[reign];
        let Some(track) = known.tracks.get_mut(&session) else {
            return;
        };
        if track.deadline > stage.now {
            let deadline = track.deadline;
            return stage.at(deadline, Event::Expiry { reign, session });
        }
        let reigns_still = self.servers[known.leader].reign == Some(reign);
        if track.closing || !reigns_still {
            return;
        }
        track.closing = true;
        let rules = known.rules;
        stage.note(|| format!("session {session:x} is expired, by a leader that rules: {rules}"));
        if rules {
            stage.figures.expired_by_leader += 1;
            let path = String::new();
            let write = Write { origin: None, session, kind: WriteKind::Close, path, tag: NOBODY };
            self.propose(stage, reign, write);
        }
    }

    /// When the leader that rules expires the session if it hears nothing of it any more; none if it
    /// has. Without a leader nobody does.
    pub(super) fn lives_until(&self, session: i64) -> Option<Time> {
        match self.ruling() {
            Some(reign) => {
                let track = self.reigns[reign].tracks.get(&session)?;
                (!track.closing).then_some(track.deadline)
            }
            None => self.head.sessions.contains_key(&session).then_some(NEVER),
        }
    }

    // ---- writes

    /// A request has come to a leader. It is checked, and proposed whatever comes of that.
    pub(super) fn prepare(&mut self, stage: &mut Stage, reign: usize, mut write: Write) {
        let from = write.origin.map(|origin| origin.server);
        match write.kind {
            WriteKind::Open(timeout) => self.track(stage, reign, write.session, timeout, from),
            WriteKind::Refused(_) => {}
            _ if from.is_none() => {}
            _ => match self.reigns[reign].tracks.get_mut(&write.session) {
                None => write.kind = WriteKind::Refused(-112),
                Some(track) if track.closing => write.kind = WriteKind::Refused(-112),
                Some(track) => {
                    track.owner = track.owner.or(from);
                    if track.owner != from {
                        stage.figures.moved += 1;
                        write.kind = WriteKind::Refused(-118);
                    } else if write.kind == WriteKind::Close {
                        track.closing = true;
                    }
                }
            },
        }
        self.propose(stage, reign, write);
    }

    pub(super) fn propose(&mut self, stage: &mut Stage, reign: usize, write: Write) {
        // Without a quorum it stays a proposal.
        if !self.reigns[reign].rules {
            return;
        }
        let delay = stage.world.quorum / 2 + stage.some(stage.world.quorum / 2 + 1);
        let known = &mut self.reigns[reign];
        known.proposed.push_back(write);
        known.last_commit = known.last_commit.max(stage.now + delay);
        let at = known.last_commit;
        stage.at(at, Event::Commit { reign });
    }

    pub(super) fn commit(&mut self, stage: &mut Stage, network: &mut Network, reign: usize) {
        if !self.reigns[reign].rules {
            return;
        }
        let Some(write) = self.reigns[reign].proposed.pop_front() else {
            return;
        };
        self.append(stage, write);
        let (leader, upto) = (self.reigns[reign].leader, self.log.len());
        for server in 0..self.servers.len() {
            if self.servers[server].reign != Some(reign) {
                continue;
            }
            if server == leader {
                self.apply(stage, network, server, upto);
            } else {
                let at = self.link(stage, server, false) + self.servers[server].lag;
                stage.at(at, Event::Applied { server, reign, upto });
            }
        }
    }

    pub(super) fn append(&mut self, stage: &mut Stage, write: Write) {
        let zxid = (self.head.zxid + 1).max(self.epoch << 32 | 1);
        let (code, changes) = self.head.judge(&write);
        if write.tag != NOBODY && code == 0 {
            let done = self.done.entry(write.tag).or_default();
            *done = (done.0 + 1, write.session);
        }
        if write.kind == WriteKind::Close
            && let Some(reign) = self.ruling()
        {
            self.reigns[reign].tracks.remove(&write.session);
        }
        stage.note(|| format!("{zxid:x}: {:?} {}, {code}", write.kind, write.path));
        let transaction = Transaction { zxid, write, code, changes };
        self.head.apply(&transaction);
        self.log.push(Rc::new(transaction));
    }
}
