//! What servers do for the client: handshakes, and requests in their order.

use super::super::served;
use super::codec::{self, Asked, NOBODY, Op};
use super::ensemble::Ensemble;
use super::network::{Conn, Network, Way};
use super::stage::{Event, Property, Stage, Time};
use super::tree::{Origin, Write, WriteKind};

/// A request whose answer is due, in its turn.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) number: u64,
    asked: Asked,
    /// The code, once it is known; reads have none before their turn.
    pub(super) ready: Option<i32>,
    is_write: bool,
}

impl Ensemble {
    /// Bytes have come.
    pub(super) fn come(&mut self, stage: &mut Stage, network: &mut Network, conn: usize) {
        let server = network.conns[conn].server;
        let frozen = self.servers[server].frozen_until;
        if frozen > stage.now && self.servers[server].up {
            return stage.at(frozen, Event::Up(conn));
        }
        let Some(bytes) = network.take(stage, conn, Way::Up) else {
            return;
        };
        let known = &mut network.conns[conn];
        if !known.open_there {
            return;
        }
        if bytes.is_empty() {
            return self.hang_up(stage, network, conn);
        }
        known.come.extend(bytes);
        let mut come = std::mem::take(&mut known.come);
        let mut start = 0;
        while let Some(length) = come.get(start..start + 4) {
            let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            let Some(frame) = come.get(start + 4..start + 4 + length) else {
                break;
            };
            if !network.conns[conn].open_there {
                break;
            }
            match network.conns[conn].greeted {
                false => self.greet(stage, network, conn, frame),
                true => self.asked(stage, network, conn, frame),
            }
            start += 4 + length;
        }
        come.drain(..start);
        network.conns[conn].come = come;
    }

    // ---- handshakes

    fn greet(&mut self, stage: &mut Stage, network: &mut Network, conn: usize, frame: &[u8]) {
        let server = network.conns[conn].server;
        let greeting = served::greeting(frame).expect("a ConnectRequest");
        network.conns[conn].greeted = true;
        let Some(reign) = self.servers[server].reign else {
            return self.hang_up(stage, network, conn);
        };
        if std::mem::take(&mut self.servers[server].hush) {
            stage.figures.hushed += 1;
            return;
        }
        if greeting.zxid > self.servers[server].tree.zxid {
            stage.figures.refused_as_behind += 1;
            stage.note(|| format!("server {server} is behind {:x} and hangs up", greeting.zxid));
            return self.hang_up(stage, network, conn);
        }
        let timeout = greeting.timeout as Time * 1000;
        let timeout = timeout.clamp(stage.world.tick * 2, stage.world.tick * 20);
        stage.figures.asked += u64::from(greeting.session != 0 && greeting.zxid == 0);
        let known = &mut network.conns[conn];
        known.granted = timeout / 1000 * 1000;
        if greeting.session == 0 {
            self.sessions_made += 1;
            known.session = self.sessions_made << 8 | server as i64 | 0x1_0000_0000;
            let (session, timeout) = (known.session, known.granted);
            let origin = Some(Origin { server, conn, due: 0 });
            let path = String::new();
            let kind = WriteKind::Open(timeout);
            return self.forward(stage, server, Write { origin, session, kind, path, tag: NOBODY });
        }
        let session = greeting.session;
        let others = 0..network.conns.len();
        for other in others.filter(|&other| other != conn) {
            let known = &network.conns[other];
            if known.server == server && known.session == session {
                self.hang_up(stage, network, other);
            }
        }
        network.conns[conn].session = session;
        stage.check(greeting.password == password(session), Property::NeverGivenUp, || {
            format!("the password of session {session:x} was forgotten")
        });
        if self.leads(server) {
            let lives = self.revalidate(stage, network, reign, conn);
            return self.resume(stage, network, conn, lives);
        }
        let at = self.link(stage, server, true);
        stage.at(at, Event::Revalidate { server, reign, conn });
    }

    /// The leader is asked whether a session lives, which is a sign of life.
    pub(super) fn revalidate(
        &mut self,
        stage: &mut Stage,
        network: &Network,
        reign: usize,
        conn: usize,
    ) -> bool {
        let Conn { server, session, granted, .. } = network.conns[conn];
        let lives = self.touch(stage, reign, session, granted);
        if let (true, Some(track)) = (lives, self.reigns[reign].tracks.get_mut(&session)) {
            track.owner = Some(server);
        }
        if !lives && self.lives_until(session).is_some() {
            // A deposed leader has expired it, which is nobody's fault but the protocol's.
            self.misjudged.push(session);
            stage.figures.misjudged += 1;
        } else if !lives {
            self.judged.push(session);
        }
        if lives && !self.reigns[reign].rules {
            stage.figures.resumed_at_deposed += 1;
        }
        lives
    }

    /// The handshake is answered.
    pub(super) fn resume(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        conn: usize,
        lives: bool,
    ) {
        let known = &mut network.conns[conn];
        if !known.open_there {
            return;
        }
        known.served = lives;
        let session = known.session;
        let answer = match lives {
            true => served::connected((known.granted / 1000) as i32, session, &password(session)),
            false => served::connected(0, 0, &[0; 16]),
        };
        known.tags.push_back(None);
        stage.note(|| format!("connection {conn}: session {session:x}, lives: {lives}"));
        network.send(stage, conn, Way::Down, answer);
        if !lives {
            self.hang_up(stage, network, conn);
        }
    }

    // ---- requests

    fn asked(&mut self, stage: &mut Stage, network: &mut Network, conn: usize, frame: &[u8]) {
        let known = &mut network.conns[conn];
        let server = known.server;
        let asked = codec::asked(frame).expect("a request");
        stage.check(known.served, Property::NoHarm, || {
            format!("{asked:?} before the handshake was answered")
        });
        if asked.tag != NOBODY {
            *self.reached.entry(asked.tag).or_default() += 1;
        }
        let (session, granted) = (known.session, known.granted);
        // Credentials are dealt with before anybody is told.
        if asked.op != Op::Auth {
            self.sign_of_life(stage, server, session, granted);
        }
        let known = &mut network.conns[conn];
        let number = known.next_due;
        known.next_due += 1;
        let may_overtake = asked.op == Op::Auth || (asked.op == Op::Ping && stage.world.overtake);
        let throttled = asked.op != Op::Auth && asked.op != Op::Ping;
        let throttled = throttled && !stage.calm && stage.chance(stage.world.throttle);
        let kind = match asked.op {
            _ if throttled => None,
            Op::Create { ephemeral } => Some(WriteKind::Create { ephemeral }),
            Op::Delete => Some(WriteKind::Delete),
            Op::SetData { version } => Some(WriteKind::Set { version }),
            Op::Close => Some(WriteKind::Close),
            _ => None,
        };
        if throttled {
            stage.figures.throttled += 1;
            if matches!(asked.op, Op::SetWatches { .. }) {
                self.excused.push(conn);
            }
        }
        let ready = throttled.then_some(-127);
        let (path, tag) = (asked.path.clone(), asked.tag);
        let due = Due { number, asked, ready, is_write: kind.is_some() };
        match may_overtake {
            true => known.due.push_front(due),
            false => known.due.push_back(due),
        }
        if let Some(kind) = kind {
            let origin = Some(Origin { server, conn, due: number });
            let session = known.session;
            self.forward(stage, server, Write { origin, session, kind, path, tag });
        }
        self.answer_due(stage, network, conn);
    }

    pub(super) fn sign_of_life(
        &mut self,
        stage: &mut Stage,
        server: usize,
        session: i64,
        granted: Time,
    ) {
        let Some(reign) = self.servers[server].reign else {
            return;
        };
        if self.leads(server) {
            self.touch(stage, reign, session, granted);
            return;
        }
        self.servers[server].touched.insert(session, granted);
        self.plan_ping(stage, server, reign);
    }

    /// Pings come every half tick; those that have nothing to tell of need not be looked at.
    fn plan_ping(&mut self, stage: &mut Stage, server: usize, reign: usize) {
        let known = &mut self.servers[server];
        if std::mem::replace(&mut known.ping_planned, true) {
            return;
        }
        let half = stage.world.tick / 2;
        let past = (stage.now + half - known.phase) / half;
        let at = past * half + known.phase;
        stage.at(at, Event::Pinged { server, reign });
    }

    /// A ping has come; what was heard since the last is told with its answer.
    pub(super) fn pinged(&mut self, stage: &mut Stage, server: usize, reign: usize) {
        self.servers[server].ping_planned = false;
        let touched = std::mem::take(&mut self.servers[server].touched);
        let at = self.link(stage, server, true);
        stage.at(at, Event::Heard { server, reign, touched: touched.into_iter().collect() });
    }

    /// Signs of life have come one server further.
    pub(super) fn heard(
        &mut self,
        stage: &mut Stage,
        server: usize,
        reign: usize,
        touched: Vec<(i64, Time)>,
    ) {
        let upstream = self.upstream(stage, server);
        for (session, granted) in touched {
            match upstream {
                Some(master) if self.reigns[reign].leader != master => {
                    self.sign_of_life(stage, master, session, granted);
                }
                _ => drop(self.touch(stage, reign, session, granted)),
            }
        }
    }

    fn forward(&mut self, stage: &mut Stage, server: usize, write: Write) {
        let Some(reign) = self.servers[server].reign else {
            return;
        };
        if self.leads(server) {
            return self.prepare(stage, reign, write);
        }
        let at = self.link(stage, server, true);
        stage.at(at, Event::Forwarded { server, reign, write: Box::new(write) });
    }

    /// Answers what is ready, in its order.
    pub(super) fn answer_due(&mut self, stage: &mut Stage, network: &mut Network, conn: usize) {
        loop {
            let known = &mut network.conns[conn];
            let waits = |due: &Due| due.is_write && due.ready.is_none();
            if !known.open_there || known.due.front().is_none_or(waits) {
                return;
            }
            let Some(due) = known.due.pop_front() else {
                return;
            };
            self.answer(stage, network, conn, &due);
        }
    }

    fn answer(&mut self, stage: &mut Stage, network: &mut Network, conn: usize, due: &Due) {
        let server = network.conns[conn].server;
        let asked = &due.asked;
        let code = due.ready.unwrap_or_else(|| self.read(stage, network, conn, asked));
        if code == -118 || code == -112 {
            self.excused.push(conn);
        }
        if asked.op == Op::Auth {
            network.conns[conn].authenticated = true;
        }
        let ordinary = !matches!(asked.op, Op::Ping | Op::Auth);
        if ordinary && std::mem::take(&mut self.servers[server].confuse) {
            stage.figures.confused += 1;
            self.excused.push(conn);
            stage.note(|| format!("connection {conn}: no answer to {asked:?}"));
            return;
        }
        let bytes = codec::answer(asked, code, &self.servers[server].tree);
        let tag = (asked.tag != NOBODY).then_some(asked.tag);
        stage.note(|| format!("connection {conn}: {:?} {} #{tag:?}: {code}", asked.op, asked.path));
        network.conns[conn].tags.push_back(tag);
        network.send(stage, conn, Way::Down, bytes);
        if asked.op == Op::Close && code == 0 {
            self.hang_up(stage, network, conn);
        }
    }

    /// What a server can answer by itself.
    fn read(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        conn: usize,
        asked: &Asked,
    ) -> i32 {
        let known = &mut network.conns[conn];
        let tree = &self.servers[known.server].tree;
        let path = asked.path.clone();
        if path == "/secret" && !known.authenticated {
            return -102;
        }
        let there = tree.node(&path).is_some() || path == "/secret";
        match &asked.op {
            Op::Exists { watch } => {
                if *watch {
                    known.data.insert(path);
                }
                if there { 0 } else { -101 }
            }
            Op::GetData { watch } | Op::GetChildren { watch } => {
                let is_data = matches!(asked.op, Op::GetData { .. });
                if *watch && there {
                    let watches = if is_data { &mut known.data } else { &mut known.child };
                    watches.insert(path);
                }
                if there { 0 } else { -101 }
            }
            Op::SetWatches { zxid, lists } => {
                self.set_watches(stage, network, conn, *zxid, lists);
                0
            }
            _ => 0,
        }
    }
}

pub(super) fn password(session: i64) -> Vec<u8> {
    [session.to_be_bytes(), (!session).to_be_bytes()].concat()
}
