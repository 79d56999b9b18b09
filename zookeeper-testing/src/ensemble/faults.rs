//! Faults of servers, and access to the true state of an ensemble, for simulations.

use std::time::{Duration, Instant};

use super::settings::nanos;
use super::{Ensemble, Event};
use crate::access;
use crate::committed::Committed;
use crate::terms::{CreateMode, Refused, Stat};
use crate::tree::{ANY, TreeOp};

// ---- connections and faults

impl Ensemble {
    /// Opens a connection to a server. Returns `None` if the server refuses it.
    pub fn connect(&mut self, server: usize, now: Instant) -> Option<u64> {
        self.advance(now);
        self.connect_from(server, "127.0.0.1".to_owned())
    }

    /// Freezes a server until this time. If a leader is frozen for too long, another is elected, and the frozen one
    /// detects that later.
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

    /// Cuts off a server from its leader until this time. A leader that is cut off is deposed.
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

    /// Elects another leader. The old one, and in some cases a follower, continue without a quorum until they detect
    /// that: they answer reads, resume sessions, and may consider some sessions expired. Proposals without a quorum are
    /// either committed by the next leader or lost. Returns false if not enough other servers are available.
    pub fn depose(&mut self, now: Instant) -> bool {
        self.advance(now);
        self.replace_leader()
    }

    /// Makes the leader detect that a session has timed out. Like a write, this takes effect with a transaction.
    pub fn time_out(&mut self, session: i64, now: Instant) {
        self.advance(now);
        if let Some(reign) = self.ruling() {
            self.close(reign, session);
        }
    }

    /// Makes a server apply transactions with this delay while it is not the leader.
    pub fn lag(&mut self, server: usize, by: Duration, now: Instant) {
        self.advance(now);
        self.servers[server].lag = nanos(by);
    }

    /// Ends all faults: starts servers that are down, and reconnects all of them. Until `sync_limit` has passed, a
    /// deposed leader and its followers may still close connections.
    pub fn heal(&mut self, now: Instant) {
        self.advance(now);
        for server in &mut self.servers {
            server.heal();
        }
        self.events.hasten(self.ruling());
        for server in 0..self.servers.len() {
            let known = &mut self.servers[server];
            if std::mem::take(&mut known.frozen_until) > self.events.now {
                self.thaw(server);
            }
            self.come_up(server);
        }
    }

    /// Returns the leader with a quorum, if there is one.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.ruling().map(|reign| self.reigns[reign].leader)
    }

    /// Returns whether a server is up and has a leader, possibly a deposed one, or is one.
    #[must_use]
    pub fn serves(&self, server: usize) -> bool {
        self.servers[server].reign.is_some()
    }
}

// ---- the true state

impl Ensemble {
    /// Returns the transactions committed since the last call, in order. Transactions that changed nothing are left
    /// out.
    pub fn take_committed(&mut self) -> Vec<Committed> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns a node in the state that a quorum has accepted.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Stat, &[u8])> {
        let node = self.tree.node(path, self.committed).ok()?;
        Some((node.stat(), &node.data))
    }

    /// Returns the paths of all nodes below this one, sorted.
    #[must_use]
    pub fn below(&self, path: &str) -> Vec<String> {
        self.tree.below(path, self.committed).map(|path| path.to_string()).collect()
    }

    /// Returns the paths of all nodes whose data or deletion is watched on any server.
    #[must_use]
    pub fn watched(&self) -> Vec<String> {
        self.servers.iter().flat_map(|server| server.watches.data_paths()).cloned().collect()
    }

    /// Returns the sessions that have not ended.
    #[must_use]
    pub fn sessions(&self) -> Vec<i64> {
        self.sessions.keys().copied().collect()
    }
}

// ---- what operators do

impl Ensemble {
    /// Creates a node, with all permissions and without a session.
    ///
    /// # Errors
    ///
    /// The errors of servers, and `ConnectionLoss` while no leader has a quorum.
    pub fn create(&mut self, path: &str, data: &[u8], now: Instant) -> Result<(), Refused> {
        let (acl, mode) = (access::open(), CreateMode::Persistent);
        self.operate(TreeOp::Create { path, data, acl, mode, with_stat: false }, now)
    }

    /// Sets the number of the next sequential node below this node.
    pub fn count_from(&mut self, path: &str, number: i32) {
        self.tree.count_from(path, number);
    }

    /// Sets the data of a node, with all permissions and without a session.
    ///
    /// # Errors
    ///
    /// Like those of [`create`](Self::create).
    pub fn set_data(&mut self, path: &str, data: &[u8], now: Instant) -> Result<(), Refused> {
        self.operate(TreeOp::SetData { path, data, version: ANY }, now)
    }
}
