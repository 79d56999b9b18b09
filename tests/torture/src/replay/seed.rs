//! The replay of a seed. A request is sent at the moment at which the simulated server has executed it: with its
//! answer, or, if the client has disconnected, with its transaction.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use zoolock_simulation::{Act, ChangeKind, Committed, Moment, Outgoing, in_words, operations};
use zoolock_test_support::Probe;

use super::fields::{self, CLOSE, EVENT, Fields, MULTI, Odd, PING, SET_WATCHES, Value, is_write};
use super::numbers::{Numbers, Session};
use super::socket::{Socket, framed, handshake, int, long};
use crate::Outcome;

/// The error of a request that arrives at the instant when its session ends.
const SESSION_EXPIRED: i32 = -112;
/// The xid of a request that was not sent by a client.
const OURS: i32 = i32::MAX;
const NO_CONNECTION: &str = "a frame without a connection";

/// How much has been compared.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: u64,
    answers: u64,
    pub(crate) events: u64,
}

/// What one moment adds to what must be compared.
enum Check<'a> {
    Welcome(&'a [u8]),
    Answer(Vec<u8>, &'a [u8]),
    Event(&'a [u8]),
    End,
}

/// A connection of a client.
struct Link {
    socket: Socket,
    session: i64,
    is_greeted: bool,
    come: Vec<u8>,
    /// Requests that the simulated server has not executed yet.
    pending: VecDeque<Vec<u8>>,
}

pub(crate) struct Replay<'a> {
    server: SocketAddr,
    operator: &'a Probe,
    counts: &'a mut Counts,
    numbers: Numbers,
    links: BTreeMap<u64, Link>,
    /// The writes that disconnected clients had sent, by session.
    left: BTreeMap<i64, VecDeque<Vec<u8>>>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(server: SocketAddr, operator: &'a Probe, counts: &'a mut Counts) -> Self {
        let (numbers, links, left) = Default::default();
        Replay { server, operator, counts, numbers, links, left }
    }

    pub(crate) fn all(&mut self, moments: &[Moment]) -> Outcome<()> {
        moments.iter().try_for_each(|moment| self.moment(moment))?;
        // This answer arrives after everything else that the server has sent.
        for (number, link) in self.links.iter_mut().filter(|(_, link)| link.is_greeted) {
            let ping = framed(&[&(-2_i32).to_be_bytes(), &PING.to_be_bytes()]);
            link.socket.ask(&ping, Some(-2)).map_err(|error| format!("at the end: {error}"))?;
            if let Some(frame) = link.socket.come.front() {
                return Err(format!("at the end, connection {number} got {}", words(frame)).into());
            }
        }
        let living = self.numbers.sessions.iter().filter(|(_, session)| !session.is_over);
        let living: Vec<i64> = living.map(|(simulated, _)| *simulated).collect();
        living.into_iter().try_for_each(|session| self.end_session(session))
    }

    fn moment(&mut self, moment: &Moment) -> Outcome<()> {
        for act in &moment.acts {
            match act {
                Act::Connected(number) => {
                    let (come, pending) = Default::default();
                    let socket = Socket::connect(self.server)?;
                    let link = Link { socket, session: 0, is_greeted: false, come, pending };
                    self.links.insert(*number, link);
                }
                Act::Received(number, bytes) => {
                    if let Some(link) = self.links.get_mut(number) {
                        link.receive(bytes);
                    }
                }
                Act::HungUp(_) => {}
            }
        }
        let mut committed: VecDeque<&Committed> = moment.committed.iter().collect();
        let mut checks: Vec<(u64, Check<'_>)> = Vec::new();
        for (number, sent) in &moment.sent {
            let check = match sent {
                Outgoing::End => Some(Check::End),
                Outgoing::Bytes(frame) => self.carry_out(*number, frame, &mut committed)?,
            };
            checks.extend(check.map(|check| (*number, check)));
        }
        while let Some(transaction) = committed.pop_front() {
            self.transact(transaction)?;
        }
        let is_unordered = moment.committed.iter().any(|transaction| transaction.is_close);
        self.compare(checks, is_unordered)?;
        for act in &moment.acts {
            if let Act::HungUp(number) = act {
                self.leave(*number);
            }
        }
        Ok(())
    }

    // ---- what the simulated server has executed

    /// Sends the request that belongs to this answer. First executes the transactions that precede it.
    fn carry_out<'b>(
        &mut self,
        number: u64,
        frame: &'b [u8],
        committed: &mut VecDeque<&Committed>,
    ) -> Outcome<Option<Check<'b>>> {
        let link = self.links.get_mut(&number).ok_or(NO_CONNECTION)?;
        if !link.is_greeted {
            let request = link.pending.pop_front().ok_or("an answer without a handshake")?;
            // If a session is refused, it has expired, so the transaction that ended it is executed first.
            while long(&request, 20) != 0
                && let Some(transaction) = committed.pop_front()
            {
                self.transact(transaction)?;
            }
            return self.greet(number, &request, frame).map(|()| Some(Check::Welcome(frame)));
        }
        let xid = int(frame, 4);
        if xid == EVENT {
            return Ok(Some(Check::Event(frame)));
        }
        let place = link.pending.iter().position(|request| int(request, 4) == xid);
        let place = place.ok_or_else(|| format!("no request has the number {xid}"))?;
        let mut request = link.pending.remove(place).unwrap_or_default();
        // Skips pings, which real sessions do not need here, and requests that coincide with the end of their session.
        if int(&request, 8) == PING || int(frame, 16) == SESSION_EXPIRED {
            return Ok(None);
        }
        let (zxid, may_be_own) = (long(frame, 8), is_write(&request));
        while let Some(transaction) = committed.front().filter(|one| one.zxid <= zxid) {
            if transaction.zxid == zxid && may_be_own {
                committed.pop_front();
                break;
            }
            let transaction = committed.pop_front();
            transaction.map_or(Ok(()), |transaction| self.transact(transaction))?;
        }
        let link = self.links.get_mut(&number).ok_or(NO_CONNECTION)?;
        if int(&request, 8) == CLOSE
            && let Some(session) = self.numbers.sessions.get_mut(&link.session)
        {
            session.is_over = true;
        }
        if int(&request, 8) == SET_WATCHES {
            let since = self.numbers.transaction(long(&request, 12));
            request[12..20].copy_from_slice(&since.to_be_bytes());
        }
        self.counts.requests += 1;
        let answer = link.socket.ask(&request, Some(xid)).map_err(|error| {
            let (what, said) = (asked(&request), words(frame));
            format!("{what}: {said} of the simulated server, no answer: {error}")
        })?;
        link.socket.come.push_back(answer);
        Ok(Some(Check::Answer(request, frame)))
    }

    /// Sends a handshake, with the session and password of the real server, and records those in the answer.
    fn greet(&mut self, number: u64, request: &[u8], answer: &[u8]) -> Outcome<()> {
        let (asked, password) = (long(request, 20), request.get(32..48).unwrap_or_default());
        let (session, shown) = match self.numbers.sessions.get(&asked) {
            Some(known) if known.passwords[0] == password => (known.real, &*known.passwords[1]),
            Some(known) => (known.real, password),
            None => (asked, password),
        };
        let mut real = handshake(session, shown);
        let since = self.numbers.transaction(long(request, 8));
        real[8..16].copy_from_slice(&since.to_be_bytes());
        let link = self.links.get_mut(&number).ok_or(NO_CONNECTION)?;
        self.counts.requests += 1;
        let welcome = link.socket.ask(&real, None);
        let welcome = welcome.map_err(|error| format!("a handshake has no answer: {error}"))?;
        link.socket.come.push_back(welcome.clone());
        (link.is_greeted, link.session) = (true, long(answer, 12));
        if link.session != 0 {
            let passwords = [answer, &welcome].map(|frame| frame[24..40].to_vec());
            let session = Session { real: long(&welcome, 12), passwords, is_over: false };
            self.numbers.sessions.entry(link.session).or_insert(session);
        }
        Ok(())
    }

    /// Executes a transaction whose request receives no answer.
    fn transact(&mut self, transaction: &Committed) -> Outcome<()> {
        let Committed { session, is_close, changes, .. } = transaction;
        if *session == 0 {
            for change in changes {
                match &change.kind {
                    ChangeKind::Created { data, .. } => {
                        self.operator.create(&change.path, data, false, false)?;
                    }
                    ChangeKind::DataSet(data) => drop(self.operator.set(&change.path, data)?),
                    ChangeKind::Deleted => self.operator.delete(&change.path)?,
                    ChangeKind::AclSet => return Err("no operator sets an ACL".into()),
                }
            }
            return Ok(());
        }
        // If the handshake was lost, the session is unknown here, and has no nodes.
        if !self.numbers.sessions.contains_key(session) {
            return Ok(());
        }
        if *is_close {
            return self.end_session(*session);
        }
        // Earlier requests of the session were refused, so they are dropped.
        let left = self.left.entry(*session).or_default();
        let place = left.iter().position(|request| asks_for(request, transaction));
        let place = place.ok_or_else(|| format!("no client requested {transaction:?}"))?;
        let request = left.drain(..=place).next_back().unwrap_or_default();
        let answer = self.speak_for(*session, &request)?;
        // The first result of a refused transaction is an error.
        let is_refused = int(&request, 8) == MULTI && int(&answer, 20) == -1;
        match int(&answer, 16) == 0 && !is_refused {
            true => Ok(()),
            false => Err(format!("{} is refused", asked(&request)).into()),
        }
    }

    fn end_session(&mut self, session: i64) -> Outcome<()> {
        let close = framed(&[&OURS.to_be_bytes(), &CLOSE.to_be_bytes()]);
        self.speak_for(session, &close)?;
        if let Some(session) = self.numbers.sessions.get_mut(&session) {
            session.is_over = true;
        }
        Ok(())
    }

    /// Sends a request in this session, and returns its answer, which belongs to no client.
    fn speak_for(&mut self, session: i64, request: &[u8]) -> Outcome<Vec<u8>> {
        let known = self.numbers.sessions.get(&session).ok_or("an unknown session")?.clone();
        let mut aside;
        let living = self.links.values_mut().find(|link| link.session == session);
        let socket = match living {
            Some(link) => &mut link.socket,
            None => {
                aside = Socket::connect(self.server)?;
                aside.ask(&handshake(known.real, &known.passwords[1]), None)?;
                &mut aside
            }
        };
        let answer = socket.ask(request, Some(int(request, 4)));
        Ok(answer.map_err(|error| format!("{}: no answer: {error}", asked(request)))?)
    }

    /// Handles a connection that the client or the server has closed.
    fn leave(&mut self, number: u64) {
        if let Some(link) = self.links.remove(&number) {
            let writes = link.pending.into_iter().filter(|request| is_write(request));
            self.left.entry(link.session).or_default().extend(writes);
        }
    }

    // ---- what both servers have sent

    /// Compares all frames of each connection, in order. If a session ended, its nodes were deleted in any order.
    fn compare(&mut self, checks: Vec<(u64, Check<'_>)>, is_unordered: bool) -> Outcome<()> {
        let mut by_connection: BTreeMap<u64, Vec<Check<'_>>> = BTreeMap::new();
        for (number, check) in checks {
            by_connection.entry(number).or_default().push(check);
        }
        let may_swap = |one: &Check<'_>, other: &Check<'_>| {
            is_unordered && matches!((one, other), (Check::Event(_), Check::Event(_)))
        };
        for (number, checks) in by_connection {
            checks.chunk_by(may_swap).try_for_each(|run| self.compare_run(number, run))?;
        }
        Ok(())
    }

    /// Compares a frame, the end of a connection, or a group of unordered events.
    fn compare_run(&mut self, number: u64, run: &[Check<'_>]) -> Outcome<()> {
        let socket = &mut self.links.get_mut(&number).ok_or(NO_CONNECTION)?.socket;
        if let [Check::End] = run {
            let frame = socket.end().map_err(|error| format!("no end: {error}"))?;
            if let Some(frame) = frame {
                return Err(format!("{} instead of the end", words(&frame)).into());
            }
            self.leave(number);
            return Ok(());
        }
        let mut both = [Vec::new(), Vec::new()];
        for check in run {
            let (what, frame) = check.parts();
            let real =
                socket.next().map_err(|error| format!("{what}: no frame arrives: {error}"))?;
            if !matches!(check, Check::Welcome(_)) && int(&real, 4) != int(frame, 4) {
                return Err(format!("{what}: {} arrives first", words(&real)).into());
            }
            match check {
                Check::Event(_) => self.counts.events += 1,
                _ => self.counts.answers += 1,
            }
            both[0].push((check.read(frame), what.clone()));
            both[1].push((check.read(&real), what));
        }
        both.iter_mut().for_each(|fields| fields.sort());
        let [simulated, real] = both;
        for ((simulated, what), (real, _)) in simulated.into_iter().zip(real) {
            match (&simulated, &real) {
                (Ok(one), Ok(other)) if fields::agree(one, other, &mut self.numbers) => {}
                _ => {
                    let [simulated, real] = [simulated, real].map(|fields| listed(&fields));
                    let servers = format!(
                        "\n  the simulated server: {simulated}\n  the real server:      {real}"
                    );
                    return Err((what + &servers).into());
                }
            }
        }
        Ok(())
    }
}

impl Check<'_> {
    /// Describes a frame of the simulated server, and returns it.
    fn parts(&self) -> (String, &[u8]) {
        match self {
            Check::Welcome(frame) => ("a handshake".to_owned(), frame),
            Check::Answer(request, frame) => (asked(request), frame),
            Check::Event(frame) => ("an event".to_owned(), frame),
            Check::End => ("the end".to_owned(), &[]),
        }
    }

    /// Parses a frame of this kind, from either server.
    fn read(&self, frame: &[u8]) -> Result<Fields, Odd> {
        match self {
            Check::Welcome(_) => fields::welcome(frame),
            Check::Answer(request, _) => fields::answer(frame, request),
            Check::Event(_) | Check::End => fields::event(frame),
        }
    }
}

impl Link {
    fn receive(&mut self, bytes: &[u8]) {
        self.come.extend_from_slice(bytes);
        while self.come.len() >= 4
            && let end = 4 + int(&self.come, 0) as usize
            && self.come.len() >= end
        {
            let rest = self.come.split_off(end);
            self.pending.push_back(std::mem::replace(&mut self.come, rest));
        }
    }
}

fn listed(fields: &Result<Fields, Odd>) -> String {
    let Ok(fields) = fields else { return "a frame of another length".to_owned() };
    let compared = fields.iter().filter(|(_, value)| *value != Value::Own);
    compared.map(|(name, value)| format!("{name} {value:?}")).collect::<Vec<_>>().join(", ")
}

/// Returns whether a request asks for all changes in a transaction.
fn asks_for(request: &[u8], transaction: &Committed) -> bool {
    let operations = operations(request);
    transaction.changes.iter().all(|change| {
        let mut all =
            operations.iter().map(|(what, path)| (*what, change.path.strip_prefix(&**path)));
        match change.kind {
            // A sequential node's number has ten digits.
            ChangeKind::Created { .. } => all.any(|(what, number)| {
                what == "create" && number.is_some_and(|number| [0, 10].contains(&number.len()))
            }),
            ChangeKind::DataSet(_) => all.any(|one| one == ("write", Some(""))),
            ChangeKind::Deleted => all.any(|one| one == ("delete", Some(""))),
            ChangeKind::AclSet => true,
        }
    })
}

fn asked(request: &[u8]) -> String {
    in_words(request, false).unwrap_or_default()
}

/// Describes a frame that is unexpected or missing.
fn words(frame: &[u8]) -> String {
    match int(frame, 4) {
        EVENT => listed(&fields::event(frame)),
        xid => format!("an answer to {xid} with error {}", int(frame, 16)),
    }
}
