//! How an ensemble treats clients whose requests are encoded by hand.

mod client;
mod leaders;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Ensemble, Outgoing, Settings};
use crate::answers::EVENT;
use crate::requests::op;
use crate::terms::CreateMode;
use crate::wire::Reader;

const TICK: Duration = Duration::from_millis(500);

/// What was sent on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// The id of a session, or 0 if the session has ended.
    Session(i64),
    Answer {
        xid: i32,
        code: i32,
    },
    /// The kind of an event, and its path.
    Event(i32, String),
    End,
}

struct World {
    ensemble: Ensemble,
    now: Instant,
    seen: BTreeMap<u64, Vec<Seen>>,
    is_greeted: BTreeMap<u64, bool>,
    last_xid: i32,
}

impl World {
    fn new(servers: usize, seed: u64) -> World {
        let (now, settings) =
            (Instant::now(), Settings { servers, tick: TICK, ..Settings::default() });
        let ensemble = Ensemble::new(settings, seed, now);
        let (seen, is_greeted) = (BTreeMap::new(), BTreeMap::new());
        let mut world = World { ensemble, now, seen, is_greeted, last_xid: 0 };
        // Servers that have not joined the leader yet join now.
        world.run(TICK * 2);
        world
    }

    /// Lets everything happen that is due within this time.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.ensemble.next().filter(|next| *next <= end) {
            self.step(next);
        }
        self.step(end);
    }

    fn step(&mut self, to: Instant) {
        self.now = self.now.max(to);
        self.ensemble.advance(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        for (connection, outgoing) in self.ensemble.take_outgoing() {
            let seen = match outgoing {
                Outgoing::End => Seen::End,
                Outgoing::Bytes(frame) => self.read(connection, &frame[4..]),
            };
            self.seen.entry(connection).or_default().push(seen);
        }
    }

    fn read(&mut self, connection: u64, frame: &[u8]) -> Seen {
        if !self.is_greeted.insert(connection, true).unwrap_or_default() {
            let (_version_and_timeout, rest) = frame.split_at(8);
            return Seen::Session(Reader(rest).long().unwrap());
        }
        let mut reader = Reader(frame);
        let xid = reader.int().unwrap();
        reader.long().unwrap();
        let code = reader.int().unwrap();
        if xid == EVENT {
            let kind = reader.int().unwrap();
            reader.int().unwrap();
            return Seen::Event(kind, reader.string().unwrap().to_owned());
        }
        Seen::Answer { xid, code }
    }

    /// Runs until something new has been sent on a connection, but not for long.
    fn wait(&mut self, connection: u64) -> Option<Seen> {
        self.collect();
        let end = self.now + TICK * 40;
        while self.seen(connection).is_empty() && self.now < end {
            let next = self.ensemble.next().unwrap_or(end).min(end);
            self.step(next);
        }
        let seen = self.seen.entry(connection).or_default();
        (!seen.is_empty()).then(|| seen.remove(0))
    }

    fn seen(&self, connection: u64) -> &[Seen] {
        self.seen.get(&connection).map_or(&[], Vec::as_slice)
    }

    /// Returns everything sent on a connection that no test has waited for yet.
    fn take(&mut self, connection: u64) -> Vec<Seen> {
        self.collect();
        self.seen.remove(&connection).unwrap_or_default()
    }

    fn receive(&mut self, connection: u64, bytes: &[u8]) {
        self.ensemble.receive(connection, bytes, self.now);
        self.collect();
    }

    // ---- sessions

    fn greet(&mut self, server: usize, timeout: Duration, session: i64) -> u64 {
        let connection = self.ensemble.connect(server, self.now).expect("it is up");
        let password = [session.to_be_bytes(), (!session).to_be_bytes()].concat();
        let timeout = timeout.as_millis() as i32;
        self.receive(connection, &client::connect(0, timeout, session, &password));
        connection
    }

    /// Opens a new session on this server.
    fn open(&mut self, server: usize, timeout: Duration) -> (u64, i64) {
        let connection = self.greet(server, timeout, 0);
        match self.wait(connection) {
            Some(Seen::Session(session)) if session != 0 => (connection, session),
            other => panic!("{other:?}"),
        }
    }

    fn client(&mut self, server: usize) -> u64 {
        self.open(server, TICK * 20).0
    }

    // ---- requests

    fn send(&mut self, connection: u64, code: i32, body: impl FnOnce(&mut Vec<u8>)) -> i32 {
        self.last_xid += 1;
        self.receive(connection, &client::request(self.last_xid, code, body));
        self.last_xid
    }

    /// Returns the code of the answer to the last request, which must be the next message.
    fn answer(&mut self, connection: u64) -> i32 {
        match self.wait(connection) {
            Some(Seen::Answer { xid, code }) if xid == self.last_xid => code,
            other => panic!("{other:?}"),
        }
    }

    fn send_create(&mut self, connection: u64, path: &str, mode: CreateMode) -> i32 {
        self.send(connection, op::CREATE_2, |out| client::create(out, path, b"data", mode))
    }

    fn create(&mut self, connection: u64, path: &str, mode: CreateMode) -> i32 {
        self.send_create(connection, path, mode);
        self.answer(connection)
    }

    fn send_exists(&mut self, connection: u64, path: &str, watch: bool) -> i32 {
        self.send(connection, op::EXISTS, |out| client::watched(out, path, watch))
    }

    fn exists(&mut self, connection: u64, path: &str, watch: bool) -> bool {
        self.send_exists(connection, path, watch);
        self.answer(connection) == 0
    }

    fn send_sync(&mut self, connection: u64) -> i32 {
        self.send(connection, op::SYNC, |out| client::path(out, "/"))
    }

    fn leader(&self) -> usize {
        self.ensemble.leader().expect("somebody leads")
    }

    fn follower(&self) -> usize {
        usize::from(self.leader() == 0)
    }
}
