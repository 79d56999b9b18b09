//! What a server knows: nodes, sessions, and who is connected and watches what. Pure: frames and instants go in;
//! frames, ends of connections and the next instant come out. The order in which they come out is that in which
//! everything happened, for each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::access::{self, ReadRules};
use super::committed::Committed;
use super::requests::{self, Request};
use super::tree::{Asker, Op, Told, Tree};
use crate::acl::Permissions;
use crate::batch::OpResult;
use crate::core::message::{self, CREATE, OpCode};
use crate::core::served;
use crate::core::wire::{Malformed, Put};
use crate::error::ErrorKind;
use crate::types::{EventType, Stat};

/// Shorter sessions would end on any busy machine.
const SHORTEST: Duration = Duration::from_millis(50);
/// As `znode.container.checkIntervalMs` has it.
const SWEEP: Duration = Duration::from_secs(60);

/// What a failed `multi` says of the operations behind the one that was refused.
const NOT_TRIED: i32 = -2;

/// What a connection is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// These bytes, a frame.
    Bytes(Vec<u8>),
    /// The connection ends behind what was sent before.
    End,
}

#[derive(Debug)]
pub(super) struct State {
    rules: ReadRules,
    /// An instant, and what it is in milliseconds since 1970.
    epoch: (Instant, i64),
    tree: Tree,
    sessions: BTreeMap<i64, Session>,
    connections: BTreeMap<u64, Connection>,
    last_session: i64,
    last_connection: u64,
    /// Sessions whose connections are broken as they come.
    suspended: BTreeSet<i64>,
    is_stopped: bool,
    sweep_at: Instant,
    outgoing: Vec<(u64, Outgoing)>,
    /// What was committed, if anybody looks.
    committed: Option<Vec<Committed>>,
}

#[derive(Debug)]
struct Session {
    timeout: Duration,
    heard: Instant,
    connection: u64,
}

#[derive(Debug)]
struct Connection {
    asker: Asker,
    data: BTreeSet<String>,
    child: BTreeSet<String>,
}

/// The connection has to end.
pub(super) struct HangUp;

impl From<Malformed> for HangUp {
    fn from(_: Malformed) -> HangUp {
        HangUp
    }
}

fn password(session: i64) -> Vec<u8> {
    [session.to_be_bytes(), (!session).to_be_bytes()].concat()
}

impl Session {
    fn end(&self) -> Instant {
        self.heard + self.timeout
    }
}

impl State {
    /// `wall` is what `now` is in milliseconds since 1970.
    pub(super) fn new(rules: ReadRules, now: Instant, wall: i64) -> State {
        State {
            rules,
            epoch: (now, wall),
            tree: Tree::new(),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_session: 0x1_0000_0000,
            last_connection: 0,
            suspended: BTreeSet::new(),
            is_stopped: false,
            sweep_at: now + SWEEP,
            outgoing: Vec::new(),
            committed: None,
        }
    }

    fn wall(&self, now: Instant) -> i64 {
        self.epoch.1 + now.saturating_duration_since(self.epoch.0).as_millis() as i64
    }

    /// What is to be sent by now.
    pub(super) fn take_outgoing(&mut self) -> Vec<(u64, Outgoing)> {
        std::mem::take(&mut self.outgoing)
    }

    // ---- connections

    pub(super) fn connect(&mut self, ip: String) -> u64 {
        self.last_connection += 1;
        let asker = Asker { session: 0, ids: vec![("ip".to_owned(), ip)] };
        let (data, child) = (BTreeSet::new(), BTreeSet::new());
        let connection = Connection { asker, data, child };
        self.connections.insert(self.last_connection, connection);
        self.last_connection
    }

    /// Whatever is still to be written to it, is.
    pub(super) fn cut(&mut self, id: u64) {
        if self.connections.remove(&id).is_some() {
            self.outgoing.push((id, Outgoing::End));
        }
    }

    fn cut_all(&mut self) {
        while let Some((&id, _)) = self.connections.first_key_value() {
            self.cut(id);
        }
    }

    fn send(&mut self, id: u64, frame: Vec<u8>) {
        if self.connections.contains_key(&id) {
            self.outgoing.push((id, Outgoing::Bytes(frame)));
        }
    }

    /// The first frame of a connection.
    pub(super) fn greet(&mut self, id: u64, frame: &[u8], now: Instant) -> Result<(), HangUp> {
        let greeting = served::greeting(frame)?;
        let mut session = greeting.session;
        if self.is_stopped || greeting.zxid > self.tree.zxid || self.suspended.contains(&session) {
            return Err(HangUp);
        }
        let timeout = Duration::from_millis(u64::try_from(greeting.timeout).unwrap_or_default());
        let timeout = timeout.max(SHORTEST);
        if session == 0 {
            self.tree.zxid += 1;
            self.last_session += 1;
            session = self.last_session;
        } else if !self.sessions.contains_key(&session) || greeting.password != password(session) {
            self.send(id, served::connected(0, 0, &[0; 16]));
            return Err(HangUp);
        }
        let known = Session { timeout, heard: now, connection: id };
        if let Some(before) = self.sessions.insert(session, known) {
            self.cut(before.connection);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.asker.session = session;
        }
        let timeout = timeout.as_millis() as i32;
        self.send(id, served::connected(timeout, session, &password(session)));
        Ok(())
    }

    // ---- requests

    pub(super) fn request(&mut self, id: u64, frame: &[u8], now: Instant) -> Result<(), HangUp> {
        let (xid, request) = requests::request(frame)?;
        // It may have been cut by another thread.
        let connection = self.connections.get(&id).ok_or(HangUp)?;
        let session = connection.asker.session;
        self.sessions.get_mut(&session).ok_or(HangUp)?.heard = now;
        let is_last = matches!(request, Request::CloseSession);
        let is_auth = matches!(request, Request::Auth { .. });
        let mut body = Vec::new();
        let done = self.carry_out(id, request, &mut body, now);
        let code = done.map_or_else(ErrorKind::code, |()| 0);
        let zxid = self.tree.zxid;
        self.send(
            id,
            served::frame(|out| {
                served::header(out, xid, zxid, code);
                out.extend(body);
            }),
        );
        match is_last || (is_auth && code != 0) {
            true => Err(HangUp),
            false => Ok(()),
        }
    }

    /// Does it and appends what the answer says.
    fn carry_out(
        &mut self,
        id: u64,
        request: Request<'_>,
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Result<(), ErrorKind> {
        // Looked up before; without one nobody asks for anything.
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let (tree, asker) = (&self.tree, &mut connection.asker);
        match request {
            Request::Ping => {}
            Request::Auth { scheme, secret } => {
                access::authenticate(&mut asker.ids, scheme, secret)?;
            }
            Request::SetWatches { zxid, data, exist, child } => {
                let missed = connection.set_watches(tree, zxid, [data, exist, child]);
                missed.iter().for_each(|(event, path)| self.tell(id, *event, path));
            }
            Request::Exists { path, watch } => {
                let node = tree.node(path);
                if let (ReadRules::EventsAndExists, Ok(node)) = (self.rules, node) {
                    access::check(&node.acl, &asker.ids, Permissions::READ)?;
                }
                if watch {
                    connection.data.insert(path.to_owned());
                }
                served::stat(out, &node?.stat());
            }
            Request::GetData { path, watch } => {
                let node = tree.permitted(path, asker, Permissions::READ)?;
                if watch {
                    connection.data.insert(path.to_owned());
                }
                out.put_buffer(&node.data);
                served::stat(out, &node.stat());
            }
            Request::GetChildren { path, watch, with_stat } => {
                let node = tree.permitted(path, asker, Permissions::READ)?;
                if watch {
                    connection.child.insert(path.to_owned());
                }
                out.put_int(node.children.len() as i32);
                node.children.iter().for_each(|name| out.put_buffer(name.as_bytes()));
                if with_stat {
                    served::stat(out, &node.stat());
                }
            }
            Request::GetAcl { path } => {
                let any_of = Permissions::READ | Permissions::ADMIN;
                let node = tree.permitted(path, asker, any_of)?;
                let may_set = access::check(&node.acl, &asker.ids, Permissions::ADMIN).is_ok();
                match may_set {
                    true => message::acl_list(out, &node.acl),
                    false => message::acl_list(out, &access::hidden(&node.acl)),
                }
                served::stat(out, &node.stat());
            }
            Request::Sync { path } => out.put_buffer(path.as_bytes()),
            Request::Write { op, with_stat } => {
                let result = self.write(id, vec![op], now).map_err(|(_, kind)| kind)?;
                let result = result.into_iter().next();
                result.inspect(|result| self.put_result(out, result, with_stat));
            }
            Request::Multi(ops) => {
                let count = ops.len();
                match self.write(id, ops, now) {
                    Ok(results) => {
                        for result in &results {
                            message::multi_header(out, Some(multi_code(result)));
                            self.put_result(out, result, false);
                        }
                    }
                    Err((failed, kind)) => {
                        for index in 0..count {
                            message::multi_header(out, Some(-1));
                            out.put_int(match index.cmp(&failed) {
                                std::cmp::Ordering::Less => 0,
                                std::cmp::Ordering::Equal => kind.code(),
                                std::cmp::Ordering::Greater => NOT_TRIED,
                            });
                        }
                    }
                }
                message::multi_header(out, None);
            }
            Request::CloseSession => {
                let session = asker.session;
                self.sessions.remove(&session);
                let told = self.tree.end_session(session, self.wall(now));
                self.commit(session, true, now);
                self.tell_all(told);
            }
            Request::Unknown => return Err(ErrorKind::Unimplemented),
        }
        Ok(())
    }

    fn commit(&mut self, session: i64, is_close: bool, now: Instant) {
        let changes = std::mem::take(&mut self.tree.done);
        let zxid = self.tree.zxid;
        if let Some(committed) = &mut self.committed {
            committed.push(Committed { zxid, at: now, session, is_close, changes });
        }
    }

    fn write(
        &mut self,
        id: u64,
        ops: Vec<Op<'_>>,
        now: Instant,
    ) -> Result<Vec<OpResult>, (usize, ErrorKind)> {
        let wall = self.wall(now);
        let nobody = Asker::default();
        let asker = self.connections.get(&id).map_or(&nobody, |connection| &connection.asker);
        let session = asker.session;
        let (results, told) = self.tree.transact(ops, asker, wall)?;
        self.commit(session, false, now);
        self.tell_all(told);
        Ok(results)
    }

    fn put_result(&self, out: &mut Vec<u8>, result: &OpResult, with_stat: bool) {
        match result {
            OpResult::Created(path) => {
                out.put_buffer(path.as_bytes());
                if with_stat {
                    let stat = self.tree.node(path).map(|node| node.stat());
                    served::stat(out, &stat.unwrap_or_default());
                }
            }
            OpResult::Set(stat) => served::stat(out, stat),
            OpResult::Deleted | OpResult::Checked => {}
        }
    }

    // ---- what is told unasked

    /// Tells each connection that watches it, once. A watch is over by that, told or not.
    fn tell_all(&mut self, told: Vec<Told>) {
        for Told { event, path, acl } in &told {
            let watches = |connection: &mut Connection| match event {
                EventType::NodeChildrenChanged => connection.child.remove(path),
                EventType::NodeDeleted => {
                    connection.data.remove(path) | connection.child.remove(path)
                }
                _ => connection.data.remove(path),
            };
            let is_open = self.rules == ReadRules::Open;
            let may_know = |connection: &Connection| {
                is_open || access::check(acl, &connection.asker.ids, Permissions::READ).is_ok()
            };
            let is_told = |connection: &mut Connection| watches(connection) && may_know(connection);
            let watching = self.connections.iter_mut();
            let watching = watching.filter_map(|(id, one)| is_told(one).then_some(*id));
            let watching: Vec<u64> = watching.collect();
            watching.into_iter().for_each(|id| self.tell(id, *event, path));
        }
    }

    fn tell(&mut self, id: u64, event: EventType, path: &str) {
        let kind = match event {
            EventType::NodeCreated => 1,
            EventType::NodeDeleted => 2,
            EventType::NodeDataChanged => 3,
            EventType::NodeChildrenChanged => 4,
            // No server says that.
            EventType::WatchEnded => return,
        };
        self.send(id, served::event(self.tree.zxid, kind, path));
    }

    // ---- sessions

    /// Ends sessions and containers whose time is over. When to look again.
    pub(super) fn look_at_clock(&mut self, now: Instant) -> Instant {
        if self.is_stopped {
            return now + SWEEP;
        }
        if self.sweep_at <= now {
            self.sweep_at = now + SWEEP;
            for path in self.tree.empty_containers() {
                let told = self.tree.remove_container(path, self.wall(now));
                self.commit(0, false, now);
                self.tell_all(told);
            }
        }
        let over = self.sessions.iter().filter(|(_, session)| session.end() <= now);
        let over: Vec<i64> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|session| self.expire(session, now));
        self.sessions.values().map(Session::end).fold(self.sweep_at, Instant::min)
    }

    pub(super) fn expire(&mut self, session: i64, now: Instant) {
        if let Some(ended) = self.sessions.remove(&session) {
            // First, so that its client hears of its end and not of that of its nodes.
            self.cut(ended.connection);
            let told = self.tree.end_session(session, self.wall(now));
            self.commit(session, true, now);
            self.tell_all(told);
        }
    }

    pub(super) fn suspend(&mut self, session: i64) {
        self.suspended.insert(session);
        if let Some(connection) = self.sessions.get(&session).map(|session| session.connection) {
            self.cut(connection);
        }
    }

    pub(super) fn resume(&mut self, session: i64) {
        self.suspended.remove(&session);
    }

    /// Every connection is broken as it comes, until it starts again.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        self.cut_all();
    }

    /// Nobody has lost time by its being away.
    pub(super) fn start_again(&mut self, now: Instant) {
        self.sessions.values_mut().for_each(|session| session.heard = now);
        self.is_stopped = false;
    }

    /// As somebody may do who has all permissions.
    pub(super) fn operate(&mut self, op: Op<'_>, now: Instant) -> Result<(), ErrorKind> {
        let operator = Asker { session: 0, ids: vec![access::superuser()] };
        let done = self.tree.transact(vec![op], &operator, self.wall(now));
        let (_, told) = done.map_err(|(_, kind)| kind)?;
        self.commit(0, false, now);
        self.tell_all(told);
        Ok(())
    }
}

#[cfg(any(test, zoolock_simulation))]
impl State {
    /// Keeps what is committed until it is taken.
    pub(super) fn record(&mut self) {
        self.committed = Some(Vec::new());
    }

    pub(super) fn take_committed(&mut self) -> Vec<Committed> {
        self.committed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn node(&self, path: &str) -> Option<(Stat, &[u8])> {
        self.tree.node(path).ok().map(|node| (node.stat(), node.data.as_slice()))
    }

    pub(super) fn below(&self, path: &str) -> Vec<String> {
        self.tree.below(path).cloned().collect()
    }

    pub(super) fn sessions(&self) -> Vec<i64> {
        self.sessions.keys().copied().collect()
    }
}

impl Connection {
    /// What has happened since this transaction, which servers tell whatever the ACLs say; what has not is
    /// watched again.
    fn set_watches(
        &mut self,
        tree: &Tree,
        zxid: i64,
        paths: [Vec<&str>; 3],
    ) -> Vec<(EventType, String)> {
        let mut missed = Vec::new();
        let [data, exist, child] = paths;
        let since = |path: &str, changed: fn(&Stat) -> i64, event| match tree.node(path) {
            Err(_) => Some(EventType::NodeDeleted),
            Ok(node) => (changed(&node.stat()) > zxid).then_some(event),
        };
        let created = |path: &str| tree.node(path).is_ok().then_some(EventType::NodeCreated);
        let mut each =
            |path: &str, event: Option<EventType>, watches: &mut BTreeSet<String>| match event {
                Some(event) => missed.push((event, path.to_owned())),
                None => drop(watches.insert(path.to_owned())),
            };
        for path in data {
            each(path, since(path, |stat| stat.mzxid, EventType::NodeDataChanged), &mut self.data);
        }
        for path in exist {
            each(path, created(path), &mut self.data);
        }
        for path in child {
            let event = since(path, |stat| stat.pzxid, EventType::NodeChildrenChanged);
            each(path, event, &mut self.child);
        }
        missed
    }
}

fn multi_code(result: &OpResult) -> i32 {
    match result {
        OpResult::Created(_) => CREATE,
        OpResult::Deleted => OpCode::Delete as i32,
        OpResult::Set(_) => OpCode::SetData as i32,
        OpResult::Checked => OpCode::Check as i32,
    }
}
