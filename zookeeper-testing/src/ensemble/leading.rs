//! What leaders do: they validate, propose and commit writes, and end sessions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::events::{LeaderRequest, Origin, What};
use super::settings::nanos;
use super::{Ensemble, Event, Time};
use crate::access::{self, Id};
use crate::answers;
use crate::committed::{Change, Committed};
use crate::requests::{self, Request, op};
use crate::terms::Refused;
use crate::tree::{Asker, Outcome, Step, TreeOp};
use crate::wire::Put;

/// What a leader records about a session.
#[derive(Debug, Clone)]
pub(super) struct Track {
    pub(super) deadline: Time,
    pub(super) is_closing: bool,
    /// The server from which the leader accepts requests of this session.
    pub(super) owner: Option<usize>,
    is_watched: bool,
}

/// The reign of a leader.
#[derive(Debug)]
pub(super) struct Reign {
    pub(super) leader: usize,
    /// Whether the leader has a quorum.
    pub(super) rules: bool,
    pub(super) tracks: BTreeMap<i64, Track>,
    proposed: VecDeque<Transaction>,
    last_commit: Time,
    /// Whether the leader has proposals that it can never commit.
    is_stuck: bool,
    /// Requests for `sync`, each with the transaction for which it waits.
    syncs: Vec<(i64, Origin)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Open(Time),
    Close,
    Write,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) zxid: i64,
    pub(super) session: i64,
    pub(super) kind: Kind,
    /// The client that requested it, if any.
    pub(super) origin: Option<Origin>,
    /// The complete frame of the answer. If it is empty, the connection is closed.
    pub(super) answer: Vec<u8>,
    pub(super) steps: Vec<Step>,
}

impl Transaction {
    /// Creates the first transaction of a new leader's reign.
    pub(super) fn nothing(zxid: i64) -> Transaction {
        let (answer, steps) = (Vec::new(), Vec::new());
        Transaction { zxid, session: 0, kind: Kind::Write, origin: None, answer, steps }
    }
}

impl Reign {
    pub(super) fn new(leader: usize, now: Time) -> Reign {
        Reign {
            leader,
            rules: true,
            tracks: BTreeMap::new(),
            proposed: VecDeque::new(),
            last_commit: now,
            is_stuck: false,
            syncs: Vec::new(),
        }
    }
}

// ---- sessions

impl Ensemble {
    /// Adds a session to a leader's table.
    pub(super) fn track(
        &mut self,
        reign: usize,
        session: i64,
        timeout: Time,
        owner: Option<usize>,
    ) {
        let track = Track { deadline: 0, is_closing: false, owner, is_watched: false };
        self.reigns[reign].tracks.insert(session, track);
        self.touch(reign, session, timeout);
    }

    /// Records a sign of life of a session. Returns false if the leader does not know the session.
    pub(super) fn touch(&mut self, reign: usize, session: i64, timeout: Time) -> bool {
        let deadline = self.settings.deadline(self.events.now, timeout);
        let track = self.reigns[reign].tracks.get_mut(&session);
        let Some(track) = track.filter(|track| !track.is_closing) else {
            return false;
        };
        track.deadline = track.deadline.max(deadline);
        if !std::mem::replace(&mut track.is_watched, true) {
            self.events.at(track.deadline, Event::Expiry { reign, session });
        }
        true
    }

    pub(super) fn expiry(&mut self, reign: usize, session: i64) {
        let leader = self.reigns[reign].leader;
        let Some(track) = self.reigns[reign].tracks.get(&session) else {
            return;
        };
        let due = track.deadline.max(self.servers[leader].frozen_until);
        if due > self.events.now {
            return self.events.at(due, Event::Expiry { reign, session });
        }
        if self.servers[leader].reign == Some(reign) {
            self.close(reign, session);
        }
    }

    /// Begins to end a session. Returns false if that has already happened.
    pub(super) fn close(&mut self, reign: usize, session: i64) -> bool {
        let track = self.reigns[reign].tracks.get_mut(&session);
        let Some(track) = track.filter(|track| !track.is_closing) else {
            return false;
        };
        track.is_closing = true;
        if !self.reigns[reign].rules {
            self.reigns[reign].is_stuck = true;
            return true;
        }
        if self.settings.exact {
            // The client is notified that its session has ended, but not that its nodes were deleted.
            self.cut(session);
        }
        let transaction = self.ending(session);
        self.propose(reign, transaction);
        true
    }

    /// Creates the transaction that ends a session.
    pub(super) fn ending(&mut self, session: i64) -> Transaction {
        let zxid = self.next_zxid();
        let steps = self.tree.end_session(session, zxid);
        Transaction { session, kind: Kind::Close, steps, ..Transaction::nothing(zxid) }
    }

    /// Asks a leader whether a session is alive, which counts as a sign of life.
    pub(super) fn revalidate(
        &mut self,
        server: usize,
        reign: usize,
        session: i64,
        timeout: Time,
    ) -> bool {
        let lives = self.touch(reign, session, timeout);
        if let (true, Some(track)) = (lives, self.reigns[reign].tracks.get_mut(&session)) {
            track.owner = Some(server);
        }
        lives
    }

    /// Checks that a leader accepts requests of a session from this server. If the error has no code, the connection is
    /// closed, like that of real servers after a session has moved.
    pub(super) fn check_session(
        &mut self,
        reign: usize,
        session: i64,
        server: usize,
    ) -> Result<(), Option<i32>> {
        let track = self.reigns[reign].tracks.get_mut(&session);
        let track =
            track.filter(|track| !track.is_closing).ok_or(Some(Refused::SESSION_EXPIRED.0))?;
        match *track.owner.get_or_insert(server) == server {
            true => Ok(()),
            false => Err(None),
        }
    }
}

// ---- writes

impl Ensemble {
    pub(super) fn next_zxid(&mut self) -> i64 {
        self.proposed += 1;
        self.proposed
    }

    /// Handles a request that a server has sent to its leader.
    pub(super) fn prepare(
        &mut self,
        reign: usize,
        LeaderRequest { origin, session, what }: LeaderRequest,
    ) {
        if let What::Sync = what {
            return self.sync(reign, origin);
        }
        // Without a quorum, the transaction remains a proposal.
        if !self.reigns[reign].rules {
            self.reigns[reign].is_stuck = true;
            return;
        }
        match what {
            What::Open(timeout) => {
                self.track(reign, session, timeout, Some(origin.server));
                let transaction = Transaction {
                    kind: Kind::Open(timeout),
                    origin: Some(origin),
                    session,
                    ..Transaction::nothing(self.next_zxid())
                };
                self.propose(reign, transaction);
            }
            What::Request(frame, ids) => self.validate(reign, origin, session, &frame, &ids),
            What::Sync => {}
        }
    }

    /// Validates a request, and proposes its transaction, or the error with which it is refused.
    fn validate(&mut self, reign: usize, origin: Origin, session: i64, frame: &[u8], ids: &[Id]) {
        // Never fails, because the server has decoded the request before.
        let Ok((xid, request)) = requests::request(frame) else {
            return;
        };
        let zxid = self.next_zxid();
        let mut transaction =
            Transaction { origin: Some(origin), session, ..Transaction::nothing(zxid) };
        let asker = Asker { session, ids, zxid, wall: self.wall() };
        let refused = match request {
            // As on real servers, this is not checked.
            Request::CloseSession => Ok(()),
            _ => self.check_session(reign, session, origin.server),
        };
        transaction.answer = match (refused, request) {
            (Err(None), _) => Vec::new(),
            (Err(Some(code)), _) => answer(xid, zxid, code, |_| {}),
            (Ok(()), Request::Write(op)) => match self.tree.transact([op], asker) {
                Ok((outcomes, steps)) => {
                    transaction.steps = steps;
                    answer(xid, zxid, 0, |out| put_outcomes(out, &outcomes))
                }
                Err((_, kind)) => answer(xid, zxid, kind.0, |_| {}),
            },
            (Ok(()), Request::Multi(ops)) => {
                let count = ops.len();
                match self.tree.transact(ops, asker) {
                    Ok((outcomes, steps)) => {
                        transaction.steps = steps;
                        answer(xid, zxid, 0, |out| put_multi(out, &outcomes))
                    }
                    Err(failed) => answer(xid, zxid, 0, |out| put_refused(out, count, failed)),
                }
            }
            (Ok(()), _) => {
                transaction.kind = Kind::Close;
                transaction.steps = self.tree.end_session(session, zxid);
                if let Some(track) = self.reigns[reign].tracks.get_mut(&session) {
                    track.is_closing = true;
                }
                answer(xid, zxid, 0, |_| {})
            }
        };
        self.propose(reign, transaction);
    }

    /// Creates the transaction for an operator, who has all permissions.
    pub(super) fn operation(&mut self, op: TreeOp<'_>) -> Result<Transaction, Refused> {
        let (zxid, ids) = (self.next_zxid(), [access::superuser()]);
        let asker = Asker { session: 0, ids: &ids, zxid, wall: self.wall() };
        let done = self.tree.transact([op], asker);
        let (_, steps) = done.map_err(|(_, kind)| kind)?;
        Ok(Transaction { steps, ..Transaction::nothing(zxid) })
    }

    pub(super) fn propose(&mut self, reign: usize, transaction: Transaction) {
        let most = nanos(self.settings.quorum);
        self.reigns[reign].proposed.push_back(transaction);
        if most == 0 && self.has_quorum(reign) {
            return self.commit_all(reign);
        }
        let delay = most / 2 + self.chance.below(most / 2 + 1);
        let known = &mut self.reigns[reign];
        known.last_commit = known.last_commit.max(self.events.now + delay);
        self.events.at(known.last_commit, Event::Commit { reign });
    }

    pub(super) fn commit_due(&mut self, reign: usize) {
        if !self.reigns[reign].rules || self.reigns[reign].proposed.is_empty() {
            return;
        }
        match self.has_quorum(reign) {
            true => self.commit(reign),
            false => self.events.after(self.settings.tick() / 4 + 1, Event::Commit { reign }),
        }
    }

    pub(super) fn commit_all(&mut self, reign: usize) {
        while self.reigns[reign].rules && !self.reigns[reign].proposed.is_empty() {
            self.commit(reign);
        }
    }

    fn commit(&mut self, reign: usize) {
        let Some(transaction) = self.reigns[reign].proposed.pop_front() else {
            return;
        };
        if let Kind::Close = transaction.kind {
            self.reigns[reign].tracks.remove(&transaction.session);
        }
        self.append(transaction);
        let (leader, upto) = (self.reigns[reign].leader, self.dropped + self.log.len());
        for server in 0..self.servers.len() {
            if self.servers[server].reign == Some(reign) && server != leader {
                let at = self.link(server, false) + self.servers[server].lag;
                self.events.at(at, Event::Applied { server, reign, upto });
            }
        }
        self.apply(leader, upto);
        let (committed, syncs) = (self.committed, &mut self.reigns[reign].syncs);
        let due: Vec<_> = syncs.extract_if(.., |sync| sync.0 <= committed).collect();
        due.into_iter().for_each(|(_, origin)| self.tell_synced(reign, origin));
    }

    /// Records that a quorum has accepted the transaction.
    pub(super) fn append(&mut self, transaction: Transaction) {
        let Transaction { zxid, session, kind, .. } = transaction;
        self.committed = zxid;
        match kind {
            Kind::Open(timeout) => drop(self.sessions.insert(session, timeout)),
            Kind::Close => drop(self.sessions.remove(&session)),
            Kind::Write => {}
        }
        let is_close = matches!(kind, Kind::Close);
        if let Some(recorded) = &mut self.recorded
            && (is_close || !transaction.steps.is_empty())
        {
            let at = self.start + std::time::Duration::from_nanos(self.events.now);
            let changes: Vec<Change> =
                transaction.steps.iter().map(|step| step.change.clone()).collect();
            recorded.push(Committed { zxid, at, session, is_close, changes });
        }
        self.log.push_back(Arc::new(transaction));
    }

    /// Decides what happens to each proposal of an old leader. Either the servers that elect the next leader have it in
    /// their log, or it is lost.
    pub(super) fn settle_proposals(&mut self, old: usize) {
        let known = &mut self.reigns[old];
        let mut proposed = std::mem::take(&mut known.proposed);
        known.rules = false;
        known.is_stuck |= !proposed.is_empty();
        let survive = self.chance.below(proposed.len() as u64 + 1) as usize;
        let lost = proposed.split_off(survive);
        for transaction in lost.into_iter().rev() {
            self.tree.undo(&transaction.steps, transaction.zxid);
        }
        proposed.into_iter().for_each(|transaction| self.append(transaction));
    }

    // ---- syncs

    /// Answers a `sync` as `Leader.processSync` does. A leader that has no followers also answers if nothing is
    /// outstanding.
    fn sync(&mut self, reign: usize, origin: Origin) {
        let (last, known) = (self.proposed, &mut self.reigns[reign]);
        if known.is_stuck {
            return;
        }
        match known.proposed.is_empty() {
            true => self.tell_synced(reign, origin),
            false => known.syncs.push((last, origin)),
        }
    }

    fn tell_synced(&mut self, reign: usize, Origin { server, connection, number }: Origin) {
        let leader = self.reigns[reign].leader;
        if self.servers[server].reign != Some(reign) {
            return;
        }
        let upto = self.servers[leader].applied;
        let at = self.link(server, false) + self.servers[server].lag;
        self.events.at(at, Event::Synced { server, reign, upto, connection, number });
    }

    // ---- containers

    pub(super) fn plan_sweep(&mut self) {
        let most = nanos(self.settings.containers);
        let later = if self.settings.exact { most } else { self.chance.below(most) };
        self.events.after(later.max(1), Event::Sweep);
    }

    pub(super) fn sweep(&mut self) {
        self.plan_sweep();
        let Some(reign) = self.ruling() else {
            return;
        };
        if self.is_frozen(self.reigns[reign].leader) {
            return;
        }
        for path in self.tree.empty_containers(self.committed) {
            let zxid = self.next_zxid();
            if let Some(step) = self.tree.end_container(&path, zxid) {
                self.propose(
                    reign,
                    Transaction { steps: vec![step], ..Transaction::nothing(zxid) },
                );
            }
        }
    }
}

// ---- answers

pub(super) fn answer(xid: i32, zxid: i64, code: i32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    answers::frame(|out| {
        answers::header(out, xid, zxid, code);
        body(out);
    })
}

fn put_outcomes(out: &mut Vec<u8>, outcomes: &[Outcome]) {
    for outcome in outcomes {
        match outcome {
            Outcome::Created(path, stat) => {
                out.put_buffer(path.as_bytes());
                stat.iter().for_each(|stat| answers::stat(out, stat));
            }
            Outcome::Set(stat) => answers::stat(out, stat),
            Outcome::Deleted | Outcome::Checked => {}
        }
    }
}

fn put_multi(out: &mut Vec<u8>, outcomes: &[Outcome]) {
    for outcome in outcomes {
        let code = match outcome {
            Outcome::Created(_, None) => op::CREATE,
            Outcome::Created(_, Some(_)) => op::CREATE_2,
            Outcome::Deleted => op::DELETE,
            Outcome::Set(_) => op::SET_DATA,
            Outcome::Checked => op::CHECK,
        };
        answers::multi_header(out, Some((code, 0)));
        put_outcomes(out, std::slice::from_ref(outcome));
    }
    answers::multi_header(out, None);
}

fn put_refused(out: &mut Vec<u8>, count: usize, (failed, kind): (usize, Refused)) {
    for index in 0..count {
        let error = match index.cmp(&failed) {
            Ordering::Less => 0,
            Ordering::Equal => kind.0,
            // Operations after the refused one were not tried.
            Ordering::Greater => Refused::NOT_TRIED.0,
        };
        answers::multi_header(out, Some((-1, error)));
        out.put_int(error);
    }
    answers::multi_header(out, None);
}
