//! The members of an ensemble: what each has applied, which leader it follows, and how leaders change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::chance::Chance;
use super::leading::{Kind, Reign, Transaction};
use super::settings::nanos;
use super::watching::ServerWatches;
use super::{Ensemble, Event, Outgoing, Settings, Time};
use crate::access::Acl;
use crate::answers;
use crate::terms::EventType;

#[derive(Debug)]
pub(super) struct Member {
    /// Whether the server accepts connections.
    pub(super) up: bool,
    pub(super) reign: Option<usize>,
    /// How many transactions the server has applied, and the id of the last one.
    pub(super) applied: usize,
    pub(super) zxid: i64,
    pub(super) watches: ServerWatches,
    /// Signs of life of sessions that have not reached the leader yet.
    pub(super) touched: BTreeMap<i64, Time>,
    pub(super) is_ping_planned: bool,
    /// The time within each half of a tick at which the leader requests the signs of life.
    phase: Time,
    /// The delay with which the server applies transactions.
    pub(super) lag: Time,
    /// Until this time, no message passes between the server and its leader.
    pub(super) cut_until: Time,
    /// Until this time, the server does nothing, and `held` keeps its input. `None` means that a connection has ended.
    pub(super) frozen_until: Time,
    pub(super) held: VecDeque<(u64, Option<Vec<u8>>)>,
    /// When the last message to the leader, and the last one from it, will arrive.
    last_there: Time,
    last_back: Time,
}

impl Member {
    pub(super) fn new(settings: &Settings, chance: &mut Chance) -> Member {
        Member {
            up: true,
            reign: None,
            applied: 0,
            zxid: 0,
            watches: ServerWatches::default(),
            touched: BTreeMap::new(),
            is_ping_planned: false,
            phase: chance.below(settings.tick() / 2),
            lag: 0,
            cut_until: 0,
            frozen_until: 0,
            held: VecDeque::new(),
            last_there: 0,
            last_back: 0,
        }
    }

    /// Ends all delays between the server and its leader.
    pub(super) fn heal(&mut self) {
        (self.lag, self.cut_until) = (0, 0);
        (self.last_there, self.last_back) = (0, 0);
    }
}

impl Ensemble {
    /// Returns the reign with a quorum, if there is one.
    pub(super) fn ruling(&self) -> Option<usize> {
        self.reigns.iter().rposition(|reign| reign.rules)
    }

    pub(super) fn leads(&self, server: usize) -> bool {
        self.servers[server].reign.is_some_and(|reign| self.reigns[reign].leader == server)
    }

    pub(super) fn is_frozen(&self, server: usize) -> bool {
        self.servers[server].frozen_until > self.events.now
    }

    /// Returns from when on messages can pass between a server and its leader.
    pub(super) fn quiet_until(&self, server: usize) -> Time {
        let known = &self.servers[server];
        let leader = known.reign.map_or(server, |reign| self.reigns[reign].leader);
        known.cut_until.max(known.frozen_until).max(self.servers[leader].frozen_until)
    }

    /// Returns when a message between a server and its leader will arrive if it is sent now.
    pub(super) fn link(&mut self, server: usize, there: bool) -> Time {
        let jitter = self.chance.below(nanos(self.settings.jitter));
        let arrives = self.events.now + nanos(self.settings.hop) + jitter;
        let arrives = arrives.max(self.quiet_until(server).saturating_add(1));
        let known = &mut self.servers[server];
        let last = if there { &mut known.last_there } else { &mut known.last_back };
        *last = (*last).max(arrives);
        *last
    }

    fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// Returns the servers that would be able to follow a new leader.
    pub(super) fn able(&self) -> Vec<usize> {
        let is_able = |server: &usize| {
            let known = &self.servers[*server];
            known.up && known.frozen_until.max(known.cut_until) <= self.events.now
        };
        (0..self.servers.len()).filter(is_able).collect()
    }

    /// Returns whether messages of the leader currently reach enough servers.
    pub(super) fn has_quorum(&self, reign: usize) -> bool {
        let hears = |server: &usize| {
            self.servers[*server].reign == Some(reign)
                && self.quiet_until(*server) <= self.events.now
        };
        (0..self.servers.len()).filter(hears).count() >= self.majority()
    }

    // ---- leaders

    /// Begins the reign of a new leader. The servers in `stay` follow the old one until they detect the change.
    pub(super) fn elect(&mut self, leader: usize, stay: &[usize]) {
        if let Some(old) = self.ruling() {
            self.settle_proposals(old);
        }
        let reign = self.reigns.len();
        self.reigns.push(Reign::new(leader, self.events.now));
        if self.servers.len() > 1 {
            self.epoch += 1;
            self.proposed = self.proposed.max(self.epoch << 32);
            // Whether this counts as the last transaction is left open.
            if self.chance.is(0.5) {
                self.append(Transaction::nothing(self.proposed));
            }
        }
        for (session, timeout) in self.sessions.clone() {
            self.track(reign, session, timeout, None);
        }
        let mut missing = self.majority() - 1;
        for server in 0..self.servers.len() {
            if !self.servers[server].up {
                continue;
            }
            if stay.contains(&server) {
                let old = self.servers[server].reign.unwrap_or(reign);
                let found_out = self.chance.below(nanos(self.settings.sync_limit));
                self.events.after(found_out, Event::Leave { server, reign: old });
                continue;
            }
            self.stop_serving(server);
            let known = &self.servers[server];
            let is_able = known.frozen_until.max(known.cut_until) <= self.events.now;
            if server == leader {
                self.join(server, reign);
            } else if missing > 0 && is_able {
                missing -= 1;
                self.join(server, reign);
            } else {
                let later = self.chance.below(self.settings.tick());
                self.events.after(later, Event::Join { server });
            }
        }
    }

    /// Updates a server to the leader's state, after which it serves clients.
    fn join(&mut self, server: usize, reign: usize) {
        let upto = self.dropped + self.log.len();
        let known = &mut self.servers[server];
        (known.applied, known.zxid, known.reign) = (upto, self.committed, Some(reign));
        known.touched.clear();
        known.is_ping_planned = false;
        (known.last_there, known.last_back) = (0, 0);
    }

    /// Makes a server follow the current leader if that is possible.
    pub(super) fn try_to_join(&mut self, server: usize) {
        let known = &self.servers[server];
        if !known.up || known.reign.is_some() {
            return;
        }
        let is_able = known.frozen_until.max(known.cut_until) <= self.events.now;
        match self.ruling().filter(|_| is_able) {
            Some(reign) => self.join(server, reign),
            None => self.events.after(self.settings.tick() / 2 + 1, Event::Join { server }),
        }
    }

    /// Makes a server leave its leader and close all connections.
    pub(super) fn leave(&mut self, server: usize, reign: usize) {
        let frozen_until = self.servers[server].frozen_until;
        if self.servers[server].reign != Some(reign) {
            return;
        }
        if frozen_until > self.events.now {
            let found_out = frozen_until + self.chance.below(self.settings.tick() / 2);
            return self.events.at(found_out, Event::Leave { server, reign });
        }
        self.stop_serving(server);
        let later = self.chance.below(self.settings.tick());
        self.events.after(later, Event::Join { server });
        let follows = |server: &Member| server.reign == Some(reign);
        let left = self.servers.iter().filter(|server| follows(server)).count();
        let has_leader = follows(&self.servers[self.reigns[reign].leader]);
        if self.reigns[reign].rules && (left < self.majority() || !has_leader) {
            self.abdicate();
        }
    }

    fn stop_serving(&mut self, server: usize) {
        self.servers[server].reign = None;
        for connection in self.connections_of(server) {
            self.end(connection);
        }
        self.servers[server].watches.clear();
        self.settle();
    }

    pub(super) fn go_down(&mut self, server: usize) {
        if !self.servers[server].up {
            return;
        }
        let reign = self.servers[server].reign;
        self.stop_serving(server);
        let known = &mut self.servers[server];
        known.up = false;
        known.held.clear();
        (known.frozen_until, known.cut_until) = (0, 0);
        let Some(reign) = reign.filter(|reign| self.reigns[*reign].rules) else {
            return;
        };
        let follows = |server: &&Member| server.reign == Some(reign);
        let left = self.servers.iter().filter(follows).count();
        if self.reigns[reign].leader == server || left < self.majority() {
            self.abdicate();
        }
    }

    pub(super) fn come_up(&mut self, server: usize) {
        if !std::mem::replace(&mut self.servers[server].up, true) {
            self.try_to_join(server);
            self.elect_if_possible();
        }
    }

    /// Ends a reign. Its followers detect that soon.
    fn abdicate(&mut self) {
        let Some(old) = self.ruling() else {
            return;
        };
        self.settle_proposals(old);
        let tick = self.settings.tick();
        for server in 0..self.servers.len() {
            if let Some(reign) = self.servers[server].reign {
                let found_out = self.chance.below(tick);
                self.events.after(found_out, Event::Leave { server, reign });
            }
        }
        let later = self.chance.below(tick * 2);
        self.events.after(later, Event::Elect);
    }

    /// Elects a leader if there is none and enough servers are up.
    pub(super) fn elect_if_possible(&mut self) {
        if self.ruling().is_some() {
            return;
        }
        let able = self.able();
        match able.len() >= self.majority() {
            true => {
                let leader = able[self.chance.below(able.len() as u64) as usize];
                self.elect(leader, &[]);
            }
            // Otherwise, a server that starts will try again.
            false if self.servers.iter().all(|server| !server.up) => {}
            false => self.events.after(self.settings.tick(), Event::Elect),
        }
    }

    /// Gives another server the quorum, without notifying the leader. Returns false if no other server can have a
    /// quorum.
    pub(super) fn replace_leader(&mut self) -> bool {
        let Some(old) = self.ruling() else {
            return false;
        };
        let leader = self.reigns[old].leader;
        let mut others = self.able();
        others.retain(|other| *other != leader);
        if others.len() < self.majority() {
            return false;
        }
        let mut stay = vec![leader];
        let new = others[self.chance.below(others.len() as u64) as usize];
        let follower =
            others.iter().find(|&&other| other != new && self.servers[other].reign == Some(old));
        if let Some(&follower) = follower
            && others.len() > self.majority()
            && self.chance.is(0.7)
        {
            stay.push(follower);
        }
        self.elect(new, &stay);
        true
    }

    /// Deposes a leader that has been frozen for too long.
    pub(super) fn abandon(&mut self, reign: usize) {
        let leader = self.reigns[reign].leader;
        if self.reigns[reign].rules && self.is_frozen(leader) {
            self.replace_leader();
        }
    }

    // ---- transactions

    /// Applies committed transactions up to and including this one.
    pub(super) fn apply(&mut self, server: usize, upto: usize) {
        while self.servers[server].applied < upto {
            let known = &mut self.servers[server];
            let done = Arc::clone(&self.log[known.applied - self.dropped]);
            known.applied += 1;
            known.zxid = done.zxid;
            self.fire(server, &done);
            self.answer_own(server, &done);
        }
        self.settle();
    }

    /// Drops transactions that all servers have applied.
    pub(super) fn settle(&mut self) {
        let serving = self.servers.iter().filter(|server| server.reign.is_some());
        let end = (self.dropped + self.log.len(), self.committed);
        let (applied, zxid) = serving
            .fold(end, |least, server| (least.0.min(server.applied), least.1.min(server.zxid)));
        while self.dropped < applied {
            self.log.pop_front();
            self.dropped += 1;
        }
        self.tree.forget(zxid);
    }

    fn fire(&mut self, server: usize, done: &Transaction) {
        for step in &done.steps {
            let (path, watches) = (&step.change.path, &mut self.servers[server].watches);
            let watching = match step.event() {
                None => Vec::new(),
                Some(EventType::Deleted) => watches.take_all(path),
                Some(_) => watches.take_data(path),
            };
            for (event, connection) in step.event().into_iter().cycle().zip(watching) {
                self.tell(connection, done.zxid, event, path, &step.acl);
            }
            if let Some((parent, acl)) = &step.parent {
                for connection in self.servers[server].watches.take_child(parent) {
                    let event = EventType::ChildrenChanged;
                    self.tell(connection, done.zxid, event, parent, acl);
                }
            }
        }
    }

    /// Answers the client that requested this transaction, and closes the connections of a session that has ended.
    fn answer_own(&mut self, server: usize, done: &Transaction) {
        if let Some(origin) = done.origin.filter(|origin| origin.server == server) {
            match done.kind {
                Kind::Open(_) => self.resumed(origin.connection, true),
                _ => self.written(origin.connection, origin.number, &done.answer),
            }
        }
        if matches!(done.kind, Kind::Close) {
            for connection in self.connections_with(server, done.session) {
                self.end(connection);
            }
        }
    }

    // ---- signs of life

    pub(super) fn sign_of_life(&mut self, server: usize, session: i64, timeout: Time) {
        let Some(reign) = self.servers[server].reign else {
            return;
        };
        if self.leads(server) {
            self.touch(reign, session, timeout);
            return;
        }
        self.servers[server].touched.insert(session, timeout);
        self.plan_ping(server, reign);
    }

    /// Schedules the next ping. Pings are due every half tick; pings that would have no content are skipped.
    fn plan_ping(&mut self, server: usize, reign: usize) {
        let known = &mut self.servers[server];
        if std::mem::replace(&mut known.is_ping_planned, true) {
            return;
        }
        let half = (self.settings.tick() / 2).max(1);
        let past = (self.events.now + half - known.phase) / half;
        let at = past * half + known.phase;
        self.events.at(at, Event::Pinged { server, reign });
    }

    /// Answers a ping with all signs of life since the previous ping.
    pub(super) fn pinged(&mut self, server: usize, reign: usize) {
        self.servers[server].is_ping_planned = false;
        let touched = std::mem::take(&mut self.servers[server].touched);
        let at = self.link(server, true);
        self.events.at(at, Event::Heard { server, reign, touched: touched.into_iter().collect() });
    }

    // ---- messages to clients

    /// Notifies the watches of a change. They end even if their client must not be notified.
    fn tell(&mut self, connection: u64, zxid: i64, event: EventType, path: &str, acl: &[Acl]) {
        if self.may_know(connection, acl) {
            self.tell_anyway(connection, zxid, event, path);
        }
    }

    pub(super) fn tell_anyway(&mut self, connection: u64, zxid: i64, event: EventType, path: &str) {
        let zxid = if self.settings.numbered_events { zxid } else { -1 };
        self.outgoing.push((connection, Outgoing::Bytes(answers::event(zxid, event, path))));
    }
}
