//! One session at a time, over its connections: what is sent, what an answer belongs to, when a
//! connection is given up, and what becomes of everybody when something breaks. Pure: it is told what
//! has come and what time it is, and it leaves bytes to be sent and things to be told.
//!
//! Answers come in the order of the requests, so the oldest is compared with each; those to pings and
//! credentials have numbers of their own and may overtake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::Moment;
use super::lease::{Lease, Proof};
use super::message::{self, Connected, Header, OpCode};
use super::vitals::{Pulse, Verdict, Vitals};
use super::watches::{Listen, WatchKind, Watches};
use super::wire::{Malformed, Reader};
use crate::error::{Error, ErrorKind};
use crate::types::{EventType, SessionEvent, SessionEventKind, State};

/// How late a look at the clock may come before it means that the whole process stood still.
const STALL: Duration = Duration::from_millis(250);
/// The most time between two looks at the clocks while a lease is kept.
const LOOK: Duration = Duration::from_millis(100);
/// Farther than anyone looks ahead.
const FAR: Duration = Duration::from_secs(3600);
/// So many hang-ups in a row by servers that were asked to resume, for longer than the session can
/// live, and one of them is asked whether there is such a session at all.
const REFUSALS: u32 = 6;

/// A request on its way, and whoever waits for its answer.
#[derive(Debug)]
pub(crate) struct Call<S, W> {
    pub(crate) frame: Vec<u8>,
    pub(crate) code: OpCode,
    pub(crate) slot: Option<S>,
    pub(crate) effect: Effect<W>,
    pub(crate) deadline: Option<Instant>,
    /// Is it sent again, over connections, until it is answered?
    pub(crate) repeat: bool,
    /// The session it is meant for; any, if none.
    pub(crate) session: Option<i64>,
}

/// What an answer changes here, beside what it tells.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    None,
    /// The server has set a watch.
    Watch(WatchKind, String, W),
    /// The server has taken credentials, which later connections need as well.
    Remember(Credential),
}

#[derive(Debug)]
struct Flight<S, W> {
    xid: i32,
    /// Its number among the vital signs.
    sign: u64,
    call: Call<S, W>,
}

/// A scheme and a secret, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) scheme: String,
    pub(crate) secret: Vec<u8>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:..", self.scheme)
    }
}

/// What is to be told, in this order, and not with a mutex held.
#[derive(Debug)]
pub(crate) enum Output<S, W> {
    /// To whoever waits: it is done, or it failed, without any bytes.
    Answer(S, Result<(), Error>),
    Watched(Vec<W>, EventType, String),
    Session(SessionEvent),
}

/// An answer of a server's; its body is in the frame behind the header.
#[derive(Debug)]
pub(crate) struct Answer<S> {
    pub(crate) slot: S,
    pub(crate) code: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No connection.
    Idle,
    /// The ConnectRequest is sent, and its answer is waited for until then. With `asking` only
    /// whether the session lives at all is of interest.
    Greeting {
        sent: Moment,
        until: Instant,
        asking: bool,
    },
    Open,
    /// Closed for good.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// As long as its deadline allows, also over another connection.
    Patient,
    /// On this connection or not at all.
    Hasty,
}

/// See the head of this file. `S` is where an answer goes, `W` who is told of an event.
#[derive(Debug)]
pub(crate) struct Core<S, W> {
    /// The session timeout that is asked for.
    timeout: Duration,
    credentials: Vec<Credential>,
    id: i64,
    password: Vec<u8>,
    /// The newest transaction that an answer spoke of: a server that is behind it must not answer.
    zxid: i64,
    vitals: Vitals,
    phase: Phase,
    /// Why the connection has to end, from when that is known until it has.
    doomed: Option<String>,
    closing: Closing,
    out: Vec<u8>,
    in_flight: VecDeque<Flight<S, W>>,
    pings: VecDeque<u64>,
    /// The credentials in flight.
    auths: VecDeque<Flight<S, W>>,
    /// For the next connection; while there is one, for `retry_at`.
    waiting: VecDeque<Call<S, W>>,
    retry_at: Instant,
    watches: Watches<W>,
    /// How many want the lease to be kept.
    keepers: usize,
    xid: i32,
    /// Not later than any deadline there is.
    next_deadline: Option<Instant>,
    outputs: Vec<Output<S, W>>,
    /// The term whose end was told.
    told_end_of: u64,
    last_failure: Option<Arc<str>>,
    lost_at: Instant,
    refusals: u32,
    planned: Instant,
    excused: bool,
}

impl<S, W: Listen> Core<S, W> {
    pub(crate) fn new(timeout: Duration, now: Moment) -> Core<S, W> {
        let mut lease = Lease::new(timeout, now, now.monotonic);
        lease.end_now();
        Core {
            timeout,
            credentials: Vec::new(),
            id: 0,
            password: vec![0; 16],
            zxid: 0,
            vitals: Vitals::new(lease),
            phase: Phase::Idle,
            doomed: None,
            closing: Closing::No,
            out: Vec::new(),
            in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            auths: VecDeque::new(),
            waiting: VecDeque::new(),
            retry_at: now.monotonic,
            watches: Watches::new(),
            keepers: 0,
            xid: 0,
            next_deadline: None,
            outputs: Vec::new(),
            told_end_of: 0,
            last_failure: None,
            lost_at: now.monotonic,
            refusals: 0,
            planned: now.monotonic,
            excused: false,
        }
    }

    // ---- how it is

    pub(crate) fn session_id(&self) -> i64 {
        self.id
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase::Over => State::Closed,
            _ if self.closing != Closing::No => State::Closed,
            Phase::Open => State::Connected,
            _ if self.id == 0 => State::Connecting,
            _ => State::Suspended,
        }
    }

    /// Before the first session: what is asked for.
    pub(crate) fn timeout(&self) -> Duration {
        self.lease().timeout()
    }

    fn lease(&self) -> &Lease {
        self.vitals.lease()
    }

    /// The lease's term and what is left of it.
    pub(crate) fn look_at_lease(&mut self, now: Moment) -> (u64, Duration) {
        let remaining = self.vitals.lease_mut().look(now);
        (self.lease().term(), remaining)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Has the connection to end?
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.is_some() || self.is_over()
    }

    /// What is to be sent on the connection; the sender takes it out.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Is there anything to be sent or told?
    pub(crate) fn has_news(&self) -> bool {
        !(self.outputs.is_empty() && self.out.is_empty())
    }

    pub(crate) fn outputs(&mut self) -> Vec<Output<S, W>> {
        std::mem::take(&mut self.outputs)
    }

    /// How long a server may take for the handshake of the next connection. Somebody who holds
    /// something needs time for another one, if this one is silent.
    pub(crate) fn patience(&self, now: Moment) -> Duration {
        let third = self.timeout() / 3;
        if self.id == 0 {
            // What the server will grant is not known, and it may be more.
            return third.max(Duration::from_secs(1));
        }
        let left = self.lease().remaining(now);
        match self.keepers > 0 && !left.is_zero() {
            true => (left / 2).max(self.timeout() / 20).min(third),
            false => third,
        }
    }

    // ---- the connection

    /// A server has accepted a connection.
    pub(crate) fn dialed(&mut self, now: Moment) {
        if self.is_over() {
            return;
        }
        let until = now.monotonic + self.patience(now);
        let passed = now.monotonic.saturating_duration_since(self.lost_at);
        let asking = self.id != 0 && self.refusals >= REFUSALS && passed > self.timeout();
        if asking {
            self.refusals = 0;
        }
        self.doomed = None;
        self.phase = Phase::Greeting { sent: now, until, asking };
        let timeout = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let zxid = if asking { 0 } else { self.zxid };
        self.out = message::connect(zxid, timeout, self.id, &self.password);
    }

    /// Takes a frame. An error ends the connection; see [`Core::broke`].
    pub(crate) fn receive(
        &mut self,
        frame: &[u8],
        now: Moment,
    ) -> Result<Option<Answer<S>>, Malformed> {
        match self.phase {
            Phase::Greeting { sent, asking, .. } => {
                let connected = message::connected(frame)?;
                self.connected(&connected, sent, asking, now).map(|()| None)
            }
            Phase::Open => {
                let mut reader = Reader(frame);
                let header = message::header(&mut reader)?;
                match header.xid {
                    message::EVENT => self.event(&mut reader).map(|()| None),
                    message::PING => self.pinged(&reader, now).map(|()| None),
                    message::AUTH => self.authenticated(header, now).map(|()| None),
                    _ => self.answered(header, &reader, now),
                }
            }
            Phase::Idle | Phase::Over => Ok(None),
        }
    }

    fn connected(
        &mut self,
        connected: &Connected<'_>,
        sent: Moment,
        asking: bool,
        now: Moment,
    ) -> Result<(), Malformed> {
        let asked = self.id;
        self.refusals = 0;
        if connected.timeout <= 0 || connected.session == 0 {
            if asked == 0 {
                return Err(Malformed("the server gave no session".into()));
            }
            self.doomed = Some("the session has expired".into());
            self.expired();
            return Ok(());
        }
        if connected.read_only {
            return Err(Malformed("the server only takes reads".into()));
        }
        if asked != 0 && asked != connected.session {
            return Err(Malformed("the server resumed another session".into()));
        }
        if asking {
            return Err(Malformed("the session lives, but the servers are behind it".into()));
        }
        let timeout = Duration::from_millis(connected.timeout.unsigned_abs().into());
        self.id = connected.session;
        self.password = connected.password.to_vec();
        self.phase = Phase::Open;
        self.last_failure = None;
        let kind = if asked == 0 {
            let next = self.lease().next(timeout, sent, now.monotonic);
            *self.vitals.lease_mut() = next;
            SessionEventKind::Connected
        } else {
            self.vitals.lease_mut().resumed(timeout, sent, now.monotonic);
            SessionEventKind::Resumed
        };
        self.tell(kind);
        for Credential { scheme, secret } in self.credentials.clone() {
            let auth = |out: &mut Vec<u8>| message::auth(out, &scheme, &secret);
            self.send(Call::nobodys(OpCode::Auth, auth), now);
        }
        for paths in self.watches.chunks() {
            let zxid = self.zxid;
            let set = |out: &mut Vec<u8>| message::set_watches(out, zxid, &paths);
            self.send(Call::nobodys(OpCode::SetWatches, set), now);
        }
        self.pulse(now);
        self.send_waiting(now);
        Ok(())
    }

    fn send_waiting(&mut self, now: Moment) {
        for call in std::mem::take(&mut self.waiting) {
            self.send(call, now);
        }
    }

    fn event(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        if let Some((event_type, path)) = message::event(reader)? {
            let listeners = self.watches.take(event_type, path);
            if !listeners.is_empty() {
                self.outputs.push(Output::Watched(listeners, event_type, path.to_owned()));
            }
        }
        Ok(())
    }

    fn pinged(&mut self, reader: &Reader<'_>, now: Moment) -> Result<(), Malformed> {
        reader.end()?;
        let sign = self.pings.pop_front();
        let sign = sign.ok_or_else(|| Malformed("an answer to a ping that was not sent".into()))?;
        self.vitals.answered(sign, now, Some(Proof::Server));
        Ok(())
    }

    fn authenticated(&mut self, header: Header, now: Moment) -> Result<(), Malformed> {
        let flight = self.auths.pop_front();
        let Flight { sign, call, .. } = flight
            .ok_or_else(|| Malformed("an answer to credentials that were not sent".into()))?;
        self.vitals.answered(sign, now, Some(Proof::Server));
        let refused = Error::new(ErrorKind::of_code(header.code));
        match call.effect {
            Effect::Remember(known) if header.code == 0 => {
                if !self.credentials.contains(&known) {
                    self.credentials.push(known);
                }
            }
            // Those of the user's who is told so below.
            Effect::Remember(_) => {}
            _ if header.code == 0 => {}
            _ => return Err(Malformed(refused.to_string())),
        }
        let result = if header.code == 0 { Ok(()) } else { Err(refused) };
        self.outputs.extend(call.slot.map(|slot| Output::Answer(slot, result)));
        Ok(())
    }

    fn answered(
        &mut self,
        header: Header,
        body: &Reader<'_>,
        now: Moment,
    ) -> Result<Option<Answer<S>>, Malformed> {
        let due = self.in_flight.front().map(|flight| flight.xid);
        if due != Some(header.xid) {
            let due = due.map_or("none was due".into(), |due| format!("{due} was due"));
            return Err(Malformed(format!("an answer to request {}, where {due}", header.xid)));
        }
        let code = header.code;
        if code != 0 {
            body.end()?;
        }
        match ErrorKind::of_code(code) {
            // The handshake of the next connection tells what is true.
            ErrorKind::Server(-112) => {
                return Err(Malformed("the server takes the session for expired".into()));
            }
            ErrorKind::Server(-118) => {
                return Err(Malformed("the session is on another connection".into()));
            }
            _ => {}
        }
        let Some(Flight { sign, mut call, .. }) = self.in_flight.pop_front() else {
            return Ok(None);
        };
        let committed = [0, -101, -103, -110].contains(&code);
        let proof = match call.code.is_write() && committed {
            true => Proof::Leader,
            false => Proof::Server,
        };
        self.vitals.answered(sign, now, Some(proof));
        self.zxid = self.zxid.max(header.zxid);
        if let Effect::Watch(kind, path, listener) = call.effect {
            match (code, call.code) {
                (0, _) => self.watches.add(kind, path, listener),
                (-101, OpCode::Exists) => self.watches.add(WatchKind::Exist, path, listener),
                _ => {}
            }
            call.effect = Effect::None;
        }
        if call.code == OpCode::SetWatches && code != 0 {
            let kind = ErrorKind::of_code(code);
            return Err(Malformed(format!("the watches could not be set again: {kind}")));
        }
        if call.code == OpCode::CloseSession {
            self.finish(call.slot, Ok(()));
            return Ok(None);
        }
        // The server was too busy for it.
        if call.repeat && [-4, -7, -122, -127].contains(&code) {
            self.retry_at = now.monotonic + self.lease().step() / 8;
            self.waiting.push_back(call);
            return Ok(None);
        }
        Ok(call.slot.map(|slot| Answer { slot, code }))
    }

    /// The connection has ended, or could not be had, and why. What was in flight fails or waits for
    /// the next one. Returns what is known of the reason.
    pub(crate) fn broke(&mut self, reason: &str, now: Moment) -> Arc<str> {
        let was = self.phase;
        if was == Phase::Over {
            return reason.into();
        }
        self.phase = Phase::Idle;
        let known = self.doomed.take();
        if let (Phase::Greeting { asking: false, .. }, None) = (was, &known) {
            self.refusals = self.refusals.saturating_add(1);
        }
        let reason: Arc<str> = known.as_deref().unwrap_or(reason).into();
        self.last_failure = Some(Arc::clone(&reason));
        self.out.clear();
        self.pings.clear();
        self.vitals.broke();
        let loss = || Error::because(ErrorKind::ConnectionLoss, Arc::clone(&reason));
        let lost = self.auths.drain(..).chain(self.in_flight.drain(..));
        for Flight { mut call, .. } in lost.collect::<Vec<_>>().into_iter().rev() {
            if call.repeat {
                self.waiting.push_front(call);
            } else if let Some(slot) = call.slot.take() {
                self.outputs.push(Output::Answer(slot, Err(loss())));
            }
        }
        if was == Phase::Open {
            self.lost_at = now.monotonic;
            self.tell(SessionEventKind::Suspended);
        }
        match self.closing {
            Closing::Hasty => self.finish(None, Ok(())),
            Closing::Patient => self.limit_close(),
            Closing::No => {}
        }
        reason
    }

    // ---- the session

    /// The servers have ended it.
    fn expired(&mut self) {
        self.tell(SessionEventKind::Expired);
        self.vitals.lease_mut().end_now();
        self.end_watches();
        (self.id, self.zxid) = (0, 0);
        self.password = vec![0; 16];
        for call in std::mem::take(&mut self.waiting) {
            if call.code == OpCode::CloseSession {
                self.finish(call.slot, Ok(()));
            } else {
                self.fail(call.slot, Error::new(ErrorKind::SessionExpired));
            }
        }
    }

    fn end_watches(&mut self) {
        for (path, listeners) in self.watches.take_all() {
            self.outputs.push(Output::Watched(listeners, EventType::WatchEnded, path));
        }
    }

    /// Ends everything, without a word to the servers.
    pub(crate) fn end(&mut self) {
        self.finish(None, Ok(()));
    }

    /// Ends everything. `slot` is whoever closed it.
    fn finish(&mut self, slot: Option<S>, result: Result<(), Error>) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.vitals.lease_mut().end_now();
        self.end_watches();
        let lost = Error::because(ErrorKind::ConnectionLoss, "the client was closed");
        let in_flight = std::mem::take(&mut self.in_flight);
        for flight in std::mem::take(&mut self.auths).into_iter().chain(in_flight) {
            self.fail(flight.call.slot, lost.clone());
        }
        for call in std::mem::take(&mut self.waiting) {
            self.fail(call.slot, Error::new(ErrorKind::Closed));
        }
        self.tell(SessionEventKind::Closed);
        self.outputs.extend(slot.map(|slot| Output::Answer(slot, result)));
    }

    fn tell(&mut self, kind: SessionEventKind) {
        let session_id = self.id;
        self.outputs.push(Output::Session(SessionEvent { kind, session_id }));
    }

    fn fail(&mut self, slot: Option<S>, error: Error) {
        self.outputs.extend(slot.map(|slot| Output::Answer(slot, Err(error))));
    }

    // ---- requests

    /// Sends it, now or when there is a connection.
    pub(crate) fn submit(&mut self, call: Call<S, W>, now: Moment) {
        if self.state() == State::Closed {
            return self.fail(call.slot, Error::new(ErrorKind::Closed));
        }
        if call.session.is_some_and(|session| session != self.id) {
            return self.fail(call.slot, Error::new(ErrorKind::SessionExpired));
        }
        self.enter(call, now);
    }

    fn enter(&mut self, call: Call<S, W>, now: Moment) {
        if let Some(deadline) = call.deadline {
            self.next_deadline =
                Some(self.next_deadline.map_or(deadline, |next| next.min(deadline)));
        }
        match self.phase {
            Phase::Open => self.send(call, now),
            _ => self.waiting.push_back(call),
        }
    }

    fn send(&mut self, mut call: Call<S, W>, now: Moment) {
        let xid = match call.code {
            OpCode::Auth => message::AUTH,
            _ => {
                self.xid = self.xid.checked_add(1).unwrap_or(1);
                self.xid
            }
        };
        message::number(&mut call.frame, xid);
        self.out.extend_from_slice(&call.frame);
        if !call.repeat {
            call.frame = Vec::new();
        }
        let sign = self.vitals.sending(now, call.code.is_write());
        let queue = match call.code {
            OpCode::Auth => &mut self.auths,
            _ => &mut self.in_flight,
        };
        queue.push_back(Flight { xid, sign, call });
    }

    /// Ends the session. With a slot it is told when the servers have ended it, or the deadline has
    /// come; without, it ends on this connection or not at all.
    pub(crate) fn close(&mut self, slot: Option<S>, deadline: Instant, now: Moment) {
        if self.state() == State::Closed {
            return self.outputs.extend(slot.map(|slot| Output::Answer(slot, Ok(()))));
        }
        self.closing = if slot.is_some() { Closing::Patient } else { Closing::Hasty };
        if self.id == 0 || (slot.is_none() && self.phase != Phase::Open) {
            return self.finish(slot, Ok(()));
        }
        let mut call = Call::nobodys(OpCode::CloseSession, |_| {});
        (call.slot, call.deadline, call.repeat) = (slot, Some(deadline), true);
        self.enter(call, now);
        self.limit_close();
    }

    /// Without a connection nobody can keep the session for longer than its timeout, so there is no
    /// reason to look for one until the deadline.
    fn limit_close(&mut self) {
        let (end, idle) = (self.lost_at + self.timeout(), self.phase != Phase::Open);
        for call in self.waiting.iter_mut().filter(|call| idle && call.code == OpCode::CloseSession)
        {
            call.deadline = call.deadline.map(|deadline| deadline.min(end));
            self.next_deadline = self.next_deadline.min(call.deadline).or(call.deadline);
        }
    }

    // ---- time

    pub(crate) fn keep_lease(&mut self) {
        self.keepers += 1;
    }

    pub(crate) fn release_lease(&mut self) {
        self.keepers = self.keepers.saturating_sub(1);
    }

    /// Does what time has brought, and says when the next look is due.
    pub(crate) fn tick(&mut self, now: Moment) -> Instant {
        let mut next = now.monotonic + FAR;
        // Once: a machine that is always late must not excuse a silent server.
        self.excused = !self.excused && now.monotonic > self.planned + STALL;
        if self.next_deadline.is_some_and(|deadline| deadline <= now.monotonic) {
            self.expire_calls(now.monotonic);
        }
        next = next.min(self.next_deadline.unwrap_or(next));
        next = next.min(self.watch_lease(now).unwrap_or(next));
        if self.doomed.is_none() {
            next = next.min(self.watch_connection(now).unwrap_or(next));
        }
        self.planned = next;
        next
    }

    fn watch_lease(&mut self, now: Moment) -> Option<Instant> {
        if self.keepers == 0 {
            return None;
        }
        let (term, left) = self.look_at_lease(now);
        if !left.is_zero() {
            return Some(now.monotonic + left.min(LOOK).min(self.timeout() / 20));
        }
        if term > self.told_end_of {
            self.told_end_of = term;
            self.tell(SessionEventKind::LeaseEnded);
        }
        None
    }

    fn watch_connection(&mut self, now: Moment) -> Option<Instant> {
        match self.phase {
            Phase::Idle | Phase::Over => None,
            Phase::Greeting { until, sent, .. } if now.monotonic >= until => {
                let waited = now.monotonic - sent.monotonic;
                self.doomed = Some(format!("no answer to the handshake in {waited:.1?}"));
                None
            }
            Phase::Greeting { until, .. } => Some(until),
            Phase::Open => {
                let verdict = self.vitals.verdict(now.monotonic, self.keepers > 0);
                let next = match verdict {
                    // Answers that came while the process stood still get a moment to be read.
                    Verdict::Silent(_) if self.excused => now.monotonic + LOOK,
                    Verdict::Silent(time) => {
                        self.doomed = Some(format!("the server was silent for {time:.1?}"));
                        return None;
                    }
                    Verdict::Alive(until) => until,
                };
                if !self.waiting.is_empty() && now.monotonic >= self.retry_at {
                    self.send_waiting(now);
                }
                let retry = (!self.waiting.is_empty()).then_some(self.retry_at);
                Some(self.pulse(now).min(next).min(retry.unwrap_or(next)))
            }
        }
    }

    /// Sends what keeps the session alive, if it is due, and says when to look again.
    fn pulse(&mut self, now: Moment) -> Instant {
        match self.vitals.pulse(now.monotonic, self.keepers > 0) {
            Pulse::Rest(until) => return until,
            Pulse::Read => {
                let sign = self.vitals.sending(now, false);
                self.pings.push_back(sign);
                self.out.extend_from_slice(&message::ping());
            }
            // A write that the leader refuses: it costs a proposal and changes nothing.
            Pulse::Write => {
                let path = format!("/zookeeper/lease-of-{:x}", self.id);
                let refused = |out: &mut Vec<u8>| {
                    message::set_data(out, ("", &path), &[], Some(i32::MAX));
                };
                self.send(Call::nobodys(OpCode::SetData, refused), now);
            }
        }
        now.monotonic + self.lease().step() / 8
    }

    fn expire_calls(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        let mut due = |deadline: Option<Instant>| match deadline {
            Some(deadline) if deadline > now => {
                next = Some(next.map_or(deadline, |next| next.min(deadline)));
                false
            }
            deadline => deadline.is_some(),
        };
        let mut ended = Vec::new();
        let mut is_closed = false;
        for Flight { call, .. } in self.in_flight.iter_mut().chain(&mut self.auths) {
            // Its answer may still come, so its place is kept.
            if due(call.deadline) {
                (call.deadline, call.repeat, call.effect) = (None, false, Effect::None);
                is_closed |= call.code == OpCode::CloseSession;
                ended.extend(call.slot.take().map(|slot| (slot, true)));
            }
        }
        let mut waiting = VecDeque::with_capacity(self.waiting.len());
        for call in self.waiting.drain(..) {
            if due(call.deadline) {
                is_closed |= call.code == OpCode::CloseSession;
                ended.extend(call.slot.map(|slot| (slot, false)));
            } else {
                waiting.push_back(call);
            }
        }
        (self.waiting, self.next_deadline) = (waiting, next);
        if is_closed {
            self.finish(None, Ok(()));
        }
        for (slot, sent) in ended {
            let error = match sent {
                true => Error::new(ErrorKind::Timeout),
                false => self.no_connection(),
            };
            self.fail(Some(slot), error);
        }
    }

    fn no_connection(&self) -> Error {
        match &self.last_failure {
            Some(reason) => Error::because(ErrorKind::NoConnection, Arc::clone(reason)),
            None => Error::new(ErrorKind::NoConnection),
        }
    }
}

impl<S, W> Call<S, W> {
    /// A request that nobody waits for.
    fn nobodys(code: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Call<S, W> {
        Call {
            frame: message::request(code, body),
            code,
            slot: None,
            effect: Effect::None,
            deadline: None,
            repeat: false,
            session: None,
        }
    }
}
