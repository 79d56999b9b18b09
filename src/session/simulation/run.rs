//! One run: what happens next, until its end.

use std::collections::VecDeque;
use std::time::Duration;

use super::chance::Rng;
use super::world::{Caller, Fault, Step, World};
use crate::clock::Moment;
use crate::session::lease::{Lease, Proof};
use crate::session::vitals::{Pulse, Verdict, Vitals};

const NEVER: Duration = Duration::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Pulse,
    Caller(usize),
}

#[derive(Debug, Clone, Copy)]
struct Request {
    number: u64,
    sender: Sender,
    write: bool,
    /// When its answer is there.
    comes: Duration,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) probes: u64,
    pub(super) heartbeats: u64,
    pub(super) grants: u64,
    /// Heartbeats that a grant sent first.
    pub(super) renewals: u64,
    /// A grant found no lease, which makes it kill the connection.
    pub(super) refused: bool,
    pub(super) pulse_looks: u64,
    pub(super) timer_looks: u64,
    /// Least left of the lease while held, at any event.
    pub(super) least_left: Option<Duration>,
    /// What was left when the connection was declared dead.
    pub(super) death: Option<Duration>,
    /// The latest end that the lease ever had.
    pub(super) lease_end: Duration,
}

pub(super) struct Run {
    rng: Rng,
    pub(super) world: World,
    pub(super) fault: Fault,
    start: Moment,
    now: Duration,
    vitals: Vitals,
    held: usize,
    callers: Vec<Caller>,
    /// Answered in turn.
    in_flight: VecDeque<Request>,
    last_arrival: Duration,
    last_answer: Duration,
    /// When requests reached the follower.
    heard: Vec<Duration>,
    /// When the silence is planned to begin.
    silence: Duration,
    silent: bool,
    /// Never, while it waits for an answer.
    pulse_wakes: Duration,
    timer_wakes: Duration,
    pub(super) figures: Figures,
}

impl Run {
    /// Connects, proves the connection, and runs until `end` or the connection's death.
    pub(super) fn live(mut rng: Rng, world: World, fault: Fault, end: f64) -> Run {
        let start = Moment::now();
        let first = world.round_trip;
        let habits = world.pattern.callers(&mut rng);
        let callers =
            habits.into_iter().map(|habit| Caller { habit, script: VecDeque::new(), wakes: first });
        let lease = Lease::new(world.timeout, start, start.monotonic + first);
        let mut run = Run {
            callers: callers.collect(),
            rng,
            world,
            fault,
            start,
            now: first,
            vitals: Vitals::new(lease),
            held: 0,
            in_flight: VecDeque::new(),
            last_arrival: first,
            last_answer: first,
            heard: Vec::new(),
            silence: NEVER,
            silent: false,
            pulse_wakes: first,
            timer_wakes: first,
            figures: Figures::default(),
        };
        let end = world.timeout.mul_f64(end);
        while run.figures.death.is_none() && !run.figures.refused && run.step(end) {}
        run
    }

    /// What comes next, up to `end`: a fault before an answer, an answer before what follows it.
    fn step(&mut self, end: Duration) -> bool {
        let answer = self.in_flight.front().map_or(NEVER, |r| r.comes);
        let waking = self.callers.iter().map(|caller| caller.wakes);
        let caller = waking.min().unwrap_or(NEVER);
        let others = self.pulse_wakes.min(self.timer_wakes).min(caller);
        let next = answer.min(self.silence).min(others);
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        if self.held > 0 {
            let least = self.figures.least_left.unwrap_or(NEVER);
            self.figures.least_left = Some(least.min(self.left()));
        }
        match next {
            next if next == self.silence => self.fall_silent(),
            next if next == answer => self.take_answer(),
            next if next == caller => self.go_on(),
            next if next == self.pulse_wakes => self.look_at_pulse(),
            _ => self.look_at_timer(),
        }
        true
    }

    fn moment(&self) -> Moment {
        Moment { monotonic: self.start.monotonic + self.now, system: self.start.system + self.now }
    }

    fn left(&self) -> Duration {
        self.vitals.lease().remaining(self.moment())
    }

    // ---- the network

    fn send(&mut self, sender: Sender, write: bool) {
        let number = self.vitals.sending(self.moment(), write);
        let to_leader = self.world.to_leader * 2;
        let to_follower = (self.world.round_trip - to_leader).mul_f64(self.rng.between(0.5, 1.0));
        let there = self.rng.up_to(to_follower);
        self.last_arrival = self.last_arrival.max(self.now + there);
        self.heard.push(self.last_arrival);
        let served = self.last_arrival + if write { to_leader } else { Duration::ZERO };
        let mut comes = self.last_answer.max(served + (to_follower - there));
        if self.is_answered(served, write) {
            self.last_answer = comes;
        } else {
            comes = NEVER;
        }
        let request = Request { number, sender, write, comes };
        let overtaken = self.in_flight.iter().position(|r| r.comes > comes);
        let place = overtaken.unwrap_or(self.in_flight.len());
        self.in_flight.insert(place, request);
    }

    /// `served` is when the follower has all it needs for the answer.
    fn is_answered(&self, served: Duration, write: bool) -> bool {
        match self.fault {
            Fault::Cut { at, overtake } => {
                let stuck = self.in_flight.iter().any(|r| r.comes == NEVER);
                (!write || served <= at) && (overtake || !stuck)
            }
            Fault::None | Fault::Silence { .. } => !self.silent,
        }
    }

    fn take_answer(&mut self) {
        let Some(request) = self.in_flight.pop_front() else {
            return;
        };
        let proof = match request.write {
            true => Proof::Leader,
            false => Proof::Server,
        };
        self.vitals.answered(request.number, self.moment(), Some(proof));
        let left = self.left();
        if !left.is_zero() {
            self.figures.lease_end = self.figures.lease_end.max(self.now + left);
        }
        match request.sender {
            Sender::Pulse => self.pulse_wakes = self.now,
            Sender::Caller(index) => self.callers[index].wakes = self.now,
        }
    }

    fn fall_silent(&mut self) {
        self.silence = NEVER;
        self.silent = true;
        self.in_flight.iter_mut().for_each(|r| r.comes = NEVER);
    }

    // ---- the callers

    fn go_on(&mut self) {
        let now = self.now;
        let Some(index) = self.callers.iter().position(|c| c.wakes <= now) else {
            return;
        };
        let caller = &mut self.callers[index];
        if caller.script.is_empty() {
            caller.plan(&mut self.rng, self.world.timeout);
        }
        let Some(step) = caller.script.pop_front() else {
            return;
        };
        caller.wakes = match step {
            Step::Pause(pause) => now + pause,
            Step::Grant | Step::Granted => now,
            // Nobody releases in the silence: what the hold has left is the question.
            Step::Release if !self.silent => now,
            _ => NEVER,
        };
        match step {
            Step::Read => self.send(Sender::Caller(index), false),
            Step::Write => self.send(Sender::Caller(index), true),
            Step::Grant => self.grant(index),
            Step::Granted => self.granted(index),
            Step::Release if !self.silent => self.held -= 1,
            Step::Pause(_) | Step::Release => {}
        }
    }

    /// As `Session::grant` has it.
    fn grant(&mut self, index: usize) {
        let script = &mut self.callers[index].script;
        script.push_front(Step::Granted);
        if self.vitals.lease().remaining(self.moment()) < self.world.timeout / 20 * 9 {
            self.callers[index].script.push_front(Step::Write);
            self.figures.renewals += 1;
        }
    }

    fn granted(&mut self, index: usize) {
        self.figures.refused = self.left().is_zero();
        self.held += 1;
        self.figures.grants += 1;
        self.timer_wakes = self.timer_wakes.min(self.now + self.tick());
        if self.pulse_wakes != NEVER {
            let due = self.vitals.lease().write_due();
            let due = due.saturating_duration_since(self.start.monotonic);
            let watch = self.now + self.vitals.lease().step();
            self.pulse_wakes = self.pulse_wakes.min(due.min(watch));
        }
        if let Fault::Silence { armed, into_hold } = self.fault
            && let Some(Step::Pause(hold)) = self.callers[index].script.front()
            && self.now >= armed
            && self.silence == NEVER
            && !self.silent
        {
            self.silence = self.now + hold.mul_f64(into_hold);
        }
    }

    // ---- the threads of the library

    /// As `pulse::run` has it.
    fn look_at_pulse(&mut self) {
        self.figures.pulse_looks += 1;
        let held = self.held > 0;
        match self.vitals.pulse(self.moment().monotonic, held) {
            Pulse::Rest(until) => self.pulse_wakes = until - self.start.monotonic,
            wanted => {
                self.pulse_wakes = NEVER;
                match wanted == Pulse::Write {
                    true => self.figures.heartbeats += 1,
                    false => self.figures.probes += 1,
                }
                self.send(Sender::Pulse, wanted == Pulse::Write);
            }
        }
    }

    /// As `timer::run` has it, except that a cut follower's client is left alive, so that only
    /// its lease can end its hold.
    fn look_at_timer(&mut self) {
        self.figures.timer_looks += 1;
        let held = self.held > 0;
        self.timer_wakes = self.now + self.world.timeout;
        if held {
            self.timer_wakes = self.now + self.tick();
        }
        match self.vitals.verdict(self.moment().monotonic, held, None) {
            Verdict::Alive(until) => {
                let until = until - self.start.monotonic;
                assert!(until > self.now, "the timer would spin at {:?}", self.now);
                self.timer_wakes = self.timer_wakes.min(until);
            }
            Verdict::Silent(_) if matches!(self.fault, Fault::Cut { .. }) => {}
            Verdict::Silent(_) => self.figures.death = Some(self.left()),
        }
    }

    fn tick(&self) -> Duration {
        (self.world.timeout / 20).min(Duration::from_millis(100))
    }

    // ---- the leader

    /// When the leader expires the session: a timeout after the last of its pings whose answer
    /// came back and told of a request.
    pub(super) fn expiry(&self) -> Duration {
        let Fault::Cut { at, .. } = self.fault else {
            return NEVER;
        };
        let mut heard = self.heard.iter().peekable();
        let (mut ping, mut last) = (self.world.ping, Duration::ZERO);
        while ping + self.world.to_leader * 2 <= at {
            let mut told = false;
            while heard.next_if(|at| **at <= ping + self.world.to_leader).is_some() {
                told = true;
            }
            if told {
                last = ping + self.world.to_leader * 2;
            }
            ping += self.world.tick / 2;
        }
        last + self.world.timeout
    }
}
