//! The state machine of a client's session, over all its connections.
//!
//! It decides when a session begins and ends, what to send and when, and what an answer changes.
//! When a connection breaks, it fails the requests in flight or keeps them for the next one. Pure:
//! frames and instants come in; bytes to send and outputs to deliver go out.

#[cfg(feature = "sasl")]
mod login;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::Moment;
use super::connection::{Call, Connection, Credential, Effect, Flight, Granted, Greeting};
use super::lease::{Lease, Proof};
use super::message::{self, Connected, Header, OpCode};
#[cfg(feature = "sasl")]
use super::sasl::User;
use super::tries::Tries;
use super::vitals::{Pulse, Verdict, Vitals};
use super::watches::{Listen, WatchKind, Watches};
use super::wire::{Malformed, Reader};
use crate::error::{Error, ErrorKind, code};
use crate::sys;
use crate::types::{Counts, EventType, SessionEvent, SessionEventKind, State};

/// A look at the clock that comes later than this means that the whole process stood still.
const STALL: Duration = Duration::from_millis(250);
/// The longest time between two looks at the clocks while a lease is kept.
const LOOK: Duration = Duration::from_millis(100);
/// A server has at least this long to answer a handshake.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// A server has at most this long to open a new session.
const PATIENCE_MAX: Duration = Duration::from_secs(3);
/// The next look at the clock when nothing is due.
const FAR: Duration = Duration::from_secs(3600);
/// After this many handshakes in a row without an answer, over twice the life of the session, the
/// client asks a server whether the session exists at all. Asking more often would keep it alive.
const REFUSALS: u32 = 6;
const UNCONFIRMED: &str = "it does not know the session, but may not be the server it was: its name could not be resolved";

/// Something to deliver, in this order, and never while a mutex is held.
#[derive(Debug)]
pub(crate) enum Output<S, W> {
    /// Settles a request without an answer that has a body.
    Answer(S, Result<(), Error>),
    Watched(Vec<W>, EventType, String),
    Session(SessionEvent),
}

/// An answer of a server. Its body is in the frame behind the header.
#[derive(Debug)]
pub(crate) struct Answer<S> {
    pub(crate) slot: S,
    pub(crate) code: i32,
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
    /// Closing until its deadline, over another connection if needed.
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
    /// Never to be reported: the lease ran out before the program kept it, so nothing was lost.
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
    /// The server of this connection, or of the last, refused the SASL user.
    is_refused: bool,
}

/// Whether the program keeps the lease.
#[derive(Debug)]
struct Keeping {
    keepers: usize,
    end: LeaseEnd,
}

/// Requests that wait for the next connection; while there is one, for `retry_at`.
#[derive(Debug)]
struct Queue<S, W> {
    waiting: VecDeque<Call<S, W>>,
    retry_at: Instant,
    /// No deadline of any request is earlier, those in flight included.
    next_deadline: Option<Instant>,
}

/// The timer's looks at the clocks.
#[derive(Debug)]
struct Looks {
    /// When the next look is due.
    planned: Instant,
    /// Until when a late look excuses a silent server.
    excused: Instant,
}

/// What the core hands out: bytes to send and outputs to deliver.
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
            looks: Looks { planned: now, excused: now },
            outbox: Outbox {
                xid: 0,
                bytes: Vec::new(),
                outputs: Vec::new(),
                counts: Counts::default(),
            },
        }
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

    /// Returns the granted session timeout. Before the first session, the one to ask for.
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
            // There are other servers to try, and the server may grant a longer session.
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

    /// Returns the session timeout, or a longer time if that is too short for any network.
    fn long(&self) -> Duration {
        self.timeout().max(PATIENCE_MIN)
    }

    /// Notes that a request with the session may reach a server now.
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

    /// Starts the handshake on a connection that a server accepted. If its address is not
    /// confirmed, the server may belong to another ensemble, so it is not believed when it says
    /// that the session is over.
    pub(crate) fn dialed(&mut self, is_confirmed: bool, now: Moment) {
        if self.is_over() {
            return;
        }
        let passed = now.monotonic.saturating_duration_since(self.outage.since);
        let asking =
            self.session.id != 0 && self.outage.refusals >= REFUSALS && passed > self.timeout() * 2;
        if asking {
            sys::reached("a server is asked whether the session lives at all");
            self.outage.refusals = 0;
        }
        self.outage.is_refused = false;
        self.tries.greeted(now.monotonic, self.long());
        let until = now.monotonic + self.patience(now);
        self.connection =
            Some(Connection::new(Greeting { sent: now, until, asking, is_confirmed }));
        let timeout = i32::try_from(self.settings.timeout.as_millis()).unwrap_or(i32::MAX);
        let Identity { id, password, zxid } = &self.session;
        let zxid = if asking { 0 } else { *zxid };
        self.outbox.bytes = message::connect(zxid, timeout, *id, password);
    }

    /// Takes a frame from the server. An error means that the connection must end.
    pub(crate) fn receive(
        &mut self,
        frame: &[u8],
        now: Moment,
    ) -> Result<Option<Answer<S>>, Malformed> {
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        if let Some(greeting) = connection.greeting {
            // The handshake was given up before its answer came.
            if connection.doomed.is_some() {
                sys::reached("the answer to a handshake comes too late");
                return Ok(None);
            }
            #[cfg(feature = "sasl")]
            if let Some(login) = connection.login.take() {
                return self.go_on_logging_in(login, frame, now).map(|()| None);
            }
            let connected = message::connected(frame)?;
            return self.connected(&connected, greeting, now).map(|()| None);
        }
        let mut reader = Reader(frame);
        let header = message::header(&mut reader)?;
        match header.xid {
            message::EVENT => self.event(&mut reader)?,
            message::PING => {
                let sign = connection.pinged(&reader)?;
                self.pinged(sign, header.code, now);
            }
            message::AUTH => {
                let flight = connection.authenticated()?;
                self.authenticated(flight, header.code);
            }
            xid => {
                if header.code != 0 {
                    reader.end()?;
                }
                let flight = connection.answered(xid)?;
                return Ok(self.answered(flight, header, now));
            }
        }
        Ok(None)
    }

    fn connected(
        &mut self,
        connected: &Connected<'_>,
        greeting: Greeting,
        now: Moment,
    ) -> Result<(), Malformed> {
        let asked = self.session.id;
        if connected.timeout <= 0 || connected.session == 0 {
            if asked == 0 {
                return Err(Malformed("no session where a new one was asked for".into()));
            }
            if !greeting.is_confirmed {
                sys::reached("a server that may be anybody's does not know the session");
                self.doom(UNCONFIRMED);
                return Ok(());
            }
            sys::reached("a server says that the session has expired");
            self.doom("the session has expired");
            self.expired();
            return Ok(());
        }
        if asked != 0 && asked != connected.session {
            return Err(Malformed("another session than the one to be resumed".into()));
        }
        self.outage.refusals = 0;
        if greeting.asking {
            self.outage.since = now.monotonic;
        }
        if connected.read_only || greeting.asking {
            sys::reached_if(|| connected.read_only, "a server only takes reads");
            self.doom(match greeting.asking {
                true => "the session lives, but the server is behind what it has seen",
                false => "the server only takes reads",
            });
            return Ok(());
        }
        let granted = Granted {
            id: connected.session,
            password: connected.password.to_vec(),
            timeout: Duration::from_millis(connected.timeout.unsigned_abs().into()),
            sent: greeting.sent,
        };
        self.touch(now);
        #[cfg(feature = "sasl")]
        if let Some(user) = self.settings.user.clone() {
            self.log_in(user, granted, now);
            return Ok(());
        }
        self.open(granted, now);
        Ok(())
    }

    /// Gives the connection the session, and sends what has waited for that.
    fn open(&mut self, granted: Granted, now: Moment) {
        let Granted { id, password, timeout, sent } = granted;
        let is_new = self.session.id == 0;
        (self.session.id, self.session.password) = (id, password);
        self.connection.iter_mut().for_each(|connection| connection.greeting = None);
        self.outbox.counts.connections += 1;
        self.outage.reason = None;
        if is_new {
            sys::reached_if(|| self.lease().term() > 0, "another session follows one that expired");
            *self.vitals.lease_mut() = self.lease().next(timeout, sent, now.monotonic);
            self.keeping.end = LeaseEnd::NotYet;
            self.tell(SessionEventKind::Connected);
        } else {
            sys::reached("a session is resumed");
            self.vitals.lease_mut().resumed(timeout, sent, now.monotonic);
            self.tell(SessionEventKind::Resumed);
        }
        for Credential { scheme, secret } in self.settings.credentials.clone() {
            let auth = |out: &mut Vec<u8>| message::auth(out, &scheme, &secret);
            self.send(Call::nobodys(OpCode::Auth, auth), now);
        }
        for paths in self.watches.chunks() {
            sys::reached("watches are set again");
            let zxid = self.session.zxid;
            let set = |out: &mut Vec<u8>| message::set_watches(out, zxid, &paths);
            self.send(Call::nobodys(OpCode::SetWatches, set), now);
        }
        self.pulse(now);
        self.send_waiting(now);
    }

    fn event(&mut self, body: &mut Reader<'_>) -> Result<(), Malformed> {
        if let Some((event_type, path)) = message::event(body)? {
            self.outbox.counts.events += 1;
            let listeners = self.watches.take(event_type, path);
            if !listeners.is_empty() {
                self.outbox.outputs.push(Output::Watched(listeners, event_type, path.to_owned()));
            }
        }
        Ok(())
    }

    fn pinged(&mut self, sign: u64, code: i32, now: Moment) {
        if code != 0 {
            return self.doom(&refused(code));
        }
        self.vitals.answered(sign, now, Some(Proof::Server));
        // A server that refuses a request again and again is of no use to it, although it answers
        // pings. This holds while the request waits and while it is in flight.
        let is_repeating = self.connection.as_ref().is_some_and(Connection::is_repeating);
        if self.queue.waiting.is_empty() && !is_repeating {
            self.used(now);
        }
    }

    fn authenticated(&mut self, flight: Flight<S, W>, code: i32) {
        let refused = (code != 0).then(|| Error::new(ErrorKind::of_code(code)));
        let Call { slot, effect, .. } = flight.call;
        match (effect, &refused) {
            (Effect::Remember(known), None) if !self.settings.credentials.contains(&known) => {
                self.settings.credentials.push(known);
            }
            // No caller waits for this answer.
            (Effect::None, Some(refused)) => self.doom(&refused.to_string()),
            _ => {}
        }
        let result = refused.map_or(Ok(()), Err);
        self.outbox.outputs.extend(slot.map(|slot| Output::Answer(slot, result)));
    }

    fn answered(&mut self, flight: Flight<S, W>, header: Header, now: Moment) -> Option<Answer<S>> {
        let (Header { zxid, code, .. }, Flight { sign, mut call, .. }) = (header, flight);
        let is_accepted =
            matches!(code, code::OK | code::NO_NODE | code::BAD_VERSION | code::NODE_EXISTS);
        let is_busy = matches!(
            code,
            code::CONNECTION_LOSS
                | code::OPERATION_TIMEOUT
                | code::REQUEST_TIMEOUT
                | code::THROTTLED
        );
        let proof = if call.code.is_write() { Proof::Leader } else { Proof::Server };
        let (term, long) = (self.lease().term(), self.long());
        if let Some(sign) = sign {
            self.vitals.answered(sign, now, is_accepted.then_some(proof));
        }
        if is_accepted {
            self.used(now);
        }
        if self.lease().term() > term {
            sys::reached("a lease that was over is renewed");
            // The lease may have run out and been renewed since the last look.
            if self.keeping.keepers > 0 && self.keeping.end == LeaseEnd::NotYet {
                self.tell(SessionEventKind::LeaseEnded);
            }
            if self.keeping.keepers > 0 && self.keeping.end != LeaseEnd::Unkept {
                self.tell(SessionEventKind::LeaseRenewed);
            }
            self.keeping.end = LeaseEnd::NotYet;
        }
        // Setting watches again proves nothing about watches that were refused or are still to be
        // set. The next try must start from the same transaction.
        if call.code != OpCode::SetWatches {
            self.session.zxid = self.session.zxid.max(zxid);
        }
        match (std::mem::replace(&mut call.effect, Effect::None), code, call.code) {
            // A busy server may renew the lease soon. If not, there is still time to try another
            // server.
            (Effect::Renew, _, _)
                if !(is_accepted || is_busy && self.tries.are_young(now.monotonic, long)) =>
            {
                sys::reached("a server does not renew the lease");
                self.doom(&format!("the server did not renew the lease (code {code})"));
            }
            (Effect::Watch(kind, path, listener), code::OK, _) => {
                self.watches.add(kind, path, listener)
            }
            (Effect::Watch(_, path, listener), code::NO_NODE, OpCode::Exists) => {
                self.watches.add(WatchKind::Exist, path, listener);
            }
            _ => {}
        }
        match (call.code, code) {
            // The session is over, has moved, or has lost watches. The next handshake will show
            // which.
            (_, code::SESSION_EXPIRED | code::SESSION_MOVED) | (OpCode::SetWatches, ..=-1) => {
                sys::reached_if(
                    || code == code::SESSION_EXPIRED,
                    "a request finds the session over",
                );
                sys::reached_if(
                    || code == code::SESSION_MOVED,
                    "a request finds the session elsewhere",
                );
                let text = refused(code);
                self.doom(&text);
                match call.repeat {
                    true => self.queue.waiting.push_back(call),
                    false => self.fail(call.slot, Error::because(ErrorKind::ConnectionLoss, text)),
                }
            }
            (OpCode::CloseSession, _) if !is_busy => self.finish(call.slot, Ok(())),
            _ if is_busy && call.repeat => {
                sys::reached("a busy server is asked again");
                self.queue.retry_at = now.monotonic + self.lease().step() / 8;
                self.queue.waiting.push_back(call);
            }
            _ => return call.slot.map(|slot| Answer { slot, code }),
        }
        None
    }

    /// Marks the connection as one that must end.
    pub(crate) fn doom(&mut self, reason: &str) {
        if let Some(connection) = &mut self.connection {
            connection.doomed.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Ends the connection, or notes that there was none to get. Requests in flight fail or wait
    /// for the next connection. Returns the best known reason.
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
            // Only handshakes could keep the session alive forever, and none was sent since then.
            self.tries.untouched();
        }
        if connection.is_open() {
            self.outage.since = now.monotonic;
        } else if connection.doomed.is_none() {
            sys::reached("a handshake fails and is tried again");
            self.outage.refusals = self.outage.refusals.saturating_add(1);
        }
        let was_open = connection.is_open();
        let mut again = VecDeque::new();
        for call in connection.into_calls() {
            match call.repeat {
                true => {
                    sys::reached("a request is repeated on the next connection");
                    again.push_back(call);
                }
                false => self.fail(
                    call.slot,
                    Error::because(ErrorKind::ConnectionLoss, Arc::clone(&reason)),
                ),
            }
        }
        again.append(&mut self.queue.waiting);
        self.queue.waiting = again;
        if was_open {
            self.tell(SessionEventKind::Suspended);
        }
        match self.closing {
            Closing::Hasty => {
                sys::reached("a connection ends while nobody waits for the close");
                self.finish(None, Ok(()));
            }
            Closing::Patient => {
                sys::reached("a connection ends while the close is waited for");
                self.limit_close();
            }
            Closing::No | Closing::Over => {}
        }
        reason
    }

    // ---- the session

    /// Handles the end of the session by the servers.
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

    /// Ends the client without telling the servers.
    pub(crate) fn end(&mut self) {
        self.finish(None, Ok(()));
    }

    /// Ends the client. `slot` is the caller that closed it.
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
        for call in std::mem::take(&mut self.queue.waiting) {
            self.give_up(call, ErrorKind::Closed);
        }
        self.tell(SessionEventKind::Closed);
        self.session = Identity::default();
        self.outbox.outputs.extend(slot.map(|slot| Output::Answer(slot, result)));
    }

    /// Fails a waiting request. It is certainly not carried out, unless an earlier connection sent
    /// it.
    fn give_up(&mut self, call: Call<S, W>, kind: ErrorKind) {
        sys::reached_if(|| call.was_sent, "a request that was sent is given up");
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

    /// Sends a request, now or when there is a connection.
    pub(crate) fn submit(&mut self, call: Call<S, W>, now: Moment) {
        if self.state() == State::Closed {
            return self.fail(call.slot, Error::new(ErrorKind::Closed));
        }
        if call.session.is_some_and(|session| session == 0 || session != self.session.id) {
            sys::reached("a request is for a session that is over");
            return self.fail(call.slot, Error::new(ErrorKind::SessionExpired));
        }
        self.enter(call, now);
    }

    fn enter(&mut self, call: Call<S, W>, now: Moment) {
        self.queue.next_deadline = earlier(self.queue.next_deadline, call.deadline);
        self.looks.planned =
            call.deadline.map_or(self.looks.planned, |deadline| deadline.min(self.looks.planned));
        match self.is_open() && !self.is_doomed() {
            true => self.send(call, now),
            false => self.queue.waiting.push_back(call),
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

    /// Ends the session. With a slot, the answer comes when the servers have ended the session or
    /// at the deadline. Without one, it ends on this connection or not at all.
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
        self.enter(call, now);
        self.limit_close();
    }

    /// Limits a close without a connection to the life of the session. The servers have ended the
    /// session by then, so looking for a connection any longer is useless.
    fn limit_close(&mut self) {
        let (end, idle) = (self.outage.since + self.timeout(), !self.is_open());
        for call in
            self.queue.waiting.iter_mut().filter(|call| idle && call.code == OpCode::CloseSession)
        {
            call.deadline = earlier(call.deadline, Some(end));
            self.queue.next_deadline = earlier(self.queue.next_deadline, call.deadline);
        }
    }

    // ---- time

    pub(crate) fn keep_lease(&mut self, now: Moment) {
        if self.keeping.keepers == 0 {
            let is_over = self.look_at_lease(now).1.is_zero();
            self.keeping.end = if is_over { LeaseEnd::Unkept } else { LeaseEnd::NotYet };
        }
        self.keeping.keepers += 1;
    }

    pub(crate) fn release_lease(&mut self) {
        self.keeping.keepers = self.keeping.keepers.saturating_sub(1);
    }

    /// Does everything that is due. Returns when the next look is due.
    pub(crate) fn tick(&mut self, now: Moment) -> Instant {
        // Never twice in a row: on a machine that is always late, a silent server must still be
        // noticed.
        if now.monotonic > self.looks.planned + STALL
            && now.monotonic > self.looks.excused + self.timeout() / 3
        {
            sys::reached("a process that stood still excuses silence");
            self.looks.excused = now.monotonic + LOOK;
        }
        if self.queue.next_deadline.is_some_and(|deadline| deadline <= now.monotonic) {
            self.expire_calls(now.monotonic);
        }
        let looks = [self.queue.next_deadline, self.watch_lease(now), self.watch_connection(now)];
        self.looks.planned = looks.into_iter().flatten().min().unwrap_or(now.monotonic + FAR);
        self.looks.planned
    }

    fn watch_lease(&mut self, now: Moment) -> Option<Instant> {
        if self.keeping.keepers == 0 || self.is_over() {
            return None;
        }
        let (_, left) = self.look_at_lease(now);
        if left.is_zero() {
            self.tell_lease_ended();
            return None;
        }
        Some(now.monotonic + left.min(LOOK).min(self.timeout() / 20))
    }

    fn tell_lease_ended(&mut self) {
        if self.keeping.keepers > 0
            && self.keeping.end == LeaseEnd::NotYet
            && self.lease().term() > 0
        {
            self.keeping.end = LeaseEnd::Told;
            self.tell(SessionEventKind::LeaseEnded);
        }
    }

    fn watch_connection(&mut self, now: Moment) -> Option<Instant> {
        let connection = self.connection.as_ref().filter(|known| known.doomed.is_none())?;
        let greeting = connection.greeting;
        let next = match self.judge(greeting, now) {
            Ok(next) => next,
            // Answers that came while the process stood still get a moment to be read first.
            Err(_) if now.monotonic < self.looks.excused => self.looks.excused,
            Err(problem) => {
                self.doom(&problem);
                self.touch(now);
                return None;
            }
        };
        if greeting.is_some() {
            return Some(next);
        }
        if !self.queue.waiting.is_empty() && now.monotonic >= self.queue.retry_at {
            self.send_waiting(now);
        }
        let retry = (!self.queue.waiting.is_empty()).then_some(self.queue.retry_at);
        earlier(earlier(Some(next), retry), Some(self.pulse(now)))
    }

    /// Returns until when the connection may go on, or why it may not.
    fn judge(&self, greeting: Option<Greeting>, now: Moment) -> Result<Instant, String> {
        let end = self.tries.end(self.long());
        if let Some(Greeting { until, sent, .. }) = greeting {
            let waited = now.monotonic.saturating_duration_since(sent.monotonic);
            return match until.min(end) {
                until if now.monotonic < until => Ok(until),
                _ => {
                    sys::reached("a handshake has no answer in time");
                    Err(format!("no answer to the handshake in {waited:.1?}"))
                }
            };
        }
        match self.vitals.verdict(now.monotonic, self.keeping.keepers > 0) {
            Verdict::Silent(time) => {
                sys::reached("a server falls silent");
                Err(format!("the server was silent for {time:.1?}"))
            }
            Verdict::Alive(_) if now.monotonic >= end => {
                sys::reached("a connection is of no use for too long");
                Err(format!("no request was accepted in {:.1?}", self.timeout()))
            }
            Verdict::Alive(until) => Ok(until.min(end)),
        }
    }

    /// Sends a sign of life if one is due. Returns when to look again.
    fn pulse(&mut self, now: Moment) -> Instant {
        let is_held = self.keeping.keepers > 0;
        // Late in an outage a connection has little time to become of use. It is asked at once.
        let is_late = !self.is_of_use() && !self.tries.are_young(now.monotonic, self.long());
        let pulse = match self.vitals.pulse(now.monotonic, is_held) {
            Pulse::Rest(_) if is_late && self.vitals.under_way() == 0 => {
                sys::reached("a late connection is asked at once");
                if is_held { Pulse::Write } else { Pulse::Read }
            }
            pulse => pulse,
        };
        match (pulse, &mut self.connection) {
            (Pulse::Rest(until), _) => return until,
            (Pulse::Read, Some(connection)) => {
                let sign = self.vitals.sending(now, false);
                connection.ping(sign, &mut self.outbox.bytes);
                self.outbox.counts.requests += 1;
                self.touch(now);
            }
            (Pulse::Write, _) => {
                let renewal = Call::nobodys(OpCode::SetData, message::renew_lease);
                self.send(Call { effect: Effect::Renew, ..renewal }, now);
            }
            (Pulse::Read, None) => {}
        }
        now.monotonic + self.lease().step() / 8
    }

    fn expire_calls(&mut self, now: Instant) {
        let (mut next, mut ended, mut is_closed) = (None, Vec::new(), false);
        let mut expire = |call: &mut Call<S, W>| {
            if call.deadline.is_none_or(|deadline| deadline > now) {
                next = earlier(next, call.deadline);
                return false;
            }
            is_closed |= call.code == OpCode::CloseSession;
            ended.extend(call.slot.take().map(|slot| (slot, call.was_sent)));
            (call.deadline, call.repeat, call.effect) = (None, false, Effect::None);
            true
        };
        // Answers may still come for these requests, so they keep their places.
        for call in self.connection.iter_mut().flat_map(Connection::calls_mut) {
            expire(call);
        }
        self.queue.waiting.retain_mut(|call| !expire(call));
        self.queue.next_deadline = next;
        if is_closed {
            sys::reached("a close has no answer in time");
            self.end();
        }
        for (slot, was_sent) in ended {
            sys::reached_if(|| was_sent, "a request has no answer in time");
            sys::reached_if(|| !was_sent, "a request has no connection in time");
            let kind = if was_sent { ErrorKind::Timeout } else { ErrorKind::NoConnection };
            let error = match &self.outage.reason {
                Some(reason) => Error::because(kind, Arc::clone(reason)),
                None => Error::new(kind),
            };
            self.fail(Some(slot), error);
        }
    }
}

/// Returns the reason for leaving a server that refuses what every server accepts.
fn refused(code: i32) -> String {
    format!("the server refused a request with the code {code}")
}

/// Returns the number of the next request.
fn after(xid: i32) -> i32 {
    xid.checked_add(1).unwrap_or(1)
}

/// Returns the earlier instant; `None` is never.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Nobody;

    impl Listen for Nobody {
        fn is_live(&self) -> bool {
            false
        }

        fn id(&self) -> usize {
            0
        }
    }

    /// The answer to a handshake: a session of 30 s.
    const CONNECTED: &str = "connect";

    #[test]
    fn the_numbers_of_requests_go_on_from_the_last_to_the_first_and_miss_those_that_mean_something()
    {
        let now = Moment::now();
        let mut core: Core<i32, Nobody> = Core::new(Duration::from_secs(30), now);
        core.dialed(true, now);
        let greeted = core.receive(super::super::fuzz::frame(CONNECTED), now);
        assert!(greeted.is_ok(), "{:?}", greeted.err());
        core.outbox.xid = i32::MAX - 2;
        core.outbox.bytes.clear();
        for slot in 0..4 {
            let mut call = Call::nobodys(OpCode::Sync, |_| {});
            call.slot = Some(slot);
            core.submit(call, now);
        }
        let sent: Vec<i32> = core
            .outbox
            .bytes
            .chunks(12)
            .map(|frame| i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]))
            .collect();
        println!("{sent:?}");
        assert_eq!(sent, [i32::MAX - 1, i32::MAX, 1, 2]);
        for (slot, xid) in (0..).zip(sent) {
            let mut answer = xid.to_be_bytes().to_vec();
            answer.extend([0; 12]);
            let answer = core.receive(&answer, now).expect("it belongs to this request");
            assert_eq!(answer.map(|answer| answer.slot), Some(slot));
        }
    }

    /// Only handshakes could keep the session, and none was sent.
    #[test]
    fn client_tries_at_once_behind_a_silence_on_a_connection_that_was_of_use() {
        let start = Moment::now();
        for is_held in [false, true] {
            let mut core: Core<i32, Nobody> = Core::new(Duration::from_secs(30), start);
            if is_held {
                core.keep_lease(start);
            }
            core.dialed(true, start);
            let greeted = core.receive(super::super::fuzz::frame(CONNECTED), start);
            assert!(greeted.is_ok(), "{:?}", greeted.err());
            core.used(start);
            let mut silent = start;
            while !core.is_doomed() {
                let next = core.tick(silent) + Duration::from_millis(1);
                silent = start.after(next - start.monotonic);
            }
            core.broke("it is silent", silent);
            let (now, next) = (start.after(Duration::from_secs(31)), Duration::from_secs(32));
            println!("held: {is_held}, silent for {:?}", silent.monotonic - start.monotonic);
            assert!(core.next_handshake(now) <= start.after(next).monotonic);
        }
    }

    /// Otherwise it would end before the client sends anything, and the client would rest.
    #[test]
    fn idle_client_asks_at_once_on_a_connection_that_comes_late() {
        let start = Moment::now();
        for (seconds, is_asked) in [(1, false), (20, true)] {
            let mut core: Core<i32, Nobody> = Core::new(Duration::from_secs(30), start);
            let late = start.after(Duration::from_secs(seconds));
            core.dialed(true, late);
            core.receive(super::super::fuzz::frame(CONNECTED), late).unwrap();
            core.tick(late);
            assert_eq!(core.vitals.under_way() > 0, is_asked, "after {seconds} s");
        }
    }

    #[test]
    fn pings_alone_keep_no_session_however_long_answers_take() {
        for latency in [10, 100, 300, 1000, 3000] {
            let start = Moment::now();
            let at = |passed: Duration| start.after(passed);
            let mut core: Core<i32, Nobody> = Core::new(Duration::from_secs(30), start);
            core.dialed(true, start);
            core.receive(super::super::fuzz::frame(CONNECTED), start).unwrap();
            core.used(start);
            core.outbox.bytes.clear();
            let mut call = Call::nobodys(OpCode::Delete, |_| {});
            call.repeat = true;
            core.submit(call, start);
            let mut way: VecDeque<(Duration, Vec<u8>)> = VecDeque::new();
            let mut now = Duration::ZERO;
            while now < Duration::from_secs(600) && !core.is_doomed() {
                core.tick(at(now));
                let out = std::mem::take(&mut core.outbox.bytes);
                let mut rest = &out[..];
                while rest.len() >= 4 {
                    let length = i32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
                    let xid: [u8; 4] = rest[4..8].try_into().unwrap();
                    rest = &rest[4 + length..];
                    let code: i32 = if i32::from_be_bytes(xid) == message::PING {
                        code::OK
                    } else {
                        code::CONNECTION_LOSS
                    };
                    let answer = [&xid[..], &[0; 8], &code.to_be_bytes()].concat();
                    way.push_back((now + Duration::from_millis(latency), answer));
                }
                now += Duration::from_millis(7);
                while way.front().is_some_and(|(due, _)| *due <= now) {
                    core.receive(&way.pop_front().unwrap().1, at(now)).unwrap();
                }
            }
            assert!(core.is_doomed() && now < Duration::from_secs(60), "{latency} ms: {now:?}");
        }
    }
}
