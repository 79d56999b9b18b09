//! The state machine of a client's session, over all its connections.
//!
//! It decides when a session begins and ends, what to send and when, and what an answer changes.
//! When a connection breaks, it fails the requests in flight or keeps them for the next one. Pure:
//! frames and instants come in; bytes to send and outputs to deliver go out.

mod answers;
#[cfg(feature = "sasl")]
mod login;
#[cfg(test)]
mod tests;
mod time;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::Moment;
use super::connection::{Call, Connection, Credential, Effect, Granted, Greeting};
use super::gathering::{Gathering, Group};
use super::lease::Lease;
use super::message::{self, OpCode};
#[cfg(feature = "sasl")]
use super::sasl::User;
use super::tries::Tries;
use super::vitals::Vitals;
use super::watches::{Listen, Watches};
use crate::error::{Error, ErrorKind};
use crate::sys;
use crate::types::{Counts, EventType, SessionEvent, SessionEventKind, SessionKey, State};

/// A server has at least this long to answer a handshake.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// A server has at most this long to open a new session.
const PATIENCE_MAX: Duration = Duration::from_secs(3);
/// After this many handshakes in a row without an answer, and without a connection for twice the
/// session timeout, the client checks whether the session exists. More checks would keep it alive.
const REFUSALS: u32 = 6;

/// Something to deliver. Outputs are delivered in the order in which they were created, before the
/// answers of later frames, and never while a mutex is held. Therefore a session event precedes the
/// answers of its connection, and an event of a node precedes the answer that shows the change.
#[derive(Debug)]
pub(crate) enum Output<S, W> {
    /// The result of a request that ends without the body of an answer.
    Answer(S, Result<(), Error>),
    Watched(Vec<W>, EventType, String),
    Session(SessionEvent),
}

/// An answer of a server.
#[derive(Debug)]
pub(crate) struct Answer<S> {
    pub(crate) slot: S,
    pub(crate) code: i32,
    /// The last transaction that the server had applied; for a write, the write itself.
    pub(crate) zxid: i64,
    /// Where its body is in the frame.
    pub(crate) body: Range<usize>,
}

/// How a server recognizes the session. All fields are empty while there is no session.
#[derive(Debug, Default)]
struct Identity {
    id: i64,
    password: Vec<u8>,
    /// The newest transaction in any answer. A server that is behind it must refuse the session.
    zxid: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// Closing until the caller's deadline, over another connection if needed.
    Patient,
    /// Closing on this connection or not at all.
    Hasty,
    /// Closed for good.
    Over,
}

/// Whether the end of the lease's term was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseEnd {
    NotYet,
    Told,
    /// Not to be reported: the lease ran out before the program kept it, so nothing was lost.
    Unkept,
}

/// The state machine of a client's session. `S` is where an answer goes, `W` a listener of events.
#[derive(Debug)]
pub(crate) struct Core<S, W> {
    settings: ClientSettings,
    session: Identity,
    closing: Closing,
    connection: Option<Connection<S, W>>,
    vitals: Vitals,
    tries: Tries,
    outage: Outage,
    keeping: Keeping,
    watches: Watches<W>,
    queue: Queue<S, W>,
    gathering: Gathering<S, W>,
    looks: Looks,
    outbox: Outbox<S, W>,
}

/// The settings of the program.
#[derive(Debug)]
struct ClientSettings {
    /// The session timeout to request.
    timeout: Duration,
    credentials: Vec<Credential>,
    #[cfg(feature = "sasl")]
    user: Option<User>,
}

/// Why the client has no connection, or had none the last time.
#[derive(Debug)]
struct Outage {
    /// When the session lost its last connection.
    since: Instant,
    reason: Option<Arc<str>>,
    /// Handshakes in a row that servers ended without an answer.
    refusals: u32,
    /// The server of this connection, or of the last one, refused the SASL user.
    is_refused: bool,
}

/// Whether the program keeps the lease.
#[derive(Debug)]
struct Keeping {
    keepers: usize,
    end: LeaseEnd,
}

/// Requests that wait for the next connection, or for `retry_at` while there is a connection.
#[derive(Debug)]
struct Queue<S, W> {
    waiting: VecDeque<Call<S, W>>,
    retry_at: Instant,
    /// The earliest deadline of all requests, including those in flight, or an earlier instant.
    next_deadline: Option<Instant>,
}

/// When the timer reads the clocks.
#[derive(Debug)]
struct Looks {
    /// When the next reading is due.
    planned: Instant,
    /// Until when a silent server is kept because the last reading was late.
    excused: Instant,
}

/// What the core produces: bytes to send and outputs to deliver.
#[derive(Debug)]
struct Outbox<S, W> {
    /// The number of the last request.
    xid: i32,
    bytes: Vec<u8>,
    outputs: Vec<Output<S, W>>,
    counts: Counts,
}

impl<S, W: Listen> Core<S, W> {
    pub(crate) fn new(timeout: Duration, now: Moment) -> Core<S, W> {
        let mut lease = Lease::new(timeout, now, now.monotonic);
        lease.end_now();
        let now = now.monotonic;
        Core {
            settings: ClientSettings {
                timeout,
                credentials: Vec::new(),
                #[cfg(feature = "sasl")]
                user: None,
            },
            session: Identity::default(),
            closing: Closing::No,
            connection: None,
            vitals: Vitals::new(lease),
            tries: Tries::new(now),
            outage: Outage { since: now, reason: None, refusals: 0, is_refused: false },
            keeping: Keeping { keepers: 0, end: LeaseEnd::NotYet },
            watches: Watches::new(),
            queue: Queue { waiting: VecDeque::new(), retry_at: now, next_deadline: None },
            gathering: Gathering::new(),
            looks: Looks { planned: now, excused: now },
            outbox: Outbox {
                xid: 0,
                bytes: Vec::new(),
                outputs: Vec::new(),
                counts: Counts::default(),
            },
        }
    }

    /// Takes a session over from another process, as if this one had just lost its connection.
    pub(crate) fn take_over(&mut self, key: &SessionKey) {
        self.session = Identity { id: key.id, password: key.password.clone(), zxid: 0 };
    }

    /// Returns how the servers recognize the session, if there is one.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        let Identity { id, ref password, .. } = self.session;
        let key = || SessionKey { id, password: password.clone(), timeout: self.timeout() };
        (id != 0).then(key)
    }

    /// Sets the credentials for all connections, before the first one.
    pub(crate) fn know(&mut self, credentials: Vec<Credential>) {
        self.settings.credentials = credentials;
    }

    // ---- the state

    pub(crate) fn session_id(&self) -> i64 {
        self.session.id
    }

    pub(crate) fn state(&self) -> State {
        match self.closing {
            Closing::No if self.is_open() => State::Connected,
            Closing::No if self.session.id == 0 => State::Connecting,
            Closing::No => State::Suspended,
            _ => State::Closed,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.outbox.counts
    }

    pub(crate) fn asked_timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Returns the granted session timeout; before the first session, the one to request.
    pub(crate) fn timeout(&self) -> Duration {
        self.lease().timeout()
    }

    fn lease(&self) -> &Lease {
        self.vitals.lease()
    }

    /// Returns the lease's term and what is left of it.
    pub(crate) fn look_at_lease(&mut self, now: Moment) -> (u64, Duration) {
        let remaining = self.vitals.lease_mut().look(now);
        (self.lease().term(), remaining)
    }

    /// Returns the instant from which on a write renews the lease.
    pub(crate) fn lease_renewable(&self) -> Instant {
        self.lease().write_due()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.closing == Closing::Over
    }

    pub(crate) fn is_open(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_open)
    }

    /// Returns whether a server accepted a request on this connection.
    pub(crate) fn is_of_use(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_of_use)
    }

    /// Returns whether the server has not answered the handshake in time.
    pub(crate) fn is_silent(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_silent)
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.outage.is_refused
    }

    /// Returns whether the connection must end.
    pub(crate) fn is_doomed(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.doomed.is_some())
    }

    /// Returns the bytes to send on the connection. The sender takes them out.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.outbox.bytes
    }

    /// Returns the number of requests that have no answer yet.
    pub(crate) fn under_way(&self) -> usize {
        self.vitals.under_way()
    }

    /// Returns whether there is anything to send or to deliver.
    pub(crate) fn has_news(&self) -> bool {
        !(self.outbox.outputs.is_empty() && self.outbox.bytes.is_empty())
    }

    pub(crate) fn has_outputs(&self) -> bool {
        !self.outbox.outputs.is_empty()
    }

    /// Takes the answers out of the outputs.
    pub(crate) fn answers(&mut self) -> Vec<Output<S, W>> {
        let is_answer = |output: &mut Output<S, W>| matches!(output, Output::Answer(..));
        self.outbox.outputs.extract_if(.., is_answer).collect()
    }

    pub(crate) fn outputs(&mut self) -> Vec<Output<S, W>> {
        std::mem::take(&mut self.outbox.outputs)
    }

    /// Returns how long a server may take for the handshake of the next connection. While a lease
    /// is kept, there must be time left to try another server if this one is silent.
    pub(crate) fn patience(&self, now: Moment) -> Duration {
        let third = self.timeout() / 3;
        let left = self.lease().remaining(now);
        match self.keeping.keepers {
            // The maximum leaves time for other servers. The minimum helps if servers grant a
            // longer timeout than the client has requested.
            _ if self.session.id == 0 => third.clamp(PATIENCE_MIN, PATIENCE_MAX),
            _ if left.is_zero() => third.max(PATIENCE_MIN),
            0 => third,
            _ => (left / 2).max(self.timeout() / 20).min(third),
        }
    }

    // ---- the connection

    /// Returns when the next handshake may be sent: now, or later.
    pub(crate) fn next_handshake(&self, now: Moment) -> Instant {
        self.tries.next(now.monotonic, self.long())
    }

    /// Returns the session timeout or, if that is too short for any network, a longer time.
    fn long(&self) -> Duration {
        self.timeout().max(PATIENCE_MIN)
    }

    /// Notes that a request that names the session may reach a server now.
    fn touch(&mut self, now: Moment) {
        if self.session.id != 0 {
            self.tries.touched(now.monotonic);
        }
    }

    /// Notes that a server accepted a request.
    fn used(&mut self, now: Moment) {
        self.tries.used(now.monotonic);
        self.connection.iter_mut().for_each(|connection| connection.is_of_use = true);
    }

    /// Starts the handshake on a connection that a server accepted. If its address is not confirmed,
    /// the server may belong to another ensemble, and its answer that the session has expired is
    /// ignored.
    pub(crate) fn dialed(&mut self, is_confirmed: bool, now: Moment) {
        if self.is_over() {
            return;
        }
        let passed = now.monotonic.saturating_duration_since(self.outage.since);
        let asking =
            self.session.id != 0 && self.outage.refusals >= REFUSALS && passed > self.timeout() * 2;
        if asking {
            sys::reached("the client checks whether the session still exists");
            self.outage.refusals = 0;
        }
        self.outage.is_refused = false;
        self.tries.greeted(now.monotonic, self.long());
        let until = now.monotonic + self.patience(now);
        self.connection =
            Some(Connection::new(Greeting { sent: now, until, asking, is_confirmed }));
        let timeout = match self.closing {
            Closing::No => i32::try_from(self.settings.timeout.as_millis()).unwrap_or(i32::MAX),
            // The short timeout ends the session soon, even if the close request is lost after this
            // handshake.
            _ => 1,
        };
        let Identity { id, password, zxid } = &self.session;
        let zxid = if asking { 0 } else { *zxid };
        self.outbox.bytes = message::connect(zxid, timeout, *id, password);
    }

    /// Gives the session to the connection, and sends the requests that have waited for it.
    fn open(&mut self, granted: Granted, now: Moment) {
        let Granted { id, password, timeout, sent } = granted;
        let is_new = self.session.id == 0;
        (self.session.id, self.session.password) = (id, password);
        self.connection.iter_mut().for_each(|connection| connection.greeting = None);
        self.outbox.counts.connections += 1;
        self.outbox.counts.sessions += u64::from(is_new);
        self.outage.reason = None;
        if is_new {
            *self.vitals.lease_mut() = self.lease().next(timeout, sent, now.monotonic);
            self.keeping.end = LeaseEnd::NotYet;
            self.tries.began(now.monotonic);
            self.tell(SessionEventKind::Connected);
        } else {
            self.vitals.lease_mut().resumed(timeout, sent, now.monotonic);
            self.tell(SessionEventKind::Resumed);
        }
        for Credential { scheme, secret } in self.settings.credentials.clone() {
            let auth = |out: &mut Vec<u8>| message::auth(out, &scheme, &secret);
            self.send(Call::nobodys(OpCode::Auth, auth), now);
        }
        for paths in self.watches.chunks() {
            let zxid = self.session.zxid;
            let set = |out: &mut Vec<u8>| message::set_watches(out, zxid, &paths);
            let call = Call::nobodys(OpCode::SetWatches, set);
            self.send(Call { effect: Effect::WatchAgain, ..call }, now);
        }
        self.pulse(now);
        self.send_waiting(now);
    }

    /// Marks the connection as one that must end.
    pub(crate) fn doom(&mut self, reason: &str) {
        if let Some(connection) = &mut self.connection {
            connection.doomed.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Ends the connection, or notes that none could be established. Requests in flight fail or wait
    /// for the next connection. Returns the most specific reason that is known.
    pub(crate) fn broke(&mut self, reason: &str, now: Moment) -> Arc<str> {
        let Some(connection) = self.connection.take() else {
            let reason: Arc<str> = reason.into();
            self.outage.reason = Some(Arc::clone(&reason));
            return reason;
        };
        let reason: Arc<str> = connection.doomed.as_deref().unwrap_or(reason).into();
        self.outage.reason = Some(Arc::clone(&reason));
        self.outbox.bytes.clear();
        self.vitals.broke();
        if connection.is_of_use {
            // No handshake has been sent since that of this connection. Only a new one could keep
            // the session alive for longer.
            self.tries.untouched();
        }
        if connection.is_open() {
            self.outage.since = now.monotonic;
        } else if connection.doomed.is_none() {
            self.outage.refusals = self.outage.refusals.saturating_add(1);
        }
        let was_open = connection.is_open();
        let mut again = VecDeque::new();
        for call in connection.into_calls() {
            match call.repeat {
                true => again.push_back(call),
                false => self.fail(
                    call.slot,
                    Error::because(ErrorKind::ConnectionLoss, Arc::clone(&reason)),
                ),
            }
        }
        // A shared write fails as if it had been sent.
        let (shared, others): (Vec<_>, Vec<_>) =
            self.gathering.take_all().partition(|call| call.share.is_some());
        let lost = Error::because(ErrorKind::ConnectionLoss, Arc::clone(&reason));
        shared.into_iter().for_each(|call| self.fail(call.slot, lost.clone()));
        again.extend(others);
        again.append(&mut self.queue.waiting);
        self.queue.waiting = again;
        if was_open {
            self.tell(SessionEventKind::Suspended);
        }
        match self.closing {
            Closing::Hasty => self.finish(None, Ok(())),
            Closing::Patient => self.limit_close(),
            Closing::No | Closing::Over => {}
        }
        reason
    }

    // ---- the session

    /// Handles the expiry of the session: the servers have ended it.
    fn expired(&mut self) {
        self.vitals.lease_mut().end_now();
        self.tell_lease_ended();
        self.tell(SessionEventKind::Expired);
        self.end_watches();
        self.session = Identity::default();
        self.tries.untouched();
        for call in std::mem::take(&mut self.queue.waiting) {
            match call.code {
                OpCode::CloseSession => {
                    sys::reached("a session expires while it is closed");
                    self.finish(call.slot, Ok(()));
                }
                _ => self.give_up(call, ErrorKind::SessionExpired),
            }
        }
    }

    fn end_watches(&mut self) {
        for (path, listeners) in self.watches.take_all() {
            self.outbox.outputs.push(Output::Watched(listeners, EventType::WatchEnded, path));
        }
    }

    /// Ends the client without notifying the servers.
    pub(crate) fn end(&mut self) {
        self.finish(None, Ok(()));
    }

    /// Ends the client. `slot` belongs to the caller that closed it.
    fn finish(&mut self, slot: Option<S>, result: Result<(), Error>) {
        if self.is_over() {
            return;
        }
        self.closing = Closing::Over;
        self.outbox.bytes.clear();
        self.vitals.lease_mut().end_now();
        self.end_watches();
        for call in self.connection.take().into_iter().flat_map(Connection::into_calls) {
            self.fail(
                call.slot,
                Error::because(ErrorKind::ConnectionLoss, "the client was closed"),
            );
        }
        let waiting = std::mem::take(&mut self.queue.waiting);
        for call in self.gathering.take_all().chain(waiting) {
            self.give_up(call, ErrorKind::Closed);
        }
        self.tell(SessionEventKind::Closed);
        self.session = Identity::default();
        self.outbox.outputs.extend(slot.map(|slot| Output::Answer(slot, result)));
    }

    /// Fails a waiting request. It is certainly not carried out, unless it was sent on an earlier
    /// connection.
    fn give_up(&mut self, call: Call<S, W>, kind: ErrorKind) {
        let lost = || Error::because(ErrorKind::ConnectionLoss, kind.to_string());
        self.fail(call.slot, if call.was_sent { lost() } else { Error::new(kind) });
    }

    fn tell(&mut self, kind: SessionEventKind) {
        let session_id = self.session.id;
        self.outbox.outputs.push(Output::Session(SessionEvent { kind, session_id }));
    }

    fn fail(&mut self, slot: Option<S>, error: Error) {
        self.outbox.outputs.extend(slot.map(|slot| Output::Answer(slot, Err(error))));
    }

    // ---- requests

    /// Sends requests, now or when there is a connection. Shared writes among them share transactions.
    pub(crate) fn submit(&mut self, calls: impl IntoIterator<Item = Call<S, W>>, now: Moment) {
        let mut calls = calls.into_iter().peekable();
        while let Some(call) = calls.next() {
            if self.state() == State::Closed {
                self.fail(call.slot, Error::new(ErrorKind::Closed));
                continue;
            }
            if call.session.is_some_and(|session| session == 0 || session != self.session.id) {
                self.fail(call.slot, Error::new(ErrorKind::SessionExpired));
                continue;
            }
            self.enter(call, calls.peek().is_some_and(|next| next.share.is_some()), now);
        }
        self.send_gathered(now);
    }

    /// Sends a request, or adds it to those that are gathered. `is_followed` means that a shared write
    /// comes next.
    fn enter(&mut self, call: Call<S, W>, is_followed: bool, now: Moment) {
        self.queue.next_deadline = earlier(self.queue.next_deadline, call.deadline);
        self.looks.planned =
            call.deadline.map_or(self.looks.planned, |deadline| deadline.min(self.looks.planned));
        let writes = self.connection.as_ref().map_or(0, Connection::writes);
        match self.is_open() && !self.is_doomed() {
            true if self.gathering.takes(&call, is_followed, writes) => self.gathering.add(call),
            true => self.send(call, now),
            false => self.queue.waiting.push_back(call),
        }
    }

    /// Sends requests that wait for a transaction, as long as few writes are in flight.
    fn send_gathered(&mut self, now: Moment) {
        while let Some(connection) = &self.connection
            && connection.doomed.is_none()
            && let Some(Group { mut parts, others }) = self.gathering.next(connection.writes())
        {
            match parts.len() {
                0 | 1 => parts.pop().into_iter().for_each(|alone| self.send(alone, now)),
                _ => self.send(Call::shared(parts), now),
            }
            others.into_iter().for_each(|other| self.send(other, now));
        }
    }

    /// Sends a request on the current connection.
    fn send(&mut self, call: Call<S, W>, now: Moment) {
        let Some(connection) = &mut self.connection else {
            return self.queue.waiting.push_back(call);
        };
        if call.code != OpCode::Auth {
            self.outbox.xid = after(self.outbox.xid);
        }
        // Servers do not count credentials as a sign of life.
        let sign = match call.code {
            OpCode::Auth => None,
            code => Some(self.vitals.sending(now, code.is_write())),
        };
        connection.send(call, self.outbox.xid, sign, &mut self.outbox.bytes);
        self.outbox.counts.requests += 1;
        self.touch(now);
    }

    fn send_waiting(&mut self, now: Moment) {
        for call in std::mem::take(&mut self.queue.waiting) {
            self.send(call, now);
        }
    }

    /// Closes the session. With a slot, the answer comes when the servers have ended the session, or at
    /// the deadline. Without a slot, the session is closed on this connection or not at all.
    pub(crate) fn close(&mut self, slot: Option<S>, deadline: Instant, now: Moment) {
        if self.state() == State::Closed {
            return self.outbox.outputs.extend(slot.map(|slot| Output::Answer(slot, Ok(()))));
        }
        if self.session.id == 0 || (slot.is_none() && !self.is_open()) {
            return self.finish(slot, Ok(()));
        }
        self.closing = if slot.is_some() { Closing::Patient } else { Closing::Hasty };
        let mut call = Call::nobodys(OpCode::CloseSession, |_| {});
        (call.slot, call.deadline, call.repeat) = (slot, Some(deadline), true);
        self.enter(call, false, now);
        self.limit_close();
    }

    /// While there is no connection, limits closing to the life of the session. After that, the servers
    /// have ended the session, and connecting again would be useless.
    fn limit_close(&mut self) {
        let (end, idle) = (self.outage.since + self.timeout(), !self.is_open());
        for call in
            self.queue.waiting.iter_mut().filter(|call| idle && call.code == OpCode::CloseSession)
        {
            call.deadline = earlier(call.deadline, Some(end));
            self.queue.next_deadline = earlier(self.queue.next_deadline, call.deadline);
        }
    }
}

/// Returns the number of the next request.
fn after(xid: i32) -> i32 {
    xid.checked_add(1).unwrap_or(1)
}

/// Returns the earlier instant; `None` is never.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
