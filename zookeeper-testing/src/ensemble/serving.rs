//! What a server does for its clients: handshakes, and requests in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::events::{LeaderRequest, Origin, What};
use super::leading::answer;
use super::watching::ServerWatches;
use super::{Ensemble, Event, Time};
use crate::access::{self, Id, ReadRules};
use crate::access::{Acl, permission};
use crate::answers;
use crate::requests::{self, Request};
use crate::terms::Refused;
use crate::terms::{EventType, Stat};
use crate::tree::Tree;
use crate::wire::{Malformed, Put};

/// The longest request (`jute.maxbuffer`). A longer one ends the connection.
pub(crate) const LONGEST: usize = 0xf_ffff;

/// What a server records about a connection.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) server: usize,
    /// The session, or 0 before the handshake.
    pub(super) session: i64,
    timeout: Time,
    phase: Phase,
    ids: Arc<Vec<Id>>,
    /// The bytes of a frame that is not complete yet.
    come: Vec<u8>,
    due: VecDeque<Due>,
    last_number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    /// The handshake has arrived, but has not been answered yet.
    Greeted,
    Served,
}

/// A request without an answer. Answers are sent in the order of the requests.
#[derive(Debug)]
struct Due {
    number: u64,
    state: DueState,
    frame: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum DueState {
    /// The leader is handling the request.
    Waits,
    /// A read. It is answered from the server's state when all earlier requests have been answered.
    Reads,
    /// `frame` contains the answer.
    Answered,
}

/// The connection must be closed.
struct HangUp;

impl From<Malformed> for HangUp {
    fn from(_: Malformed) -> HangUp {
        HangUp
    }
}

impl ServerConnection {
    pub(super) fn new(server: usize, ip: String) -> ServerConnection {
        ServerConnection {
            server,
            session: 0,
            timeout: 0,
            phase: Phase::New,
            ids: Arc::new(vec![Id::new("ip", ip)]),
            come: Vec::new(),
            due: VecDeque::new(),
            last_number: 0,
        }
    }

    fn push(&mut self, state: DueState, frame: Vec<u8>) -> u64 {
        self.last_number += 1;
        self.due.push_back(Due { number: self.last_number, state, frame });
        self.last_number
    }
}

/// Takes the first frame from these bytes. Returns `None` if the frame is incomplete.
fn next_frame<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, HangUp> {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > LONGEST {
        return Err(HangUp);
    }
    Ok(rest.split_at_checked(length).map(|(frame, behind)| {
        *bytes = behind;
        frame
    }))
}

fn password(session: i64) -> Vec<u8> {
    [session.to_be_bytes(), (!session).to_be_bytes()].concat()
}

// ---- bytes

impl Ensemble {
    /// Handles bytes from a client, in pieces of any size. If they are malformed, the connection is closed.
    pub fn receive(&mut self, connection: u64, bytes: &[u8], now: Instant) {
        self.advance(now);
        let Some(server) = self.connections.get(&connection).map(|known| known.server) else {
            return;
        };
        match self.is_frozen(server) {
            true => self.servers[server].held.push_back((connection, Some(bytes.to_vec()))),
            false => self.come(connection, bytes),
        }
    }

    /// Handles a complete frame, without its length.
    pub(crate) fn take(&mut self, connection: u64, frame: &[u8], now: Instant) {
        self.advance(now);
        self.frame(connection, frame);
    }

    /// Continues with what has arrived while the server was frozen.
    pub(super) fn thaw(&mut self, server: usize) {
        if self.is_frozen(server) {
            return;
        }
        for (connection, bytes) in std::mem::take(&mut self.servers[server].held) {
            match bytes {
                Some(bytes) => self.come(connection, &bytes),
                None => self.forget(connection),
            }
        }
        self.elect_if_possible();
    }

    fn come(&mut self, connection: u64, bytes: &[u8]) {
        let Some(known) = self.connections.get_mut(&connection) else {
            return;
        };
        let mut come = std::mem::take(&mut known.come);
        let mut rest = bytes;
        if !come.is_empty() {
            come.extend_from_slice(bytes);
            rest = &come;
        }
        // Before it has answered the handshake, a server reads nothing else.
        while self.connections.get(&connection).is_some_and(|known| known.phase != Phase::Greeted) {
            match next_frame(&mut rest) {
                Ok(Some(frame)) => self.frame(connection, frame),
                Ok(None) => break,
                Err(HangUp) => return self.end(connection),
            }
        }
        if let (false, Some(known)) = (rest.is_empty(), self.connections.get_mut(&connection)) {
            known.come = rest.to_vec();
        }
    }

    fn frame(&mut self, connection: u64, frame: &[u8]) {
        let Some(known) = self.connections.get(&connection) else {
            return;
        };
        let done = match known.phase {
            Phase::New => self.greet(connection, frame),
            _ => self.asked(connection, frame),
        };
        if let Err(HangUp) = done {
            self.end(connection);
        }
    }
}

// ---- handshakes

impl Ensemble {
    fn greet(&mut self, connection: u64, frame: &[u8]) -> Result<(), HangUp> {
        let asked = requests::connect_request(frame)?;
        let timeout = self.settings.granted(asked.timeout);
        let known = self.connections.get_mut(&connection).ok_or(HangUp)?;
        let (server, session) = (known.server, asked.session);
        (known.phase, known.timeout) = (Phase::Greeted, timeout);
        let reign = self.servers[server].reign.ok_or(HangUp)?;
        // A client must not be shown a state older than one it has already seen.
        if asked.zxid > self.servers[server].zxid || self.suspended.contains(&session) {
            return Err(HangUp);
        }
        if session == 0 || self.settings.keeper {
            self.last_session += 1;
            known.session = self.last_session;
            let origin = Origin { server, connection, number: 0 };
            let what = What::Open(timeout);
            self.forward(reign, LeaderRequest { origin, session: self.last_session, what });
            return Ok(());
        }
        for other in self.connections_with(server, session) {
            self.end(other);
        }
        if let Some(known) = self.connections.get_mut(&connection) {
            known.session = session;
        }
        if asked.password != password(session) {
            self.resumed(connection, false);
        } else if self.leads(server) {
            let lives = self.revalidate(server, reign, session, timeout);
            self.resumed(connection, lives);
        } else {
            let at = self.link(server, true);
            let asked = Event::Revalidate { server, reign, connection, session, timeout };
            self.events.at(at, asked);
        }
        Ok(())
    }

    /// Answers the handshake.
    pub(super) fn resumed(&mut self, connection: u64, lives: bool) {
        let Some(known) = self.connections.get_mut(&connection) else {
            return;
        };
        known.phase = Phase::Served;
        let (session, timeout) = (known.session, (known.timeout / 1_000_000) as i32);
        match lives {
            true => {
                let password = (!self.settings.keeper).then(|| password(session));
                self.send(connection, answers::connected(timeout, session, password.as_deref()));
                self.come(connection, &[]);
            }
            false => {
                self.send(connection, answers::connected(0, 0, Some(&[0; 16])));
                self.end(connection);
            }
        }
    }

    /// Sends a request to the server's leader.
    fn forward(&mut self, reign: usize, asked: LeaderRequest) {
        let server = asked.origin.server;
        if self.leads(server) {
            return self.prepare(reign, asked);
        }
        let at = self.link(server, true);
        self.events.at(at, Event::Forwarded { server, reign, asked });
    }
}

// ---- requests

impl Ensemble {
    fn asked(&mut self, connection: u64, frame: &[u8]) -> Result<(), HangUp> {
        let (xid, request) = requests::request(frame)?;
        let known = self.connections.get_mut(&connection).ok_or(HangUp)?;
        let (server, session, timeout) = (known.server, known.session, known.timeout);
        let reign = self.servers[server].reign.ok_or(HangUp)?;
        // Credentials are checked immediately, before requests in flight.
        if let Request::Auth { scheme, secret } = request {
            let shown = access::authenticate(Arc::make_mut(&mut known.ids), scheme, secret);
            // The answer does not contain a transaction's id.
            self.send(
                connection,
                answer(xid, 0, shown.err().map_or(0, |refused| refused.0), |_| {}),
            );
            return shown.map_err(|_| HangUp);
        }
        self.sign_of_life(server, session, timeout);
        let leads = self.leads(server);
        let is_ping = matches!(request, Request::Ping);
        if !is_ping && self.chance.is(self.settings.throttle) {
            let answer = answer(xid, self.servers[server].zxid, Refused::THROTTLED.0, |_| {});
            return self.answer_later(connection, answer);
        }
        let what = match request {
            Request::Sync { .. } if !leads => What::Sync,
            Request::Write(_) | Request::Multi(_) | Request::CloseSession => {
                let known = self.connections.get(&connection).ok_or(HangUp)?;
                What::Request(frame.to_vec(), Arc::clone(&known.ids))
            }
            request => {
                // Only the leader checks the session.
                let checked = match leads {
                    true => self.check_session(reign, session, server),
                    false => Ok(()),
                };
                if let Err(refused) = checked {
                    let code = refused.ok_or(HangUp)?;
                    let answer = answer(xid, self.servers[server].zxid, code, |_| {});
                    return self.answer_later(connection, answer);
                }
                let known = self.connections.get_mut(&connection).ok_or(HangUp)?;
                if known.due.is_empty() || (is_ping && self.settings.overtaking) {
                    self.read(connection, xid, request);
                } else {
                    known.push(DueState::Reads, frame.to_vec());
                }
                return Ok(());
            }
        };
        let kept = if let What::Sync = what { frame.to_vec() } else { Vec::new() };
        let known = self.connections.get_mut(&connection).ok_or(HangUp)?;
        let number = known.push(DueState::Waits, kept);
        let origin = Origin { server, connection, number };
        self.forward(reign, LeaderRequest { origin, session, what });
        Ok(())
    }

    fn answer_later(&mut self, connection: u64, answer: Vec<u8>) -> Result<(), HangUp> {
        let known = self.connections.get_mut(&connection).ok_or(HangUp)?;
        known.push(DueState::Answered, answer);
        self.answer_due(connection);
        Ok(())
    }

    /// Sets the answer to a write. If it is empty, the connection is closed.
    pub(super) fn written(&mut self, connection: u64, number: u64, answer: &[u8]) {
        if answer.is_empty() {
            return self.end(connection);
        }
        self.ready(connection, number, DueState::Answered, answer.to_vec());
    }

    /// Handles the end of a `sync`: the server has caught up with its leader.
    pub(super) fn synced(&mut self, connection: u64, number: u64) {
        self.ready(connection, number, DueState::Reads, Vec::new());
    }

    fn ready(&mut self, connection: u64, number: u64, state: DueState, answer: Vec<u8>) {
        let Some(known) = self.connections.get_mut(&connection) else {
            return;
        };
        if let Some(due) = known.due.iter_mut().find(|due| due.number == number) {
            if state == DueState::Answered {
                due.frame = answer;
            }
            due.state = state;
        }
        self.answer_due(connection);
    }

    /// Sends all answers that are ready, in order.
    fn answer_due(&mut self, connection: u64) {
        loop {
            let Some(known) = self.connections.get_mut(&connection) else {
                return;
            };
            if known.due.front().is_none_or(|due| due.state == DueState::Waits) {
                return;
            }
            let Some(Due { state, frame, .. }) = known.due.pop_front() else {
                return;
            };
            if state == DueState::Answered {
                self.send(connection, frame);
            } else if let Ok((xid, request)) = requests::request(&frame) {
                self.read(connection, xid, request);
            }
        }
    }

    /// Adds the server's own answer. If `body` fails, the answer contains only the error.
    fn reply(
        &mut self,
        connection: u64,
        xid: i32,
        body: impl FnOnce(&mut Reading<'_>, &mut Vec<u8>) -> Result<(), Refused>,
    ) {
        let Some(known) = self.connections.get(&connection) else {
            return;
        };
        let server = &mut self.servers[known.server];
        let (tree, rules, ids) = (&self.tree, self.settings.rules, known.ids.as_slice());
        let (zxid, watches) = (server.zxid, &mut server.watches);
        let mut reading = Reading { tree, zxid, rules, ids, connection, watches };
        let answer = answers::frame(|out| {
            let start = out.len();
            answers::header(out, xid, zxid, 0);
            if let Err(kind) = body(&mut reading, out) {
                out.truncate(start);
                answers::header(out, xid, zxid, kind.0);
            }
        });
        self.send(connection, answer);
    }
}

// ---- what a server answers without its leader

impl Ensemble {
    fn read(&mut self, connection: u64, xid: i32, request: Request<'_>) {
        if let Request::SetWatches { zxid, data, exist, child } = request {
            self.set_watches(connection, zxid, [data, exist, child]);
            return self.reply(connection, xid, |_, _| Ok(()));
        }
        self.reply(connection, xid, |reading, out| reading.read(request, out));
    }

    /// Returns whether a client may receive an event about a node that has this ACL.
    pub(super) fn may_know(&self, connection: u64, acl: &[Acl]) -> bool {
        let may = |ids: &[Id]| access::check(acl, ids, permission::READ).is_ok();
        let is_open = self.settings.rules == ReadRules::Open;
        self.connections.get(&connection).is_some_and(|known| is_open || may(&known.ids))
    }

    /// Sets watches again, as `DataTree.setWatches` does. Changes after this transaction are reported immediately,
    /// whatever the ACLs.
    fn set_watches(&mut self, connection: u64, since: i64, [data, exist, child]: [Vec<&str>; 3]) {
        let Some(known) = self.connections.get(&connection) else {
            return;
        };
        let server = &mut self.servers[known.server];
        let (tree, zxid, watches) = (&self.tree, server.zxid, &mut server.watches);
        let changed = |path: &str, changed: fn(&Stat) -> i64, event| match tree.node(path, zxid) {
            Err(_) => Some(EventType::Deleted),
            Ok(node) => (changed(&node.stat()) > since).then_some(event),
        };
        let mut missed = Vec::new();
        for path in data {
            match changed(path, |stat| stat.mzxid, EventType::DataChanged) {
                Some(event) => missed.push((event, path)),
                None => watches.add_data(path, connection),
            }
        }
        for path in exist {
            match tree.node(path, zxid) {
                Ok(_) => missed.push((EventType::Created, path)),
                Err(_) => watches.add_data(path, connection),
            }
        }
        for path in child {
            match changed(path, |stat| stat.pzxid, EventType::ChildrenChanged) {
                Some(event) => missed.push((event, path)),
                None => watches.add_child(path, connection),
            }
        }
        for (event, path) in missed {
            self.tell_anyway(connection, zxid, event, path);
        }
    }
}

/// A read, and the server's state that it needs.
struct Reading<'a> {
    tree: &'a Tree,
    zxid: i64,
    rules: ReadRules,
    ids: &'a [Id],
    connection: u64,
    watches: &'a mut ServerWatches,
}

impl Reading<'_> {
    /// Appends the body of the answer to the read.
    fn read(&mut self, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let Reading { tree, zxid, ids, connection, .. } = *self;
        match request {
            Request::Ping => {}
            Request::Exists { path, watch } => {
                let node = tree.node(path, zxid);
                if let (ReadRules::EventsAndExists, Ok(node)) = (self.rules, node) {
                    access::check(&node.acl, ids, permission::READ)?;
                }
                if watch {
                    self.watches.add_data(path, connection);
                }
                answers::stat(out, &node?.stat());
            }
            Request::GetData { path, watch } => {
                let node = tree.permitted(path, ids, permission::READ, zxid)?;
                if watch {
                    self.watches.add_data(path, connection);
                }
                out.put_buffer(&node.data);
                answers::stat(out, &node.stat());
            }
            Request::GetChildren { path, watch, with_stat } => {
                let node = tree.permitted(path, ids, permission::READ, zxid)?;
                if watch {
                    self.watches.add_child(path, connection);
                }
                out.put_int(node.stat().num_children);
                tree.children(path, zxid, |name| out.put_buffer(name.as_bytes()));
                if with_stat {
                    answers::stat(out, &node.stat());
                }
            }
            Request::GetAcl { path } => {
                let any_of = permission::READ | permission::ADMIN;
                let node = tree.permitted(path, ids, any_of, zxid)?;
                let may_set = access::check(&node.acl, ids, permission::ADMIN).is_ok();
                match may_set {
                    true => answers::acl(out, &node.acl),
                    false => answers::acl(out, &access::hidden(&node.acl)),
                }
                answers::stat(out, &node.stat());
            }
            Request::Sync { path } => out.put_buffer(path.as_bytes()),
            Request::WhoAmI => {
                out.put_int(ids.len() as i32);
                for (scheme, user) in ids.iter().map(Id::user) {
                    out.put_buffer(scheme.as_bytes());
                    out.put_buffer(user.as_bytes());
                }
            }
            _ => return Err(Refused::UNIMPLEMENTED),
        }
        Ok(())
    }
}
