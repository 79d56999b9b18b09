//! An ensemble for simulations: bytes and instants go in, bytes and the next instant come out, and a seed decides
//! the rest. What really is, and what was committed when, can be looked at by a judge.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::access::ReadRules;
pub use super::committed::{Change, ChangeKind, Committed};
pub use super::state::Outgoing;
use super::state::State;
use super::tree::{ANY, Op};
use crate::acl::Acl;
use crate::core::frames::Frames;
use crate::error::{Error, Result};
use crate::types::{CreateMode, Stat};

/// Longer requests end the connection (`jute.maxbuffer`).
const LONGEST: usize = 0xf_ffff;

/// What an ensemble is like.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many servers there are; all of them vote.
    pub servers: usize,
    /// As `tickTime`: a session timeout has 2 to 20 of them, and ends at the next one.
    pub tick: Duration,
    /// The least time that a message takes from one server to another.
    pub hop: Duration,
    /// How much longer it may take.
    pub jitter: Duration,
    /// The most time that the leader takes until a quorum has a proposal; half of it is the least.
    pub quorum: Duration,
    /// How long a server goes on without its leader at the most.
    pub sync_limit: Duration,
    /// What clients learn of nodes that they may not read.
    pub rules: ReadRules,
    /// Empty containers are removed after this time at the most.
    pub containers: Duration,
    /// What the first instant is in milliseconds since 1970.
    pub wall: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            servers: 1,
            tick: Duration::from_millis(500),
            hop: Duration::from_micros(200),
            jitter: Duration::from_micros(100),
            quorum: Duration::from_micros(500),
            sync_limit: Duration::from_millis(2500),
            rules: ReadRules::default(),
            containers: Duration::from_secs(60),
            wall: 1_800_000_000_000,
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Ensemble {
    state: State,
    settings: Settings,
    up: bool,
    now: Instant,
    next: Instant,
    connections: BTreeMap<u64, Reading>,
}

#[derive(Debug)]
struct Reading {
    frames: Frames,
    is_greeted: bool,
}

impl Ensemble {
    /// All servers are up and have a leader.
    #[must_use]
    pub fn new(settings: Settings, _seed: u64, now: Instant) -> Ensemble {
        let mut state = State::new(settings.rules, now, settings.wall);
        state.record();
        let next = state.look_at_clock(now);
        Ensemble { state, settings, up: true, now, next, connections: BTreeMap::new() }
    }

    /// A connection to this server; none if it refuses it.
    pub fn connect(&mut self, server: usize, now: Instant) -> Option<u64> {
        self.advance(now);
        if !self.up || server >= self.settings.servers {
            return None;
        }
        let id = self.state.connect("127.0.0.1".to_owned());
        self.connections.insert(id, Reading { frames: Frames::new(LONGEST), is_greeted: false });
        Some(id)
    }

    /// Bytes of a client have come. Those that make no sense end the connection.
    pub fn receive(&mut self, connection: u64, mut bytes: &[u8], now: Instant) {
        self.advance(now);
        let Some(reading) = self.connections.get_mut(&connection) else {
            return;
        };
        while !bytes.is_empty() {
            let space = reading.frames.space();
            let count = bytes.len().min(space.len());
            space[..count].copy_from_slice(&bytes[..count]);
            reading.frames.filled(count);
            bytes = &bytes[count..];
            loop {
                let served = match reading.frames.next() {
                    Ok(None) => break,
                    Ok(Some(frame)) if reading.is_greeted => {
                        self.state.request(connection, frame, now).is_ok()
                    }
                    Ok(Some(frame)) => self.state.greet(connection, frame, now).is_ok(),
                    Err(_) => false,
                };
                reading.is_greeted = true;
                if !served {
                    return self.hang_up(connection, now);
                }
            }
        }
        self.next = self.state.look_at_clock(now);
    }

    /// The client's end is closed.
    pub fn hang_up(&mut self, connection: u64, now: Instant) {
        self.advance(now);
        self.state.cut(connection);
        self.connections.remove(&connection);
    }

    /// When [`advance`](Self::advance) is to be called at the latest.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        Some(self.next)
    }

    /// Does what is due by now.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.next <= self.now {
            self.next = self.state.look_at_clock(now);
        }
    }

    /// What the servers have sent since it was called last, in the order in which they did.
    pub fn take_outgoing(&mut self) -> Vec<(u64, Outgoing)> {
        let taken = self.state.take_outgoing();
        for (connection, outgoing) in &taken {
            if *outgoing == Outgoing::End {
                self.connections.remove(connection);
            }
        }
        taken
    }

    /// The server dies, and its connections with it.
    pub fn crash(&mut self, _server: usize, now: Instant) {
        self.advance(now);
        self.up = false;
        self.state.stop();
    }

    /// A server that was down starts.
    pub fn start(&mut self, _server: usize, now: Instant) {
        if !std::mem::replace(&mut self.up, true) {
            self.state.start_again(now);
            self.next = self.state.look_at_clock(now);
        }
    }

    /// Ends a session before its time, as operators can.
    pub fn expire(&mut self, session: i64, now: Instant) {
        self.advance(now);
        self.state.expire(session, now);
    }

    /// What was committed since it was called last, in its order.
    pub fn take_committed(&mut self) -> Vec<Committed> {
        self.state.take_committed()
    }

    /// A node as the quorum has it.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Stat, &[u8])> {
        self.state.node(path)
    }

    /// The paths of all nodes below this one, sorted.
    #[must_use]
    pub fn below(&self, path: &str) -> Vec<String> {
        self.state.below(path)
    }

    /// The sessions that are not over.
    #[must_use]
    pub fn sessions(&self) -> Vec<i64> {
        self.state.sessions()
    }

    /// Creates a node as somebody who may do everything, in no session.
    ///
    /// # Errors
    ///
    /// Those of servers.
    pub fn create(&mut self, path: &str, data: &[u8], now: Instant) -> Result<()> {
        let mode = CreateMode::Persistent;
        self.operate(Op::Create { path, data, acl: Acl::open(), mode }, now)
    }

    /// Deletes a node, likewise.
    ///
    /// # Errors
    ///
    /// Those of servers.
    pub fn delete(&mut self, path: &str, now: Instant) -> Result<()> {
        self.operate(Op::Delete { path, version: ANY }, now)
    }

    /// Sets the data of a node, likewise.
    ///
    /// # Errors
    ///
    /// Those of servers.
    pub fn set_data(&mut self, path: &str, data: &[u8], now: Instant) -> Result<()> {
        self.operate(Op::SetData { path, data, version: ANY }, now)
    }

    fn operate(&mut self, op: Op<'_>, now: Instant) -> Result<()> {
        self.advance(now);
        self.state.operate(op, now).map_err(Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::{self, OpCode};
    use crate::core::wire::Reader;

    /// What a client sends and is sent.
    fn request(code: OpCode, xid: i32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut frame = message::request(code, body);
        message::number(&mut frame, xid);
        frame
    }

    fn create(path: &str, xid: i32) -> Vec<u8> {
        request(OpCode::Create2, xid, |out| {
            message::create(out, ("", path), b"data", &Acl::open(), CreateMode::Ephemeral);
        })
    }

    #[test]
    fn one_server_takes_bytes_in_any_pieces_and_says_what_it_has_committed() {
        let start = Instant::now();
        let mut ensemble = Ensemble::new(Settings::default(), 1, start);
        let connection = ensemble.connect(0, start).unwrap();
        let mut bytes = message::connect(0, 1000, 0, &[0; 16]);
        bytes.extend(create("/a", 1));
        for byte in bytes {
            ensemble.receive(connection, &[byte], start);
        }
        let outgoing = ensemble.take_outgoing();
        assert_eq!(outgoing.len(), 2, "{outgoing:?}");
        let Outgoing::Bytes(created) = &outgoing[1].1 else { panic!("{outgoing:?}") };
        let header = message::header(&mut Reader(&created[4..])).unwrap();
        assert_eq!((header.xid, header.code), (1, 0));
        let (stat, data) = ensemble.node("/a").unwrap();
        assert_eq!((stat.ephemeral_owner, data), (ensemble.sessions()[0], &b"data"[..]));
        let committed = ensemble.take_committed();
        println!("{committed:?}");
        assert_eq!(committed.last().map(|last| last.zxid), Some(stat.czxid));
        ensemble.advance(start + Duration::from_secs(20));
        assert_eq!((ensemble.node("/a"), ensemble.sessions()), (None, vec![]));
        assert_eq!(ensemble.take_outgoing(), [(connection, Outgoing::End)]);
        assert!(ensemble.take_committed().last().unwrap().is_close);
    }
}
