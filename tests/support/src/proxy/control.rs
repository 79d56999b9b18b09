//! The state that all connections of a proxy share: switches, rules, counters and the log.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::Direction;
use super::frame::{Answer, Protocol, Request, granted};
use super::link::{Link, Pending, Way};
use super::op::Op;
use super::rule::{Action, Side, Then, Trigger};
use crate::lock;
use crate::probe::Grant;

const LOG_LINES: usize = 500;
/// The id of a handshake, which has no id on the wire. The ids that clients send are counted up from 1.
const HANDSHAKE_ID: i32 = i32::MIN;

/// The settings of one direction through the proxy.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) black_hole: AtomicBool,
    pub(crate) delay: Mutex<Duration>,
}

/// What happens to a frame.
#[derive(Debug)]
pub(crate) enum Verdict {
    Pass,
    Drop(Then),
    Hold(Arc<Trigger>),
}

#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) protocol: Protocol,
    started: Instant,
    lanes: [Lane; 2],
    pub(crate) accept_and_close: AtomicBool,
    pub(crate) accepted: AtomicU64,
    pub(crate) books: Mutex<Books>,
}

/// A connection that the proxy has accepted.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) link: Weak<Link>,
    counted: Weak<()>,
}

impl Known {
    /// Returns whether the connection's sockets are closed, so that it no longer counts as open.
    pub(crate) fn is_gone(&self) -> bool {
        self.counted.strong_count() == 0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Books {
    links: Vec<Known>,
    pub(crate) triggers: Vec<Arc<Trigger>>,
    pub(crate) requests: HashMap<Op, u64>,
    /// The sessions that were granted through this proxy and have not been closed through it.
    pub(crate) sessions: HashMap<i64, Grant>,
    pub(crate) events: u64,
    pub(crate) log: VecDeque<String>,
}

impl Control {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            started: Instant::now(),
            lanes: Default::default(),
            accept_and_close: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            books: Mutex::default(),
        }
    }

    pub(crate) fn lane(&self, way: Way) -> &Lane {
        &self.lanes[way as usize]
    }

    pub(crate) fn lanes(&self, direction: Direction) -> &[Lane] {
        match direction {
            Direction::ToServer => &self.lanes[..1],
            Direction::ToClient => &self.lanes[1..],
            Direction::Both => &self.lanes,
        }
    }

    /// Adds a connection. The caller drops `counted` when the connection has ended.
    pub(crate) fn add_link(&self, link: &Arc<Link>, counted: &Arc<()>) {
        let mut books = lock(&self.books);
        books.links.retain(|known| !known.is_gone());
        let (link, counted) = (Arc::downgrade(link), Arc::downgrade(counted));
        books.links.push(Known { link, counted });
    }

    pub(crate) fn links(&self) -> Vec<Known> {
        lock(&self.books).links.clone()
    }

    /// Removes all rules, and releases the frames that they hold. The caller must then call `wake_all`.
    pub(crate) fn disarm_all(&self) {
        for trigger in lock(&self.books).triggers.drain(..) {
            trigger.release();
        }
    }

    /// Makes all writers check the settings and the held frames again.
    pub(crate) fn wake_all(&self) {
        for link in self.links().iter().filter_map(|known| known.link.upgrade()) {
            link.wake();
        }
    }

    pub(crate) fn note(&self, text: &str) {
        let line = format!("{:9.3}s {text}", self.started.elapsed().as_secs_f64());
        let mut books = lock(&self.books);
        if books.log.len() == LOG_LINES {
            books.log.pop_front();
        }
        books.log.push_back(line);
    }

    /// Decides what happens to a frame from a client. The first frame is the handshake.
    pub(crate) fn decide_request(&self, link: &Link, frame: &[u8], first: bool) -> Verdict {
        let handshake = Request { id: HANDSHAKE_ID, op: Op::Connect, path: String::new() };
        let request = if first { Some(handshake) } else { Request::parse(frame) };
        let Some(Request { id, op, path }) = request else { return Verdict::Pass };
        let (verdict, trigger) = self.match_request(link, op, &path);
        self.note(&describe(link, '>', op, &path, &verdict));
        if !matches!(verdict, Verdict::Drop(_)) {
            lock(&link.pending).push_back(Pending { id, op, path, trigger });
        }
        verdict
    }

    /// Returns what happens to a request, and the rule for its answer.
    fn match_request(&self, link: &Link, op: Op, path: &str) -> (Verdict, Option<Arc<Trigger>>) {
        let mut books = lock(&self.books);
        *books.requests.entry(op).or_default() += 1;
        let (mut verdict, mut on_answer) = (Verdict::Pass, None);
        for trigger in &books.triggers {
            if !trigger.counts(op, path) {
                continue;
            }
            match trigger.side {
                Side::Answer => on_answer = Some(Arc::clone(trigger)),
                Side::Request => verdict = fire(trigger, link),
            }
        }
        books.triggers.retain(|trigger| !trigger.is_over());
        (verdict, on_answer)
    }

    /// Decides what happens to a frame from a server. The first frame is the answer to the handshake.
    pub(crate) fn decide_answer(&self, link: &Link, frame: &[u8], first: bool) -> Verdict {
        if first {
            if let Some(grant) = granted(frame) {
                let _ = link.session.set(grant);
                lock(&self.books).sessions.insert(grant.id, grant);
            }
            return self.decide_answer_to(link, HANDSHAKE_ID, 0);
        }
        match Answer::parse(frame) {
            Some(Answer::To { id, error }) => self.decide_answer_to(link, id, error),
            Some(Answer::Event { path }) => self.decide_event(link, &path),
            None => Verdict::Pass,
        }
    }

    fn decide_answer_to(&self, link: &Link, id: i32, error: i32) -> Verdict {
        let Some(request) = link.answered(id) else { return Verdict::Pass };
        if let (Op::CloseSession, Some(session)) = (request.op, link.session.get()) {
            lock(&self.books).sessions.remove(&session.id);
        }
        let verdict = request.trigger.as_ref();
        let verdict = verdict.map_or(Verdict::Pass, |trigger| fire(trigger, link));
        let mut text = describe(link, '<', request.op, &request.path, &verdict);
        if error != 0 {
            text += &format!(" error {error}");
        }
        self.note(&text);
        verdict
    }

    fn decide_event(&self, link: &Link, path: &str) -> Verdict {
        let mut verdict = Verdict::Pass;
        {
            let mut books = lock(&self.books);
            books.events += 1;
            let on_answers = |trigger: &&Arc<Trigger>| trigger.side == Side::Answer;
            for trigger in books.triggers.iter().filter(on_answers) {
                if trigger.counts(Op::Event, path) {
                    verdict = fire(trigger, link);
                }
            }
            books.triggers.retain(|trigger| !trigger.is_over());
        }
        self.note(&describe(link, '<', Op::Event, path, &verdict));
        verdict
    }
}

fn fire(trigger: &Arc<Trigger>, link: &Link) -> Verdict {
    match trigger.action {
        _ if !trigger.fire(link) => Verdict::Pass,
        Action::Drop(then) => Verdict::Drop(then),
        Action::Hold => Verdict::Hold(Arc::clone(trigger)),
    }
}

fn describe(link: &Link, way: char, op: Op, path: &str, verdict: &Verdict) -> String {
    let fate = match verdict {
        Verdict::Pass => String::new(),
        Verdict::Drop(then) => format!(" [dropped, then {then:?}]"),
        Verdict::Hold(_) => " [held]".to_owned(),
    };
    format!("#{} {way} {op:?} {path}{fate}", link.number)
}
