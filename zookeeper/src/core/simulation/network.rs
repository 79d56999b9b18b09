//! Connections between the client and servers: bytes on their way, and what becomes of them.

use std::collections::{BTreeSet, VecDeque};

use super::serving::Due;
use super::stage::{Event, NEVER, Stage, Time};

/// One direction of a connection. An empty chunk is its end.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    chunks: VecDeque<(Time, Vec<u8>)>,
    last: Time,
    /// Nothing arrives before.
    hole: Time,
    ended: bool,
}

impl Pipe {
    /// Nothing is sent any more, and the other end does not hear of it.
    pub(super) fn seal(&mut self) {
        self.ended = true;
    }
}

/// A connection, with what the server knows of it.
#[derive(Debug, Default)]
pub(super) struct Conn {
    pub(super) server: usize,
    pub(super) up: Pipe,
    pub(super) down: Pipe,
    /// The calls that the frames on their way down answer; none for others.
    pub(super) tags: VecDeque<Option<u32>>,
    pub(super) open_here: bool,
    pub(super) open_there: bool,
    // The server's.
    pub(super) come: Vec<u8>,
    pub(super) greeted: bool,
    /// The handshake is over.
    pub(super) served: bool,
    pub(super) session: i64,
    pub(super) granted: Time,
    pub(super) due: VecDeque<Due>,
    pub(super) next_due: u64,
    pub(super) data: BTreeSet<String>,
    pub(super) child: BTreeSet<String>,
    pub(super) authenticated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

#[derive(Default)]
pub(super) struct Network {
    pub(super) conns: Vec<Conn>,
}

impl Network {
    pub(super) fn open(&mut self, server: usize) -> usize {
        self.conns.push(Conn { server, open_here: true, open_there: true, ..Conn::default() });
        self.conns.len() - 1
    }

    fn pipe(&mut self, conn: usize, way: Way) -> &mut Pipe {
        match way {
            Way::Up => &mut self.conns[conn].up,
            Way::Down => &mut self.conns[conn].down,
        }
    }

    fn event(conn: usize, way: Way) -> Event {
        match way {
            Way::Up => Event::Up(conn),
            Way::Down => Event::Down(conn),
        }
    }

    /// Sends bytes, perhaps in two pieces; none end it.
    pub(super) fn send(&mut self, stage: &mut Stage, conn: usize, way: Way, mut bytes: Vec<u8>) {
        if self.pipe(conn, way).ended {
            return;
        }
        if bytes.len() > 1 && stage.chance(0.15) {
            let rest = bytes.split_off(1 + stage.some(bytes.len() as u64 - 1) as usize);
            self.put(stage, conn, way, bytes);
            bytes = rest;
        }
        self.put(stage, conn, way, bytes);
    }

    fn put(&mut self, stage: &mut Stage, conn: usize, way: Way, bytes: Vec<u8>) {
        let most = stage.world.way;
        let delay = most / 2 + stage.some(most / 2);
        let pipe = self.pipe(conn, way);
        pipe.last = pipe.last.max(stage.now + delay);
        pipe.ended |= bytes.is_empty();
        pipe.chunks.push_back((pipe.last, bytes));
        let time = pipe.last;
        stage.at(time, Network::event(conn, way));
    }

    /// What arrives now; an empty one ends it.
    pub(super) fn take(&mut self, stage: &mut Stage, conn: usize, way: Way) -> Option<Vec<u8>> {
        let pipe = self.pipe(conn, way);
        if pipe.chunks.front().is_none_or(|chunk| chunk.0 > stage.now) {
            return None;
        }
        if pipe.hole > stage.now {
            if pipe.hole != NEVER {
                let hole = pipe.hole;
                stage.at(hole, Network::event(conn, way));
            }
            return None;
        }
        pipe.chunks.pop_front().map(|chunk| chunk.1)
    }

    /// Has something come that the client has not taken?
    pub(super) fn has_unread(&self, now: Time, conn: usize) -> bool {
        let pipe = &self.conns[conn].down;
        pipe.hole <= now && pipe.chunks.front().is_some_and(|chunk| chunk.0 < now)
    }

    /// Ends it in order, behind what is on its way.
    pub(super) fn end(&mut self, stage: &mut Stage, conn: usize, way: Way) {
        self.send(stage, conn, way, Vec::new());
    }

    /// Ends it anywhere within what is on its way.
    pub(super) fn tear(&mut self, stage: &mut Stage, conn: usize, way: Way) {
        let pipe = self.pipe(conn, way);
        let total: usize = pipe.chunks.iter().map(|chunk| chunk.1.len()).sum();
        let mut left = stage.rng.below(total as u64 + 1) as usize;
        pipe.chunks.retain_mut(|chunk| {
            chunk.1.truncate(left);
            left -= chunk.1.len();
            !chunk.1.is_empty()
        });
        let was_ended = std::mem::take(&mut pipe.ended);
        self.put(stage, conn, way, Vec::new());
        self.pipe(conn, way).ended |= was_ended;
    }

    /// Nothing arrives until then.
    pub(super) fn dig(&mut self, conn: usize, way: Way, until: Time) {
        let pipe = self.pipe(conn, way);
        pipe.hole = pipe.hole.max(until);
        if until == NEVER {
            pipe.chunks.clear();
            pipe.ended = true;
        }
    }
}
