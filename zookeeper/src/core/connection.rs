//! One connection: its requests in flight, and the request that an answer belongs to. Pure.
//!
//! Answers come in the order of the requests, so each must have the number of the oldest request in
//! flight. Pings and credentials have fixed numbers, and their answers may overtake others.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::clock::Moment;
use super::message::{self, OpCode};
#[cfg(feature = "sasl")]
use super::sasl::{ServerProof, User};
use super::watches::WatchKind;
use super::wire::{Malformed, Reader};
use crate::sys;

/// A request, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Call<S, W> {
    pub(crate) frame: Vec<u8>,
    pub(crate) code: OpCode,
    pub(crate) slot: Option<S>,
    pub(crate) effect: Effect<W>,
    pub(crate) deadline: Option<Instant>,
    /// Whether it is sent again on later connections until it is answered.
    pub(crate) repeat: bool,
    /// Whether it was sent on any connection, so that it may be carried out.
    pub(crate) was_sent: bool,
    /// The session it is meant for; `None` for any session.
    pub(crate) session: Option<i64>,
    /// Its part in a transaction that it shares with others; `None` if it does not share one.
    pub(crate) share: Option<Share>,
    /// The requests that this one carries out in one transaction.
    pub(crate) parts: Vec<Call<S, W>>,
}

/// Describes a write that may share a transaction; see `gathering`.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    /// How many operations it has.
    pub(crate) ops: usize,
    /// The range of its frame that contains the directory in which it creates a node.
    pub(crate) created_in: Option<Range<usize>>,
}

/// What a successful answer changes in the client.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    None,
    /// The server set a watch.
    Watch(WatchKind, String, W),
    /// The server set watches of the data of these nodes.
    WatchEach(Vec<String>, W),
    /// The server set the watches of earlier connections again.
    WatchAgain,
    /// The server accepted credentials, which later connections need too.
    Remember(Credential),
    /// The server renewed the lease.
    Renew,
}

/// A scheme and a secret. The secret is never printed.
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

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Flight<S, W> {
    xid: i32,
    /// Its number among the vital signs (see `vitals`); `None` if it is not a sign of life.
    pub(super) sign: Option<u64>,
    pub(super) call: Call<S, W>,
}

/// A ConnectRequest that has no answer yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Greeting {
    pub(super) sent: Moment,
    pub(super) until: Instant,
    /// Only checks whether the session exists at all.
    pub(super) asking: bool,
    /// Whether the address is known to belong to the ensemble.
    pub(super) is_confirmed: bool,
}

/// The session that a server granted to a ConnectRequest sent at `sent`.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) sent: Moment,
}

/// A SASL login: the token in flight, and the session to open when it succeeds.
#[cfg(feature = "sasl")]
#[derive(Debug)]
pub(super) struct Login {
    pub(super) user: User,
    pub(super) granted: Granted,
    pub(super) xid: i32,
    /// The answer to the challenge; `None` before the challenge.
    pub(super) answer: Option<Challenged>,
}

/// The answer to a challenge.
#[cfg(feature = "sasl")]
#[derive(Debug)]
pub(super) struct Challenged {
    pub(super) realm: Option<String>,
    pub(super) proof: ServerProof,
}

#[derive(Debug)]
pub(super) struct Connection<S, W> {
    /// `None` once the connection has the session.
    pub(super) greeting: Option<Greeting>,
    /// The login, after the server has granted the session and before the client uses that session.
    #[cfg(feature = "sasl")]
    pub(super) login: Option<Login>,
    /// Whether the server accepted a request on it.
    pub(super) is_of_use: bool,
    /// Whether the handshake was not answered in time.
    pub(super) is_silent: bool,
    /// Why it must end, once that is known.
    pub(super) doomed: Option<String>,
    in_flight: VecDeque<Flight<S, W>>,
    /// How many of the requests in flight are writes.
    writes: usize,
    /// How many of the requests in flight set watches.
    watching: usize,
    auths: VecDeque<Flight<S, W>>,
    pings: VecDeque<u64>,
}

impl<S, W> Call<S, W> {
    /// Creates a request that no caller waits for.
    pub(super) fn nobodys(code: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Call<S, W> {
        Call {
            frame: message::request(code, body),
            code,
            slot: None,
            effect: Effect::None,
            deadline: None,
            repeat: false,
            was_sent: false,
            session: None,
            share: None,
            parts: Vec::new(),
        }
    }

    /// Creates a transaction of these requests.
    pub(super) fn shared(mut parts: Vec<Call<S, W>>) -> Call<S, W> {
        parts.iter_mut().for_each(|part| part.was_sent = true);
        let frame = message::multi_of(parts.iter().map(|part| (part.code, &*part.frame)));
        Call { frame, parts, ..Call::nobodys(OpCode::Multi, |_| {}) }
    }

    /// Returns how many operations this request has in a shared transaction.
    pub(super) fn ops(&self) -> usize {
        self.share.as_ref().map_or(1, |share| share.ops)
    }

    /// Returns the requests of a shared transaction, or this request itself.
    pub(super) fn into_parts(mut self) -> impl Iterator<Item = Call<S, W>> {
        let parts = std::mem::take(&mut self.parts);
        let itself = parts.is_empty().then_some(self);
        parts.into_iter().chain(itself)
    }
}

impl<S, W> Connection<S, W> {
    pub(super) fn new(greeting: Greeting) -> Connection<S, W> {
        Connection {
            greeting: Some(greeting),
            #[cfg(feature = "sasl")]
            login: None,
            is_of_use: false,
            is_silent: false,
            doomed: None,
            in_flight: VecDeque::new(),
            writes: 0,
            watching: 0,
            auths: VecDeque::new(),
            pings: VecDeque::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.greeting.is_none()
    }

    /// Appends the request to `out` with this number. Credentials have a fixed number instead.
    pub(super) fn send(
        &mut self,
        mut call: Call<S, W>,
        xid: i32,
        sign: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        let (xid, queue) = match call.code {
            OpCode::Auth => (message::AUTH, &mut self.auths),
            _ => (xid, &mut self.in_flight),
        };
        message::number(&mut call.frame, xid);
        out.extend_from_slice(&call.frame);
        call.was_sent = true;
        if !call.repeat {
            call.frame = Vec::new();
        }
        self.writes += usize::from(call.code.is_write());
        self.watching += usize::from(call.code == OpCode::SetWatches);
        queue.push_back(Flight { xid, sign, call });
    }

    /// Returns how many writes are in flight.
    pub(super) fn writes(&self) -> usize {
        self.writes
    }

    pub(super) fn ping(&mut self, sign: u64, out: &mut Vec<u8>) {
        self.pings.push_back(sign);
        out.extend_from_slice(&message::ping());
    }

    /// Returns the request that an answer with this number belongs to.
    pub(super) fn answered(&mut self, xid: i32) -> Result<Flight<S, W>, Malformed> {
        match self.in_flight.pop_front() {
            Some(flight) if flight.xid == xid => {
                self.writes -= usize::from(flight.call.code.is_write());
                self.watching -= usize::from(flight.call.code == OpCode::SetWatches);
                Ok(flight)
            }
            due => {
                sys::reached("an answer out of order is refused");
                let text = due
                    .as_ref()
                    .map_or("none was due".into(), |due| format!("{} was due", due.xid));
                // The request fails later, with the connection.
                due.into_iter().for_each(|due| self.in_flight.push_front(due));
                Err(Malformed(format!("an answer to request {xid}, but {text}")))
            }
        }
    }

    /// Takes out a request that the server answers out of order, because it does not support this
    /// request. The server then hangs up.
    pub(super) fn unknown(&mut self, xid: i32) -> Option<Call<S, W>> {
        let is_it = |flight: &Flight<S, W>| flight.xid == xid && flight.call.parts.is_empty();
        let at = self.in_flight.iter().skip(1).position(is_it)? + 1;
        let flight = self.in_flight.remove(at)?;
        self.writes -= usize::from(flight.call.code.is_write());
        self.watching -= usize::from(flight.call.code == OpCode::SetWatches);
        Some(flight.call)
    }

    /// Ends the watches that requests in flight set on this node, and returns their listeners.
    pub(super) fn take_early(&mut self, path: &str) -> Vec<W>
    where
        W: Clone,
    {
        let take = |flight: &mut Flight<S, W>| match &mut flight.call.effect {
            Effect::WatchEach(paths, listener) => {
                let before = paths.len();
                paths.retain(|watched| watched != path);
                (paths.len() < before).then(|| listener.clone())
            }
            _ => None,
        };
        match self.watching {
            0 => Vec::new(),
            _ => self.in_flight.iter_mut().filter_map(take).collect(),
        }
    }

    pub(super) fn authenticated(&mut self) -> Result<Flight<S, W>, Malformed> {
        let unknown = || Malformed("an answer to credentials that were not sent".into());
        self.auths.pop_front().ok_or_else(unknown)
    }

    /// Returns the number that the answered ping has among the vital signs.
    pub(super) fn pinged(&mut self, body: &Reader<'_>) -> Result<u64, Malformed> {
        body.end()?;
        let unknown = || Malformed("an answer to a ping that was not sent".into());
        self.pings.pop_front().ok_or_else(unknown)
    }

    /// Returns whether a request in flight is sent again until it is answered.
    pub(super) fn is_repeating(&self) -> bool {
        self.in_flight.iter().any(|flight| flight.call.repeat)
    }

    /// Returns the requests in flight. A shared transaction is replaced by its requests.
    pub(super) fn calls_mut(&mut self) -> impl Iterator<Item = &mut Call<S, W>> {
        let calls = self.auths.iter_mut().chain(&mut self.in_flight).map(|flight| &mut flight.call);
        calls.flat_map(|call| match call.parts.is_empty() {
            true => std::slice::from_mut(call),
            false => &mut *call.parts,
        })
    }

    /// Returns the requests in flight when the connection ends, like [`calls_mut`](Self::calls_mut).
    pub(super) fn into_calls(self) -> impl Iterator<Item = Call<S, W>> {
        self.auths.into_iter().chain(self.in_flight).flat_map(|flight| flight.call.into_parts())
    }
}
