//! What goes wrong with servers, and what really is: for simulations.

use std::time::{Duration, Instant};

use super::super::committed::Committed;
use super::super::tree::{ANY, TreeOp};
use super::settings::nanos;
use super::{Ensemble, Event};
use crate::acl::Acl;
use crate::error::{Error, Result};
use crate::types::{CreateMode, Stat};

// ---- connections and faults

impl Ensemble {
    /// A connection to this server; none if it refuses it.
    pub fn connect(&mut self, server: usize, now: Instant) -> Option<u64> {
        self.advance(now);
        self.connect_from(server, "127.0.0.1".to_owned())
    }

    /// The server does nothing until then. A leader for which that is too long is replaced, and finds out later.
    pub fn freeze(&mut self, server: usize, until: Instant, now: Instant) {
        self.advance(now);
        let until = self.time(until);
        let known = &mut self.servers[server];
        if !known.up || until <= known.frozen_until {
            return;
        }
        known.frozen_until = until;
        self.events.at(until, Event::Thaw { server });
        if let Some(reign) = self.ruling().filter(|_| self.leads(server)) {
            self.events.after(nanos(self.settings.sync_limit), Event::Abandon { reign });
        }
    }

    /// The server and its leader hear nothing of each other until then. One that leads is deposed.
    pub fn cut_off(&mut self, server: usize, until: Instant, now: Instant) {
        self.advance(now);
        let until = self.time(until);
        let Some(reign) = self.servers[server].reign else {
            return;
        };
        if self.leads(server) {
            self.replace_leader();
            return;
        }
        let known = &mut self.servers[server];
        known.cut_until = known.cut_until.max(until);
        let limit = nanos(self.settings.sync_limit);
        let gives_up = self.events.now + limit / 2 + self.chance.below(limit / 2 + 1);
        if gives_up < until {
            self.events.at(gives_up, Event::Leave { server, reign });
        }
    }

    /// Another leader is elected. The old one, and perhaps one that follows it, go on without a quorum until they
    /// find out: they answer reads, resume sessions, and may take some for expired. Proposals that no quorum had
    /// are committed by the next leader, or never. False if there are not enough others.
    pub fn depose(&mut self, now: Instant) -> bool {
        self.advance(now);
        self.replace_leader()
    }

    /// What the server applies is late by so much, unless it leads.
    pub fn lag(&mut self, server: usize, by: Duration, now: Instant) {
        self.advance(now);
        self.servers[server].lag = nanos(by);
    }

    /// All faults end: servers that are down start, and all of them hear each other. A leader that was deposed, and
    /// whoever was about to leave one, may still hang up until `sync_limit` is over.
    pub fn heal(&mut self, now: Instant) {
        self.advance(now);
        for server in &mut self.servers {
            server.heal();
        }
        self.events.hasten();
        for server in 0..self.servers.len() {
            let known = &mut self.servers[server];
            if std::mem::take(&mut known.frozen_until) > self.events.now {
                self.thaw(server);
            }
            self.come_up(server);
        }
    }

    /// The server that leads, if there is one with a quorum.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.ruling().map(|reign| self.reigns[reign].leader)
    }

    /// Whether a server is up and follows a leader, or is one: deposed or not.
    #[must_use]
    pub fn serves(&self, server: usize) -> bool {
        self.servers[server].reign.is_some()
    }
}

// ---- what really is

impl Ensemble {
    /// What was committed since it was called last, in its order, without what has changed nothing.
    pub fn take_committed(&mut self) -> Vec<Committed> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A node as a quorum has it.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Stat, &[u8])> {
        let node = self.tree.node(path, self.committed).ok()?;
        Some((node.stat(), &node.data))
    }

    /// The paths of all nodes below this one, sorted.
    #[must_use]
    pub fn below(&self, path: &str) -> Vec<String> {
        self.tree.below(path, self.committed).map(|path| path.to_string()).collect()
    }

    /// The paths of all nodes that are watched for their data or their end, on any server.
    #[must_use]
    pub fn watched(&self) -> Vec<String> {
        self.servers.iter().flat_map(|server| server.watches.data_paths()).cloned().collect()
    }

    /// The sessions that are not over.
    #[must_use]
    pub fn sessions(&self) -> Vec<i64> {
        self.sessions.keys().copied().collect()
    }
}

// ---- what operators do

impl Ensemble {
    /// Creates a node as somebody who may do everything, in no session.
    ///
    /// # Errors
    ///
    /// Those of servers, and `ConnectionLoss` while no leader has a quorum.
    pub fn create(&mut self, path: &str, data: &[u8], now: Instant) -> Result<()> {
        let (acl, mode) = (Acl::open().into(), CreateMode::Persistent);
        let created = self.operate(TreeOp::Create { path, data, acl, mode }, now);
        created.map_err(|kind| Error::from(kind).of("create", path))
    }

    /// The next sequential node below this one has this number, as if so many had been made there before.
    pub fn count_from(&mut self, path: &str, number: i32) {
        self.tree.count_from(path, number);
    }

    /// Sets the data of a node, likewise.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn set_data(&mut self, path: &str, data: &[u8], now: Instant) -> Result<()> {
        let set = self.operate(TreeOp::SetData { path, data, version: ANY }, now);
        set.map_err(|kind| Error::from(kind).of("set the data of", path))
    }
}
