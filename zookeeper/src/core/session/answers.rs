//! Frames of the server: the answer to the handshake, answers to requests, and events.

use std::time::Duration;

use super::{Answer, Core, LeaseEnd, Output};
use crate::core::clock::Moment;
use crate::core::connection::{Call, Connection, Effect, Flight, Granted, Greeting};
use crate::core::lease::Proof;
use crate::core::message::{self, Connected, HEADER, Header, OpCode};
use crate::core::watches::{Listen, WatchKind};
use crate::core::wire::{Malformed, Reader};
use crate::error::{Error, ErrorKind, code};
use crate::sys;
use crate::types::{EventType, SessionEventKind};

/// Why a connection to a server that may belong to another ensemble ends.
const UNCONFIRMED: &str = "the server does not know the session, but its address may now belong to another ensemble: its name could not be resolved";

/// The shortest session timeout that a client can keep, in milliseconds.
const SHORTEST: i32 = 20;

/// Why a server that answers like ClickHouse Keeper is refused.
const FOREIGN: &str = "this is not ZooKeeper (perhaps ClickHouse Keeper): it ends a session with its connection, so locks would not be safe";

impl<S, W: Listen> Core<S, W> {
    /// Takes a frame from the server. An error means that the connection must end.
    pub(crate) fn receive(
        &mut self,
        frame: &[u8],
        now: Moment,
    ) -> Result<Vec<Answer<S>>, Malformed> {
        let Some(connection) = &mut self.connection else {
            return Ok(Vec::new());
        };
        if let Some(greeting) = connection.greeting {
            // The handshake was given up before its answer arrived.
            if connection.doomed.is_some() {
                sys::reached("the answer to a handshake arrives too late");
                return Ok(Vec::new());
            }
            #[cfg(feature = "sasl")]
            if let Some(login) = connection.login.take() {
                return self.go_on_logging_in(login, frame, now).map(|()| Vec::new());
            }
            let connected = message::connected(frame)?;
            return self.connected(&connected, greeting, now).map(|()| Vec::new());
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
                if header.code == code::UNIMPLEMENTED
                    && let Some(call) = connection.unknown(xid)
                {
                    sys::reached("a server answers an unknown request out of order");
                    self.fail(call.slot, Error::new(ErrorKind::Unimplemented));
                    return Ok(Vec::new());
                }
                let flight = connection.answered(xid)?;
                let is_write = flight.call.code.is_write() && header.code == code::OK;
                if is_write && header.zxid <= self.session.zxid {
                    let seen = self.session.zxid;
                    let problem = format!("a write has zxid {:#x} behind {seen:#x}", header.zxid);
                    return Err(self.garbled(flight.call, Malformed(problem)));
                }
                let answers = match self.answered(flight, header, now) {
                    Some(call) => self.distribute(call, header, frame, now)?,
                    None => Vec::new(),
                };
                self.send_gathered(now);
                return Ok(answers);
            }
        }
        Ok(Vec::new())
    }

    fn connected(
        &mut self,
        connected: &Connected<'_>,
        greeting: Greeting,
        now: Moment,
    ) -> Result<(), Malformed> {
        let asked = self.session.id;
        let is_over = connected.timeout <= 0 || connected.session == 0;
        if is_over && asked == 0 {
            return Err(Malformed("no session, although a new one was requested".into()));
        }
        if !is_over && connected.is_foreign() {
            return Err(Malformed(FOREIGN.into()));
        }
        if !is_over && connected.timeout < SHORTEST {
            sys::reached("a session timeout is too short");
            let text = format!("a session timeout of {} ms is too short", connected.timeout);
            return Err(Malformed(text));
        }
        // An answer with another session means that this session has ended.
        if asked != 0 && (is_over || asked != connected.session) {
            if !greeting.is_confirmed {
                self.doom(UNCONFIRMED);
                return Ok(());
            }
            self.doom("the session has expired");
            self.expired();
            return Ok(());
        }
        self.outage.refusals = 0;
        if greeting.asking {
            self.outage.since = now.monotonic;
        }
        let read_only = connected.read_only == Some(true);
        if read_only || greeting.asking {
            sys::reached_if(read_only, "a server is read-only");
            self.doom(match greeting.asking {
                true => {
                    "the session is alive, but the server lags behind what this client has seen"
                }
                false => "the server is read-only",
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

    fn event(&mut self, body: &mut Reader<'_>) -> Result<(), Malformed> {
        if let Some((event_type, path)) = message::event(body)? {
            self.outbox.counts.events += 1;
            if event_type != EventType::NodeChildrenChanged {
                // Before a server answers a request to set watches, it reports what has already
                // happened to the nodes.
                let early = self.connection.iter_mut().flat_map(|known| known.take_early(path));
                for listener in early {
                    self.watches.add(WatchKind::Data, path.to_owned(), listener);
                }
            }
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
        // A server that answers pings but refuses a request again and again cannot be used. This applies
        // both while the request waits and while it is in flight.
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

    /// Updates the lease and the state by what an answer proves. Returns the request, unless it is sent
    /// again or has already been reported.
    fn answered(
        &mut self,
        flight: Flight<S, W>,
        header: Header,
        now: Moment,
    ) -> Option<Call<S, W>> {
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
            // The lease may have run out and been renewed since the last check of the lease.
            if self.keeping.keepers > 0 && self.keeping.end == LeaseEnd::NotYet {
                self.tell(SessionEventKind::LeaseEnded);
            }
            if self.keeping.keepers > 0 && self.keeping.end != LeaseEnd::Unkept {
                self.tell(SessionEventKind::LeaseRenewed);
            }
            self.keeping.end = LeaseEnd::NotYet;
        }
        // The answer to one chunk of watches does not advance the zxid: other chunks may be refused
        // or unanswered, and are then set again from the same zxid.
        let watches_again = matches!(call.effect, Effect::WatchAgain);
        if !watches_again {
            self.session.zxid = self.session.zxid.max(zxid);
        }
        match (std::mem::replace(&mut call.effect, Effect::None), code, call.code) {
            // The connection ends without a renewal, unless the server is busy and time is left for
            // another.
            (Effect::Renew, _, _)
                if !(is_accepted || is_busy && self.tries.are_young(now.monotonic, long)) =>
            {
                sys::reached("a server does not renew the lease");
                self.doom(&format!("the server did not renew the lease (code {code})"));
            }
            (Effect::Watch(kind, path, listener), code::OK, _) => {
                self.watches.add(kind, path, listener)
            }
            (Effect::WatchEach(paths, listener), code::OK, _) => {
                for path in paths {
                    self.watches.add(WatchKind::Data, path, listener.clone());
                }
            }
            (Effect::Watch(_, path, listener), code::NO_NODE, OpCode::Exists) => {
                self.watches.add(WatchKind::Exist, path, listener);
            }
            _ => {}
        }
        match (call.code, code, watches_again) {
            // The session is over, has moved, or has lost watches. The next handshake shows which.
            (_, code::SESSION_EXPIRED | code::SESSION_MOVED, _) | (_, ..=-1, true) => {
                sys::reached_if(code == code::SESSION_EXPIRED, "a request finds its session ended");
                let text = refused(code);
                self.doom(&text);
                match call.repeat {
                    true => self.queue.waiting.push_back(call),
                    false => self.fail_all(call, &Error::because(ErrorKind::ConnectionLoss, text)),
                }
            }
            (OpCode::CloseSession, ..) if !is_busy => self.finish(call.slot, Ok(())),
            _ if is_busy && call.repeat => {
                self.queue.retry_at = now.monotonic + self.lease().step() / 8;
                self.queue.waiting.push_back(call);
            }
            _ => return Some(call),
        }
        None
    }

    /// Fails a request whose answer is malformed.
    fn garbled(&mut self, call: Call<S, W>, malformed: Malformed) -> Malformed {
        let reason = format!("bad answer: {malformed}");
        self.fail_all(call, &Error::because(ErrorKind::ConnectionLoss, reason));
        malformed
    }

    /// Returns the answers for the callers of a request. After a shared transaction, sends the requests
    /// that have waited for its answer. If the transaction was refused, first sends its parts again,
    /// each in its own request, so that only the parts that cannot succeed fail.
    fn distribute(
        &mut self,
        call: Call<S, W>,
        header: Header,
        frame: &[u8],
        now: Moment,
    ) -> Result<Vec<Answer<S>>, Malformed> {
        let Header { zxid, code, .. } = header;
        let answer =
            |(call, body): (Call<S, W>, _)| call.slot.map(|slot| Answer { slot, code, zxid, body });
        let bodies = match call.parts.len() {
            0 => return Ok(answer((call, HEADER..frame.len())).into_iter().collect()),
            // An error code applies to all parts. An answer with an error code has no body.
            count if code != code::OK => Ok(Some(vec![HEADER..HEADER; count])),
            _ => {
                message::multi_results(frame, call.parts.iter().map(|part| (part.code, part.ops())))
            }
        };
        let (answers, refused) = match bodies {
            Ok(Some(bodies)) => (call.into_parts().zip(bodies).filter_map(answer).collect(), None),
            Ok(None) => (Vec::new(), Some(call)),
            Err(malformed) => return Err(self.garbled(call, malformed)),
        };
        let (alone, is_doomed) = (refused.into_iter().flat_map(Call::into_parts), self.is_doomed());
        for call in alone.chain(self.gathering.answered()) {
            match is_doomed {
                true => self.queue.waiting.push_back(call),
                false => self.send(call, now),
            }
        }
        Ok(answers)
    }

    fn fail_all(&mut self, call: Call<S, W>, error: &Error) {
        call.into_parts().for_each(|call| self.fail(call.slot, error.clone()));
    }
}

/// Returns the reason for leaving a server that refuses a request which every server accepts.
fn refused(code: i32) -> String {
    format!("the server refused a request with the code {code}")
}
