//! An ensemble of servers without threads, sockets or clocks. Its inputs are bytes and instants; its outputs are bytes,
//! ends of connections, and the next instant. A seed determines everything else.
//!
//! The servers behave like ZooKeeper's. Only the leader expires sessions and validates writes. Followers lag, report
//! their sessions' signs of life twice per tick, and answer reads by themselves, even after their leader was deposed. A
//! `Server` is an ensemble of one.

mod chance;
mod events;
mod faults;
mod following;
mod leading;
mod serving;
mod settings;
#[cfg(test)]
mod tests;
mod watching;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::committed::{Change, ChangeKind, Committed};
pub use crate::terms::{Refused, Stat};
use crate::tree::{ANY, Tree, TreeOp};
use chance::Chance;
use events::{Event, Events};
use following::Member;
use leading::{Reign, Transaction};
pub(crate) use serving::LONGEST;
use serving::ServerConnection;
pub use settings::Settings;
use settings::Time;

/// What has to be sent on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A frame.
    Bytes(Vec<u8>),
    /// The end of the connection. All earlier frames are sent before.
    End,
}

/// The servers, their connections, and the pending events.
#[derive(Debug)]
pub struct Ensemble {
    settings: Settings,
    start: Instant,
    events: Events,
    chance: Chance,
    servers: Vec<Member>,
    reigns: Vec<Reign>,
    tree: Tree,
    /// Transactions that a quorum has accepted, but that some server has not applied yet.
    log: VecDeque<Arc<Transaction>>,
    dropped: usize,
    /// The last transaction that a quorum has accepted, and the last one that was proposed.
    committed: i64,
    proposed: i64,
    epoch: i64,
    /// The sessions known to a quorum, with their timeouts.
    sessions: BTreeMap<i64, Time>,
    last_session: i64,
    connections: BTreeMap<u64, ServerConnection>,
    last_connection: u64,
    /// Sessions whose connections are broken as soon as they are opened.
    suspended: BTreeSet<i64>,
    outgoing: Vec<(u64, Outgoing)>,
    /// The committed transactions, if the settings require that they are recorded.
    recorded: Option<Vec<Committed>>,
}

impl Ensemble {
    /// Creates an ensemble whose servers are all up and have a leader.
    #[must_use]
    pub fn new(settings: Settings, seed: u64, now: Instant) -> Ensemble {
        let mut chance = Chance::new(seed);
        let servers = (0..settings.servers).map(|_| Member::new(&settings, &mut chance)).collect();
        let mut ensemble = Ensemble {
            start: now,
            events: Events::default(),
            chance,
            servers,
            reigns: Vec::new(),
            tree: Tree::new(),
            log: VecDeque::new(),
            dropped: 0,
            committed: 0,
            proposed: 0,
            epoch: 0,
            sessions: BTreeMap::new(),
            last_session: 0x1_0000_0000,
            connections: BTreeMap::new(),
            last_connection: 0,
            suspended: BTreeSet::new(),
            outgoing: Vec::new(),
            recorded: settings.recorded.then(Vec::new),
            settings,
        };
        ensemble.elect(0, &[]);
        ensemble.plan_sweep();
        ensemble
    }

    // ---- time

    fn time(&self, at: Instant) -> Time {
        at.saturating_duration_since(self.start).as_nanos() as Time
    }

    /// Returns the time in milliseconds since 1970.
    fn wall(&self) -> i64 {
        self.settings.wall + (self.events.now / 1_000_000) as i64
    }

    /// Returns the latest instant by which [`advance`](Self::advance) must be called.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.events.next().map(|time| self.start + Duration::from_nanos(time))
    }

    /// Executes everything that is due by now.
    pub fn advance(&mut self, now: Instant) {
        let now = self.time(now);
        while let Some(event) = self.events.take(now) {
            self.happen(event);
        }
        self.events.now = self.events.now.max(now);
    }

    fn happen(&mut self, event: Event) {
        if let Some((server, reign)) = event.parties() {
            let until = self.quiet_until(server);
            let of = |server: usize| self.servers[server].reign == Some(reign);
            if !of(server) || !of(self.reigns[reign].leader) {
                return;
            }
            if until > self.events.now {
                return self.events.at(until, event);
            }
        }
        match event {
            Event::Applied { server, upto, .. } => self.apply(server, upto),
            Event::Pinged { server, reign } => self.pinged(server, reign),
            Event::Heard { reign, touched, .. } => {
                for (session, timeout) in touched {
                    self.touch(reign, session, timeout);
                }
            }
            Event::Forwarded { reign, asked, .. } => self.prepare(reign, asked),
            Event::Revalidate { server, reign, connection, session, timeout } => {
                let lives = self.revalidate(server, reign, session, timeout);
                let at = self.link(server, false);
                self.events.at(at, Event::Revalidated { server, reign, connection, lives });
            }
            Event::Revalidated { connection, lives, .. } => self.resumed(connection, lives),
            Event::Synced { server, upto, connection, number, .. } => {
                self.apply(server, upto);
                self.synced(connection, number);
            }
            Event::Commit { reign } => self.commit_due(reign),
            Event::Expiry { reign, session } => self.expiry(reign, session),
            Event::Leave { server, reign } => self.leave(server, reign),
            Event::Join { server } => self.try_to_join(server),
            Event::Elect => self.elect_if_possible(),
            Event::Sweep => self.sweep(),
            Event::Thaw { server } => self.thaw(server),
            Event::Abandon { reign } => self.abandon(reign),
        }
    }

    // ---- connections

    /// Opens a connection from this address to this server.
    pub(super) fn connect_from(&mut self, server: usize, ip: String) -> Option<u64> {
        if !self.servers[server].up {
            return None;
        }
        self.last_connection += 1;
        self.connections.insert(self.last_connection, ServerConnection::new(server, ip));
        Some(self.last_connection)
    }

    /// Handles that the client has closed the connection.
    pub fn hang_up(&mut self, connection: u64, now: Instant) {
        self.advance(now);
        match self.connections.get(&connection).map(|known| known.server) {
            Some(server) if self.is_frozen(server) => {
                self.servers[server].held.push_back((connection, None));
            }
            _ => self.forget(connection),
        }
    }

    /// Returns what the servers have sent since the last call, in order.
    pub fn take_outgoing(&mut self) -> Vec<(u64, Outgoing)> {
        std::mem::take(&mut self.outgoing)
    }

    fn send(&mut self, connection: u64, frame: Vec<u8>) {
        self.outgoing.push((connection, Outgoing::Bytes(frame)));
    }

    /// Closes a connection at the server's end.
    fn end(&mut self, connection: u64) {
        if self.connections.contains_key(&connection) {
            self.outgoing.push((connection, Outgoing::End));
            self.forget(connection);
        }
    }

    fn forget(&mut self, connection: u64) {
        if let Some(known) = self.connections.remove(&connection) {
            self.servers[known.server].watches.forget(connection);
            if let (true, Some(reign)) = (self.settings.keeper, self.ruling()) {
                self.close(reign, known.session);
            }
        }
    }

    fn connections_of(&self, server: usize) -> Vec<u64> {
        let own = self.connections.iter().filter(|(_, known)| known.server == server);
        own.map(|(id, _)| *id).collect()
    }

    fn connections_with(&self, server: usize, session: i64) -> Vec<u64> {
        let is_its = |known: &ServerConnection| known.server == server && known.session == session;
        let own = self.connections.iter().filter(|(_, known)| is_its(known));
        own.map(|(id, _)| *id).collect()
    }

    // ---- what operators and others do

    /// Breaks the connections of a session, and every new one, until [`resume`](Self::resume) is called.
    pub fn suspend(&mut self, session: i64, now: Instant) {
        self.advance(now);
        self.suspended.insert(session);
        self.cut(session);
    }

    /// Accepts connections of a suspended session again.
    pub fn resume(&mut self, session: i64) {
        self.suspended.remove(&session);
    }

    fn cut(&mut self, session: i64) {
        for server in 0..self.servers.len() {
            for connection in self.connections_with(server, session) {
                self.end(connection);
            }
        }
    }

    /// Returns the leader that can execute a change immediately, or `None` while all servers are down, when their files
    /// can be changed instead.
    fn operable(&self) -> Result<Option<usize>, Refused> {
        if self.servers.iter().all(|server| !server.up) {
            return Ok(None);
        }
        let reign = self.ruling().filter(|reign| self.has_quorum(*reign));
        reign.map(Some).ok_or(Refused::CONNECTION_LOSS)
    }

    /// Ends a session early, as operators can. If a leader has a quorum, this takes effect immediately.
    pub fn expire(&mut self, session: i64, now: Instant) {
        self.advance(now);
        match self.operable() {
            Ok(Some(reign)) => {
                self.commit_all(reign);
                self.close(reign, session);
                self.commit_all(reign);
            }
            Ok(None) if self.sessions.contains_key(&session) => {
                let transaction = self.ending(session);
                self.append(transaction);
                self.settle();
            }
            _ => {}
        }
    }

    /// Executes a change immediately, for an operator who has all permissions and no session.
    pub(super) fn operate(&mut self, op: TreeOp<'_>, now: Instant) -> Result<(), Refused> {
        self.advance(now);
        let reign = self.operable()?;
        if let Some(reign) = reign {
            self.commit_all(reign);
        }
        let transaction = self.operation(op)?;
        match reign {
            Some(reign) => {
                self.propose(reign, transaction);
                self.commit_all(reign);
            }
            None => {
                self.append(transaction);
                self.settle();
            }
        }
        Ok(())
    }

    /// Deletes a node, whatever its ACL.
    ///
    /// # Errors
    ///
    /// The errors of servers, and `ConnectionLoss` while no leader has a quorum.
    pub fn delete(&mut self, path: &str, now: Instant) -> Result<(), Refused> {
        self.operate(TreeOp::Delete { path, version: ANY }, now)
    }

    /// Kills a server, which breaks its connections.
    pub fn crash(&mut self, server: usize, now: Instant) {
        self.advance(now);
        self.go_down(server);
    }

    /// Starts a server that is down. If there was no leader, all sessions have their full timeout again.
    pub fn start(&mut self, server: usize, now: Instant) {
        self.advance(now);
        self.come_up(server);
    }
}
