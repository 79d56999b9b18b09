//! The servers: who follows whom, what each has applied, and how leaders come and go.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::network::{Network, Way};
use super::stage::{Event, NEVER, Stage, Time};
use super::tree::{Transaction, Tree, Write, WriteKind};

pub(super) struct Server {
    /// Does it accept connections?
    pub(super) up: bool,
    pub(super) reign: Option<usize>,
    /// How many transactions it has applied.
    pub(super) applied: usize,
    pub(super) tree: Tree,
    /// Signs of life that its leader has not been told of.
    pub(super) touched: BTreeMap<i64, Time>,
    pub(super) ping_planned: bool,
    pub(super) phase: Time,
    /// What it applies is so late.
    pub(super) lag: Time,
    /// Nothing passes between it and what it follows until then.
    pub(super) cut_until: Time,
    pub(super) frozen_until: Time,
    /// The last message in each direction arrives then.
    pub(super) last_there: Time,
    pub(super) last_back: Time,
    pub(super) hush: bool,
    pub(super) confuse: bool,
}

/// A session as a leader knows it.
#[derive(Debug, Clone)]
pub(super) struct Track {
    pub(super) deadline: Time,
    pub(super) timeout: Time,
    pub(super) closing: bool,
    /// The server that writes of this session may come from.
    pub(super) owner: Option<usize>,
    pub(super) watched: bool,
}

/// The time of one leader.
pub(super) struct Reign {
    pub(super) leader: usize,
    /// Has it a quorum?
    pub(super) rules: bool,
    pub(super) tracks: BTreeMap<i64, Track>,
    pub(super) proposed: VecDeque<Write>,
    pub(super) last_commit: Time,
}

pub(super) struct Ensemble {
    pub(super) servers: Vec<Server>,
    pub(super) reigns: Vec<Reign>,
    /// What a quorum has, each in its order.
    pub(super) log: Vec<Rc<Transaction>>,
    /// All of it applied.
    pub(super) head: Tree,
    pub(super) epoch: i64,
    pub(super) sessions_made: i64,
    /// No server can be reached by the client until then.
    pub(super) isolated_until: Time,
    /// Exist watches were set again where there was no node: what was before is not to be told.
    pub(super) absent: Vec<(String, i64)>,
    /// The servers have forgotten what they had said.
    pub(super) restored: bool,
    /// Sessions that a deposed leader took for expired, and said so.
    pub(super) misjudged: Vec<i64>,
    /// Sessions that were over when a server said so.
    pub(super) judged: Vec<i64>,
    /// Connections that servers did something wrong to, or refused something on.
    pub(super) excused: Vec<usize>,
    /// How often each call's write was carried out, with its session.
    pub(super) done: BTreeMap<u32, (u32, i64)>,
    /// How often each call has reached a server.
    pub(super) reached: BTreeMap<u32, u32>,
}

impl Ensemble {
    pub(super) fn new(stage: &mut Stage) -> Ensemble {
        let hop = stage.world.hop;
        let servers = (0..stage.world.servers()).map(|_| Server {
            up: true,
            reign: None,
            applied: 0,
            tree: Tree::new(),
            touched: BTreeMap::new(),
            ping_planned: false,
            phase: stage.rng.below(stage.world.tick / 2 + 1),
            lag: stage.rng.below(hop + 1),
            cut_until: 0,
            frozen_until: 0,
            last_there: 0,
            last_back: 0,
            hush: false,
            confuse: false,
        });
        let mut ensemble = Ensemble {
            servers: servers.collect(),
            reigns: Vec::new(),
            log: Vec::new(),
            head: Tree::new(),
            epoch: 0,
            sessions_made: 0,
            isolated_until: 0,
            absent: Vec::new(),
            restored: false,
            misjudged: Vec::new(),
            judged: Vec::new(),
            excused: Vec::new(),
            done: BTreeMap::new(),
            reached: BTreeMap::new(),
        };
        let mut network = Network::default();
        ensemble.elect(stage, &mut network, 0, &[]);
        ensemble
    }

    /// The reign that has a quorum.
    pub(super) fn ruling(&self) -> Option<usize> {
        self.reigns.iter().rposition(|reign| reign.rules)
    }

    pub(super) fn leads(&self, server: usize) -> bool {
        self.servers[server].reign.is_some_and(|reign| self.reigns[reign].leader == server)
    }

    /// What a server sends its signs of life and requests to.
    pub(super) fn upstream(&self, stage: &Stage, server: usize) -> Option<usize> {
        let leader = self.reigns[self.servers[server].reign?].leader;
        match stage.world.observer {
            Some(master) if server == stage.world.voters && master != leader => Some(master),
            _ => Some(leader),
        }
    }

    /// When a server hears of its leader again, and does something. Behind another it needs both.
    fn quiet_until(&self, stage: &Stage, server: usize) -> Time {
        let own =
            |server: usize| self.servers[server].cut_until.max(self.servers[server].frozen_until);
        match stage.world.observer {
            Some(master) if server == stage.world.voters => own(server).max(own(master)),
            _ => own(server),
        }
    }

    /// When something sent now between a server and its leader arrives.
    pub(super) fn link(&mut self, stage: &mut Stage, server: usize, there: bool) -> Time {
        let hops = if stage.world.observer_index() == Some(server) { 2 } else { 1 };
        let arrives = stage.now + stage.world.hop * hops + stage.some(stage.world.jitter);
        let arrives = arrives.max(self.quiet_until(stage, server).saturating_add(1));
        let known = &mut self.servers[server];
        let last = if there { &mut known.last_there } else { &mut known.last_back };
        *last = (*last).max(arrives);
        *last
    }

    /// May a message of the reign be taken now? If it is only late, it comes again.
    pub(super) fn hears(
        &self,
        stage: &mut Stage,
        server: usize,
        reign: usize,
        event: &Event,
    ) -> bool {
        let leader = self.reigns[reign].leader;
        let of = |server: usize| self.servers[server].reign == Some(reign);
        let until = self.quiet_until(stage, server);
        if of(server) && until > stage.now {
            stage.at(until, event.clone());
            return false;
        }
        of(server) && of(leader)
    }

    // ---- leaders

    /// A new leader. Those that `stay` follow the old one until they find out.
    pub(super) fn elect(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        leader: usize,
        stay: &[usize],
    ) {
        if let Some(old) = self.ruling() {
            self.settle_proposals(stage, old);
        }
        self.epoch += 1;
        if stage.chance(0.5) {
            self.head.zxid = self.epoch << 32;
            let zxid = self.head.zxid;
            self.log.push(Rc::new(Transaction::nothing(zxid)));
        }
        let reign = self.reigns.len();
        self.reigns.push(Reign {
            leader,
            rules: true,
            tracks: BTreeMap::new(),
            proposed: VecDeque::new(),
            last_commit: stage.now,
        });
        for (session, timeout) in self.head.sessions.clone() {
            self.track(stage, reign, session, timeout, None);
        }
        let limit = stage.world.sync_limit;
        for server in 0..self.servers.len() {
            if !self.servers[server].up {
                continue;
            }
            if stay.contains(&server) {
                let old = self.servers[server].reign.unwrap_or(reign);
                let found_out = stage.some(limit);
                stage.after(found_out, Event::Leave { server, reign: old });
                continue;
            }
            self.stop_serving(stage, network, server);
            if server == leader {
                self.join(stage, server, reign);
            } else {
                let later = stage.some(stage.world.tick);
                stage.after(later, Event::Join { server });
            }
        }
        stage.note(|| format!("server {leader} leads, {stay:?} have not heard of it"));
    }

    /// The server has all there is, and serves.
    pub(super) fn join(&mut self, stage: &mut Stage, server: usize, reign: usize) {
        let known = &mut self.servers[server];
        for transaction in &self.log[known.applied..] {
            known.tree.apply(transaction);
        }
        known.applied = self.log.len();
        known.reign = Some(reign);
        known.touched.clear();
        known.ping_planned = false;
        (known.last_there, known.last_back) = (0, 0);
        stage.note(|| format!("server {server} has joined"));
    }

    /// A server that could follow whoever rules does.
    pub(super) fn try_to_join(&mut self, stage: &mut Stage, server: usize) {
        let known = &self.servers[server];
        if !known.up || known.reign.is_some() {
            return;
        }
        let master = stage.world.observer.filter(|_| server == stage.world.voters);
        let ready = match self.ruling() {
            Some(reign) if known.cut_until <= stage.now => {
                let ready = master.is_none_or(|master| self.servers[master].reign == Some(reign));
                ready.then_some(reign)
            }
            _ => None,
        };
        match ready {
            Some(reign) => self.join(stage, server, reign),
            None => {
                let later = stage.world.tick / 2 + 1;
                stage.after(later, Event::Join { server });
            }
        }
    }

    /// The server has lost its leader, and hangs up on everybody.
    pub(super) fn leave(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        server: usize,
        reign: usize,
    ) {
        if self.servers[server].reign != Some(reign) {
            return;
        }
        stage.note(|| format!("server {server} has lost its leader"));
        self.stop_serving(stage, network, server);
        let later = stage.some(stage.world.tick);
        stage.after(later, Event::Join { server });
        // Whoever is behind it goes with it.
        if stage.world.observer == Some(server)
            && self.servers[stage.world.voters].reign == Some(reign)
        {
            self.leave(stage, network, stage.world.voters, reign);
        }
    }

    pub(super) fn stop_serving(&mut self, stage: &mut Stage, network: &mut Network, server: usize) {
        self.servers[server].reign = None;
        for conn in 0..network.conns.len() {
            if network.conns[conn].server == server {
                self.hang_up(stage, network, conn);
            }
        }
    }

    /// The server ends a connection, behind what it has sent on it.
    pub(super) fn hang_up(&mut self, stage: &mut Stage, network: &mut Network, conn: usize) {
        let known = &mut network.conns[conn];
        if std::mem::take(&mut known.open_there) {
            known.due.clear();
            network.end(stage, conn, Way::Down);
        }
    }

    /// The server dies, and its connections with it.
    pub(super) fn crash(&mut self, stage: &mut Stage, network: &mut Network, server: usize) {
        stage.note(|| format!("server {server} is down"));
        self.servers[server].up = false;
        for conn in 0..network.conns.len() {
            let known = &mut network.conns[conn];
            if known.server == server && known.open_there {
                known.open_there = false;
                known.due.clear();
                match stage.chance(0.7) {
                    true => network.tear(stage, conn, Way::Down),
                    false => network.dig(conn, Way::Down, NEVER),
                }
            }
        }
        self.servers[server].reign = None;
    }
}

impl Ensemble {
    /// Nobody rules: whoever followed finds out soon.
    pub(super) fn abdicate(&mut self, stage: &mut Stage) {
        let Some(old) = self.ruling() else {
            return;
        };
        self.settle_proposals(stage, old);
        for server in 0..self.servers.len() {
            if let Some(reign) = self.servers[server].reign {
                let found_out = stage.some(stage.world.tick);
                stage.after(found_out, Event::Leave { server, reign });
            }
        }
    }

    /// What a leader has proposed is either in the log of those who elect the next, or nowhere.
    fn settle_proposals(&mut self, stage: &mut Stage, old: usize) {
        let proposed = std::mem::take(&mut self.reigns[old].proposed);
        self.reigns[old].rules = false;
        let survive = stage.rng.below(proposed.len() as u64 + 1) as usize;
        for write in proposed.into_iter().take(survive) {
            self.append(stage, write);
        }
    }

    /// A quorum that is up and has no leader elects one.
    pub(super) fn elect_if_possible(&mut self, stage: &mut Stage, network: &mut Network) {
        if self.ruling().is_some() {
            return;
        }
        let up: Vec<usize> =
            (0..stage.world.voters).filter(|&voter| self.servers[voter].up).collect();
        if up.len() > stage.world.voters / 2 {
            let leader = up[stage.rng.below(up.len() as u64) as usize];
            self.elect(stage, network, leader, &[]);
        }
    }

    pub(super) fn start(&mut self, stage: &mut Stage, network: &mut Network, server: usize) {
        self.servers[server].up = true;
        self.try_to_join(stage, server);
        self.elect_if_possible(stage, network);
    }

    /// All servers have what they had once, and nothing later.
    pub(super) fn restore(&mut self, stage: &mut Stage) {
        stage.figures.restores += 1;
        self.restored = true;
        let opened = |done: &Rc<Transaction>| matches!(done.write.kind, WriteKind::Open(_));
        let first = self.log.iter().position(opened).unwrap_or(0);
        let kept = match stage.world.keeps_session {
            true => first + 1,
            false => stage.some(first as Time + 1) as usize,
        };
        self.log.truncate(kept);
        self.head = Tree::new();
        self.epoch = 0;
        for done in &self.log {
            self.head.apply(done);
        }
        for server in &mut self.servers {
            (server.tree, server.applied) = (self.head.clone(), self.log.len());
        }
    }
}
