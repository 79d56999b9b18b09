//! Random runs of the vital signs with simulated clocks, callers and servers: what is left of a
//! lease when a silent connection is declared dead, whether a lease ever outlives its session at
//! the leader, and what signs of life cost. It knows the pulse and timer threads by heart and
//! uses neither.

use std::collections::VecDeque;
use std::time::Duration;

use super::lease::{Lease, Proof};
use super::vitals::{Pulse, Verdict, Vitals};
use crate::clock::Moment;

const RUNS: u64 = 4000;
const NEVER: Duration = Duration::MAX;

// ---- chance

/// xorshift64*.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// At least 0, less than 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.fraction()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.fraction())
    }
}

// ---- the world of one run

/// What does not change during a run.
#[derive(Debug, Clone, Copy)]
struct World {
    timeout: Duration,
    tick: Duration,
    /// The slowest round trip of a write; reads skip the way to the leader.
    round_trip: Duration,
    /// One way between follower and leader.
    to_leader: Duration,
    /// When the leader sends its first ping to the follower.
    ping: Duration,
    pattern: Pattern,
}

impl World {
    fn random(rng: &mut Rng, slowest: f64) -> World {
        let timeout = Duration::from_secs(1).mul_f64(rng.between(1.0, 40.0));
        let ticks = if rng.chance(0.3) {
            2.0
        } else {
            rng.between(2.0, 20.0)
        };
        // Rounded down: two ticks are never more than the timeout.
        let tick = timeout.mul_f64(1.0 / ticks) - Duration::from_nanos(1);
        let round_trip = timeout.mul_f64(match rng.below(4) {
            0 => rng.between(0.001, 0.005),
            1 => rng.between(0.9, 1.0) * slowest,
            _ => rng.between(0.001, slowest),
        });
        World {
            timeout,
            tick,
            round_trip,
            to_leader: round_trip.mul_f64(rng.between(0.0, 0.4)),
            ping: rng.up_to(tick / 2),
            pattern: Pattern::ALL[rng.below(Pattern::ALL.len() as u64) as usize],
        }
    }

    fn share(&self, duration: Duration) -> f64 {
        duration.as_secs_f64() / self.timeout.as_secs_f64()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// No caller at all.
    Nobody,
    Idle,
    BurstsOfReads,
    ShortLocks,
    SparseWrites,
    Mixed,
}

impl Pattern {
    const ALL: [Pattern; 5] = [
        Pattern::Idle,
        Pattern::BurstsOfReads,
        Pattern::ShortLocks,
        Pattern::SparseWrites,
        Pattern::Mixed,
    ];

    fn callers(self, rng: &mut Rng) -> Vec<Habit> {
        use Habit::{Bursts, LongLocks, ShortLocks, SparseWrites};
        match self {
            Pattern::Nobody => vec![],
            Pattern::Idle => vec![LongLocks],
            Pattern::BurstsOfReads => vec![LongLocks, Bursts, Bursts],
            Pattern::ShortLocks if rng.chance(0.5) => vec![ShortLocks],
            Pattern::ShortLocks => vec![ShortLocks, LongLocks],
            Pattern::SparseWrites => vec![LongLocks, SparseWrites],
            Pattern::Mixed => vec![LongLocks, ShortLocks, Bursts, SparseWrites],
        }
    }
}

// ---- callers

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    LongLocks,
    ShortLocks,
    Bursts,
    SparseWrites,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Read,
    Write,
    Pause(Duration),
    Grant,
    Granted,
    Release,
}

/// A thread that makes one request after the other.
#[derive(Debug)]
struct Caller {
    habit: Habit,
    script: VecDeque<Step>,
    /// When it goes on; never while it waits for an answer.
    wakes: Duration,
}

impl Caller {
    fn plan(&mut self, rng: &mut Rng, timeout: Duration) {
        let mut pause =
            |least: f64, most: f64| Step::Pause(timeout.mul_f64(rng.between(least, most)));
        let script = match self.habit {
            Habit::LongLocks => {
                let (idle, wait) = (pause(0.0, 3.0), pause(0.0, 3.0));
                let hold = [pause(0.0, 0.1), pause(0.0, 4.0)][rng.below(2) as usize];
                let mut script = vec![idle, Step::Write, Step::Read];
                if rng.chance(0.6) {
                    script.extend([wait, Step::Read]);
                }
                script.extend([Step::Grant, hold, Step::Release, Step::Write]);
                script
            }
            Habit::ShortLocks => {
                let (hold, gap, rest) = (pause(0.0, 0.02), pause(0.0, 0.05), pause(0.0, 1.5));
                let lock = [Step::Write, Step::Read, Step::Grant, hold, Step::Release];
                let mut script: Vec<Step> = lock.into_iter().chain([Step::Write, gap]).collect();
                if rng.chance(0.02) {
                    script.push(rest);
                }
                script
            }
            Habit::Bursts => {
                let (gap, rest) = (pause(0.0, 0.02), pause(0.0, 1.0));
                let reads = 1 + rng.below(30) as usize;
                let burst = [Step::Read, gap].into_iter().cycle().take(2 * reads);
                burst.chain([rest]).collect()
            }
            Habit::SparseWrites => vec![pause(0.0, 2.0), Step::Write],
        };
        self.script.extend(script);
    }
}

// ---- faults

#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// No answer comes any more, from so far into the first hold granted at or after `armed`.
    Silence {
        armed: Duration,
        into_hold: f64,
    },
    /// The follower and its leader hear nothing of each other from then on. With `overtake`,
    /// reads are answered even behind a write that has no answer.
    Cut {
        at: Duration,
        overtake: bool,
    },
}

impl Fault {
    fn silence(rng: &mut Rng, timeout: Duration) -> Fault {
        Fault::Silence {
            armed: timeout.mul_f64(rng.between(0.0, 6.0)),
            into_hold: [0.0, 0.02, 1.0][rng.below(3) as usize] * rng.fraction(),
        }
    }

    fn cut(rng: &mut Rng, timeout: Duration) -> Fault {
        Fault::Cut {
            at: timeout.mul_f64(rng.between(1.0, 7.0)),
            overtake: rng.chance(0.5),
        }
    }
}

// ---- one run

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
struct Figures {
    probes: u64,
    heartbeats: u64,
    grants: u64,
    /// Heartbeats that a grant sent first.
    renewals: u64,
    /// A grant found no lease, which makes it kill the connection.
    refused: bool,
    pulse_looks: u64,
    timer_looks: u64,
    /// Least left of the lease while held, at any event.
    least_left: Option<Duration>,
    /// What was left when the connection was declared dead.
    death: Option<Duration>,
    /// The latest end that the lease ever had.
    lease_end: Duration,
}

struct Run {
    rng: Rng,
    world: World,
    fault: Fault,
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
    figures: Figures,
}

impl Run {
    /// Connects, proves the connection, and runs until `end` or the connection's death.
    fn live(mut rng: Rng, world: World, fault: Fault, end: f64) -> Run {
        let start = Moment::now();
        let first = world.round_trip;
        let habits = world.pattern.callers(&mut rng);
        let callers = habits.into_iter().map(|habit| Caller {
            habit,
            script: VecDeque::new(),
            wakes: first,
        });
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
        Moment {
            monotonic: self.start.monotonic + self.now,
            system: self.start.system + self.now,
        }
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
        let request = Request {
            number,
            sender,
            write,
            comes,
        };
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
        self.vitals
            .answered(request.number, self.moment(), Some(proof));
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
    fn expiry(&self) -> Duration {
        let Fault::Cut { at, .. } = self.fault else {
            return NEVER;
        };
        let mut heard = self.heard.iter().peekable();
        let (mut ping, mut last) = (self.world.ping, Duration::ZERO);
        while ping + self.world.to_leader * 2 <= at {
            let mut told = false;
            while heard
                .next_if(|at| **at <= ping + self.world.to_leader)
                .is_some()
            {
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

// ---- what is proved

/// The least of what the runs give, and the run that gave it.
#[derive(Debug)]
struct Least {
    value: f64,
    run: String,
}

impl Least {
    fn new() -> Least {
        Least {
            value: f64::MAX,
            run: String::new(),
        }
    }

    fn take(&mut self, value: f64, seed: u64, run: &Run) {
        if value < self.value {
            let (world, fault, figures) = (&run.world, &run.fault, &run.figures);
            self.value = value;
            self.run = format!("seed {seed}: {world:?}, {fault:?}, {figures:?}");
        }
    }
}

/// What is left at least, as shares of the session timeout.
fn promised(round_trip: f64) -> f64 {
    0.2 - 2.0 * round_trip
}

#[test]
fn enough_is_left_to_reconnect_when_a_holder_notices_silence() {
    let (mut left, mut above, mut refused) = (Least::new(), Least::new(), 0);
    for seed in 0..RUNS {
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng, 0.05);
        let fault = Fault::silence(&mut rng, world.timeout);
        let run = Run::live(rng, world, fault, 40.0);
        if run.figures.refused {
            refused += 1;
            continue;
        }
        let death = run.figures.death.map(|left| world.share(left));
        let death = death.unwrap_or_else(|| panic!("seed {seed}: never noticed: {world:?}"));
        left.take(death, seed, &run);
        let promised = promised(world.share(world.round_trip));
        above.take(death - promised, seed, &run);
    }
    println!("left at death, in T: {left:#?}, without {refused} runs that ended before");
    println!("above what is promised: {above:#?}");
    assert!(above.value >= 0.0, "{above:#?}");
}

#[test]
fn a_lease_ends_before_the_leader_of_a_cut_off_follower_expires_the_session() {
    let mut margin = Least::new();
    for seed in 0..RUNS {
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng, 0.05);
        let fault = Fault::cut(&mut rng, world.timeout);
        let run = Run::live(rng, world, fault, 10.0);
        let (end, expiry) = (run.figures.lease_end, run.expiry());
        let after = expiry.as_secs_f64() - end.as_secs_f64();
        margin.take(after / world.timeout.as_secs_f64(), seed, &run);
    }
    println!("from the lease's end to the session's, in T: {margin:#?}");
    assert!(margin.value > 0.0, "{margin:#?}");
}

#[test]
fn a_healthy_connection_is_never_lost_and_costs_at_most_a_heartbeat_a_quarter() {
    const LENGTH: f64 = 20.0;
    let (mut left, mut spare) = (Least::new(), Least::new());
    let mut most_looks = Least::new();
    for seed in 0..RUNS / 2 {
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng, 0.12);
        let run = Run::live(rng, world, Fault::None, LENGTH);
        let figures = &run.figures;
        let context = || format!("seed {seed}: {world:?}, {figures:?}");
        assert_eq!(figures.death, None, "{}", context());
        assert!(!figures.refused, "a grant found no lease: {}", context());
        if let Some(least) = figures.least_left {
            left.take(world.share(least), seed, &run);
        }
        let allowed = LENGTH * 4.0 + 2.0;
        spare.take(allowed - figures.heartbeats as f64, seed, &run);
        let looks = figures.pulse_looks - figures.grants.min(figures.pulse_looks);
        most_looks.take(-(looks as f64) / LENGTH, seed, &run);
    }
    println!("least left while held, in T: {left:#?}");
    println!("heartbeats below four a T and two: {spare:#?}");
    println!("looks of the pulse a T beside one a grant, negative: {most_looks:#?}");
    assert!(left.value > 0.0, "{left:#?}");
    assert!(spare.value >= 0.0, "{spare:#?}");
    assert!(-most_looks.value <= 40.0, "{most_looks:#?}");
}

#[test]
fn an_idle_client_costs_a_probe_a_quarter() {
    const LENGTH: f64 = 100.0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut world = World::random(&mut rng, 0.05);
        world.pattern = Pattern::Nobody;
        let run = Run::live(rng, world, Fault::None, LENGTH);
        let (figures, probes) = (&run.figures, run.figures.probes as f64);
        assert_eq!(figures.heartbeats, 0, "seed {seed}: {world:?}");
        let slowest = LENGTH / (0.25 + world.share(world.round_trip));
        assert!(
            (slowest - 2.0..=LENGTH * 4.0).contains(&probes),
            "seed {seed}: {probes} probes in {LENGTH} T: {world:?}"
        );
        assert!(
            figures.pulse_looks as f64 <= 3.0 * LENGTH * 4.0
                && figures.timer_looks as f64 <= 2.0 * LENGTH * 4.0,
            "seed {seed}: {figures:?}"
        );
        if seed == 0 {
            println!("idle for {LENGTH} T: {figures:?}");
        }
    }
}
