//! One connection: what is in flight on it, and what an answer belongs to. Pure.
//!
//! Answers come in the order of the requests, so the oldest is compared with each; those to pings and
//! credentials have numbers of their own and may overtake.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::clock::Moment;
use super::message::{self, OpCode};
#[cfg(feature = "sasl")]
use super::sasl::{ServerProof, User};
use super::watches::WatchKind;
use super::wire::{Malformed, Reader};
use crate::sys;

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
    /// It was, on some connection, so that it may be carried out.
    pub(crate) was_sent: bool,
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
    /// It has renewed the lease.
    Renew,
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

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Flight<S, W> {
    xid: i32,
    /// Its number among the vital signs, if it is one.
    pub(super) sign: Option<u64>,
    pub(super) call: Call<S, W>,
}

/// The ConnectRequest, whose answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Greeting {
    pub(super) sent: Moment,
    pub(super) until: Instant,
    /// Only whether the session lives at all is of interest.
    pub(super) asking: bool,
    /// The address is known to be a server's of the ensemble.
    pub(super) is_confirmed: bool,
}

/// What a server has answered to a ConnectRequest that was sent at `sent`.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) sent: Moment,
}

/// The request that is to be answered next, and what the session begins or goes on with then.
#[cfg(feature = "sasl")]
#[derive(Debug)]
pub(super) struct Login {
    pub(super) user: User,
    pub(super) granted: Granted,
    pub(super) xid: i32,
    /// None before the challenge.
    pub(super) answer: Option<Challenged>,
}

/// To the challenge.
#[cfg(feature = "sasl")]
#[derive(Debug)]
pub(super) struct Challenged {
    pub(super) realm: Option<String>,
    pub(super) proof: ServerProof,
}

#[derive(Debug)]
pub(super) struct Connection<S, W> {
    /// None once the connection has the session.
    pub(super) greeting: Option<Greeting>,
    /// The server has answered that, and is to know who the client is.
    #[cfg(feature = "sasl")]
    pub(super) login: Option<Login>,
    /// A server has accepted a request on it.
    pub(super) is_of_use: bool,
    /// Why it has to end, from when that is known until it has.
    pub(super) doomed: Option<String>,
    in_flight: VecDeque<Flight<S, W>>,
    auths: VecDeque<Flight<S, W>>,
    pings: VecDeque<u64>,
}

impl<S, W> Call<S, W> {
    /// A request that nobody waits for.
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
        }
    }
}

impl<S, W> Connection<S, W> {
    pub(super) fn new(greeting: Greeting) -> Connection<S, W> {
        Connection {
            greeting: Some(greeting),
            #[cfg(feature = "sasl")]
            login: None,
            is_of_use: false,
            doomed: None,
            in_flight: VecDeque::new(),
            auths: VecDeque::new(),
            pings: VecDeque::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.greeting.is_none()
    }

    /// Sends it, by `out`, under this number; credentials have one of their own.
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
        queue.push_back(Flight { xid, sign, call });
    }

    pub(super) fn ping(&mut self, sign: u64, out: &mut Vec<u8>) {
        self.pings.push_back(sign);
        out.extend_from_slice(&message::ping());
    }

    /// What an answer with this number is to.
    pub(super) fn answered(&mut self, xid: i32) -> Result<Flight<S, W>, Malformed> {
        match self.in_flight.pop_front() {
            Some(flight) if flight.xid == xid => Ok(flight),
            due => {
                sys::reached("an answer out of order is refused");
                let text = due
                    .as_ref()
                    .map_or("none was due".into(), |due| format!("{} was due", due.xid));
                // It fails with the connection.
                due.into_iter().for_each(|due| self.in_flight.push_front(due));
                Err(Malformed(format!("an answer to request {xid}, where {text}")))
            }
        }
    }

    pub(super) fn authenticated(&mut self) -> Result<Flight<S, W>, Malformed> {
        let unknown = || Malformed("an answer to credentials that were not sent".into());
        self.auths.pop_front().ok_or_else(unknown)
    }

    /// The vital sign that an answer to a ping is.
    pub(super) fn pinged(&mut self, body: &Reader<'_>) -> Result<u64, Malformed> {
        body.end()?;
        let unknown = || Malformed("an answer to a ping that was not sent".into());
        self.pings.pop_front().ok_or_else(unknown)
    }

    /// Returns whether a request is under way that is sent again until it is answered.
    pub(super) fn is_repeating(&self) -> bool {
        self.in_flight.iter().any(|flight| flight.call.repeat)
    }

    pub(super) fn calls_mut(&mut self) -> impl Iterator<Item = &mut Call<S, W>> {
        self.auths.iter_mut().chain(&mut self.in_flight).map(|flight| &mut flight.call)
    }

    /// What is left in flight when it has ended.
    pub(super) fn into_calls(self) -> impl Iterator<Item = Call<S, W>> {
        self.auths.into_iter().chain(self.in_flight).map(|flight| flight.call)
    }
}
