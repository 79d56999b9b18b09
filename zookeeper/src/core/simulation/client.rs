//! The client: it drives the core as the threads of a real one do, and compares what it says with what
//! is true.

use std::time::{Duration, Instant};

use super::super::clock::Moment;
use super::super::frames::Frames;
use super::super::message::{self, HEADER};
use super::super::session::{Core, Output};
use super::super::wire::Reader;
use super::calls::{CallRecord, Outcome};
use super::clocks::Clocks;
use super::ensemble::Ensemble;
use super::network::{Network, Way};
use super::sessions::Story;
use super::stage::{Event, Property, Stage, Time};
use super::watchers::{Ear, Watchers};

/// So late is a timer of a process that stood still.
const STALL: Duration = Duration::from_millis(250);

/// What the client's parts act on.
pub(super) struct Around<'a> {
    pub(super) stage: &'a mut Stage,
    pub(super) network: &'a mut Network,
    pub(super) ensemble: &'a mut Ensemble,
}

pub(super) struct Client {
    pub(super) core: Core<u32, Ear>,
    pub(super) clocks: Clocks,
    frames: Frames,
    /// The bytes that the frames keep; what is left of one connection is nothing to the next.
    unread: usize,
    pub(super) link: Option<usize>,
    // The reader.
    round: Vec<usize>,
    failures: u32,
    // The timer.
    planned: Instant,
    alarm: u64,
    /// When the core meant to be asked again.
    expected: Instant,
    /// Until then being late again is no excuse for a server that is silent.
    excused: Instant,
    /// The process does nothing until then.
    pub(super) stopped_until: Time,
    pub(super) calls: Vec<CallRecord>,
    /// Those that are not answered.
    pub(super) open: Vec<u32>,
    pub(super) watchers: Watchers,
    pub(super) story: Story,
    pub(super) keepers: usize,
    pub(super) closing: bool,
    /// Its credentials are known to be taken.
    pub(super) remembered: bool,
}

impl Client {
    pub(super) fn new(stage: &mut Stage) -> Client {
        let clocks = Clocks::new(stage.world.slow);
        let now = clocks.moment();
        let timeout = Duration::from_micros(stage.world.timeout);
        let mut client = Client {
            core: Core::new(timeout, now),
            clocks,
            frames: Frames::new(1 << 20),
            unread: 0,
            link: None,
            round: Vec::new(),
            failures: 0,
            planned: now.monotonic,
            alarm: 0,
            expected: now.monotonic,
            excused: now.monotonic,
            stopped_until: 0,
            calls: Vec::new(),
            open: Vec::new(),
            watchers: Watchers::default(),
            story: Story::default(),
            keepers: 0,
            closing: false,
            remembered: false,
        };
        if stage.world.kept {
            client.core.keep_lease(now);
            client.keepers = 1;
            client.story.is_kept = true;
        }
        stage.at(0, Event::Round);
        client.wake(stage);
        client
    }

    pub(super) fn now(&mut self, stage: &Stage) -> Moment {
        self.clocks.advance(stage.now);
        self.clocks.moment()
    }

    /// Is the process stopped? The event then comes again.
    pub(super) fn is_stopped(&self, stage: &mut Stage, event: &Event) -> bool {
        let stopped = self.stopped_until > stage.now;
        if stopped {
            let until = self.stopped_until + stage.some(300);
            stage.at(until, event.clone());
        }
        stopped
    }

    // ---- the reader

    pub(super) fn begin_round(&mut self, stage: &mut Stage) {
        if self.core.is_over() {
            return;
        }
        self.round = match stage.world.only {
            Some(server) => vec![server],
            None => (0..stage.world.servers()).collect(),
        };
        for index in (1..self.round.len()).rev() {
            let other = stage.rng.below(index as u64 + 1) as usize;
            self.round.swap(index, other);
        }
        stage.after(0, Event::Dial);
    }

    pub(super) fn dial(&mut self, around: &mut Around<'_>) {
        let stage = &mut *around.stage;
        let now = self.now(stage);
        if self.core.is_over() {
            return;
        }
        let next = self.core.next_handshake(now);
        if next > now.monotonic && !self.round.is_empty() {
            return stage.at(self.clocks.when(next) + 1, Event::Dial);
        }
        let Some(server) = self.round.pop() else {
            self.core.broke("nobody", now);
            self.failures = (self.failures + 1).min(16);
            self.pause(stage);
            return self.carry(around);
        };
        let accepted = around.ensemble.servers[server].up;
        let isolated = around.ensemble.isolated_until > stage.now;
        let silent = isolated || (!accepted && stage.chance(0.2));
        let later = match silent {
            true => self.clocks.real(self.core.patience(now)),
            false => stage.some(stage.world.way * 2),
        };
        stage.after(later, Event::Dialed { server, accepted: accepted && !silent });
    }

    /// Before the next round.
    fn pause(&mut self, stage: &mut Stage) {
        let tenth = self.core.timeout().as_micros() as Time / 10;
        let most = (10_000 << self.failures).min(1_000_000).min(tenth);
        let pause = if self.failures > 0 { 10_000 + stage.some(most) } else { 0 };
        stage.after(pause, Event::Round);
    }

    pub(super) fn dialed(&mut self, around: &mut Around<'_>, server: usize, accepted: bool) {
        if !accepted || !around.ensemble.servers[server].up {
            return around.stage.after(0, Event::Dial);
        }
        let now = self.now(around.stage);
        let conn = around.network.open(server);
        around.stage.note(|| format!("connection {conn} to server {server}"));
        self.link = Some(conn);
        if std::mem::take(&mut self.unread) > 0 {
            self.frames = Frames::new(1 << 20);
        }
        // Somebody may have closed the client meanwhile.
        self.core.dialed(true, now);
        self.wake(around.stage);
        self.carry(around);
    }

    /// Bytes have come.
    pub(super) fn come(&mut self, around: &mut Around<'_>, conn: usize) {
        let Some(bytes) = around.network.take(around.stage, conn, Way::Down) else {
            return;
        };
        if self.link != Some(conn) {
            return;
        }
        if bytes.is_empty() {
            return self.ended(around, conn, "the server hung up");
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let space = self.frames.space();
            let count = rest.len().min(space.len());
            space[..count].copy_from_slice(&rest[..count]);
            self.frames.filled(count);
            self.unread += count;
            rest = &rest[count..];
            while let Some(frame) = self.frames.next().expect("lengths that are right") {
                let frame = frame.to_vec();
                self.unread -= 4 + frame.len();
                if let Some(reason) = self.take(around, conn, &frame) {
                    return self.ended(around, conn, &reason);
                }
            }
        }
    }

    /// Takes a frame; says why the connection has to end, if it has to.
    fn take(&mut self, around: &mut Around<'_>, conn: usize, frame: &[u8]) -> Option<String> {
        let now = self.now(around.stage);
        let tag = around.network.conns[conn].tags.pop_front().flatten();
        let was_open = self.core.is_open();
        let taken = self.core.receive(frame, now);
        let is_doomed = self.core.is_doomed();
        let is_over = self.core.is_over();
        self.check_first_words(around.stage, was_open);
        self.carry(around);
        let stage = &mut *around.stage;
        let answer = match taken {
            Ok(answer) => answer,
            Err(malformed) => {
                stage.note(|| format!("refused: {malformed}"));
                let excused = around.ensemble.excused.contains(&conn)
                    || malformed.0.contains("the session lives, but");
                stage.check(excused, Property::NoHarm, || format!("refused: {malformed}"));
                return Some(malformed.0);
            }
        };
        if tag.is_some() && !is_over && !is_doomed {
            let header = message::header(&mut Reader(frame)).expect("a header");
            self.watchers.answered(stage, around.ensemble, header.zxid);
        }
        let slot = answer.as_ref().map(|answer| answer.slot);
        match (slot, tag) {
            (Some(slot), Some(tag)) => {
                stage.check(slot == tag, Property::OwnAnswer, || {
                    format!("call {slot} was given the answer to {tag}")
                });
                let code = answer.map_or(0, |answer| answer.code);
                self.check_content(stage, slot, code, &frame[HEADER..]);
                self.settle(around, slot, Outcome::Server(code), frame);
            }
            (Some(slot), None) => {
                stage
                    .fail(Property::OwnAnswer, || format!("call {slot} was given nobody's answer"));
            }
            (None, Some(tag)) if !is_over => {
                let call = &self.calls[tag as usize];
                let done = call.outcome.is_some() || call.repeat;
                stage.check(done, Property::OwnAnswer, || format!("call {tag} has no answer"));
            }
            (None, _) => {}
        }
        is_doomed.then(|| "it was given up".to_owned())
    }

    /// The connection is no more.
    fn ended(&mut self, around: &mut Around<'_>, conn: usize, reason: &str) {
        let now = self.now(around.stage);
        let was_of_use = self.core.is_of_use();
        around.network.conns[conn].open_here = false;
        around.network.end(around.stage, conn, Way::Up);
        self.link = None;
        let reason = self.core.broke(reason, now);
        around.stage.note(|| format!("connection {conn} has ended: {reason}"));
        let refused = reason.starts_with("the server refused a request");
        let excused = around.ensemble.excused.contains(&conn);
        around.stage.check(!refused || excused, Property::NoHarm, || reason.to_string());
        if reason.starts_with("the server was silent") {
            around.stage.figures.silences += 1;
            let calm = around.stage.calm;
            around
                .stage
                .check(!calm, Property::NoHarm, || "a healthy connection is given up".into());
        }
        self.carry(around);
        self.wake(around.stage);
        if self.core.is_over() {
            return;
        }
        match was_of_use {
            true => {
                self.failures = self.failures.min(3);
                self.pause(around.stage);
            }
            false => around.stage.after(0, Event::Dial),
        }
    }

    /// The reader finds that the connection was shut down here.
    pub(super) fn woken(&mut self, around: &mut Around<'_>, conn: usize) {
        if self.link == Some(conn) {
            self.ended(around, conn, "it was shut down");
        }
    }

    // ---- the timer

    /// The timer is to look at once.
    pub(super) fn wake(&mut self, stage: &mut Stage) {
        let now = self.now(stage);
        self.plan(stage, now.monotonic, 100);
    }

    fn plan(&mut self, stage: &mut Stage, instant: Instant, late: Time) {
        self.planned = instant;
        self.alarm += 1;
        let at = self.clocks.when(instant) + stage.some(late);
        stage.at(at, Event::Tick(self.alarm));
    }

    /// At the latest then.
    pub(super) fn plan_earlier(&mut self, stage: &mut Stage, instant: Instant) {
        if instant < self.planned {
            let late = stage.world.late;
            self.plan(stage, instant, late);
        }
    }

    pub(super) fn tick(&mut self, around: &mut Around<'_>, alarm: u64) {
        let stage = &mut *around.stage;
        let now = self.now(stage);
        if alarm != self.alarm {
            return;
        }
        if now.monotonic < self.planned {
            // The machine was suspended.
            return self.plan(stage, self.planned, 100);
        }
        if self.core.is_over() && self.link.is_none() {
            return;
        }
        let excuse = now.monotonic > self.expected + STALL && now.monotonic > self.excused;
        if excuse {
            // Once in a third of the session timeout will do.
            self.excused = now.monotonic + self.core.timeout() / 3 + STALL;
        }
        let was_doomed = self.core.is_doomed();
        let next = self.core.tick(now);
        self.expected = next;
        let given_up = !was_doomed && self.core.is_doomed() && self.core.is_open();
        let unread = self.link.is_some_and(|conn| around.network.has_unread(stage.now, conn));
        stage.check(!(given_up && unread && excuse), Property::NoHarm, || {
            "a connection is given up that has an answer".into()
        });
        stage.check(next > now.monotonic, Property::Liveness, || "the timer would spin".into());
        if let (true, Some(conn)) = (self.core.is_doomed(), self.link) {
            let later = stage.some(500);
            stage.after(later, Event::Woken(conn));
        }
        let late = stage.world.late;
        self.plan(stage, next, late);
        self.carry(around);
        self.check_deadlines(around.stage, now.monotonic, next);
    }

    // ---- what comes of it

    /// Sends what there is to be sent, and tells what there is to be told.
    pub(super) fn carry(&mut self, around: &mut Around<'_>) {
        let outputs = self.core.outputs();
        if let Some(conn) = self.link {
            if self.core.is_over() {
                let later = around.stage.some(500);
                around.stage.after(later, Event::Woken(conn));
            }
            let bytes = std::mem::take(self.core.out());
            if !bytes.is_empty() {
                around.network.send(around.stage, conn, Way::Up, bytes);
            }
        }
        let mut ended = false;
        for output in outputs {
            match output {
                Output::Answer(slot, result) => {
                    let outcome = match result {
                        Ok(()) => Outcome::Done,
                        Err(error) => Outcome::Failed(error.kind()),
                    };
                    self.settle(around, slot, outcome, &[]);
                }
                Output::Watched(ears, event, path) => {
                    self.watchers.told(around.stage, around.ensemble, &ears, event, &path);
                }
                Output::Session(event) => {
                    ended |= self.story.told(around.stage, around.ensemble, event);
                }
            }
        }
        if ended {
            let open = self.watchers.open();
            around.stage.check(open == 0, Property::Watches, || {
                format!("{open} watches were not told of the session's end")
            });
            self.remembered &= !self.core.is_over();
        }
        let looks = around.stage.world.looks;
        if around.stage.chance(looks) {
            self.look(around.stage, around.ensemble);
        }
    }
}
