//! Draws a plan from its seed. If the order of the draws is changed, the plans of all seeds change.

use std::time::Duration;

use fastrand::Rng;

use super::rare::RARE;
use super::{
    AcquisitionPlan, ClientPlan, End, Fault, FaultKind, Kind, ObjectPlan, Operation, Options,
    Place, Plan, Step, Targets, Theme, ThreadPlan, Wait, What,
};

/// The maximum number of steps of most threads.
const STEPS: usize = 12;
/// The last number that a server can append to a node's name in a directory.
const LAST: i32 = i32::MAX;

/// Draws a time in milliseconds.
pub(crate) fn ms(random: &mut Rng, from: u64, to: u64) -> Duration {
    // Short times are more likely than long ones.
    let span = (to.max(from + 1) / from.max(1)).max(2) as f64;
    let share = span.powf(random.f64());
    Duration::from_micros((from.max(1) as f64 * 1000.0 * share) as u64)
}

impl Plan {
    /// Returns the plan of a seed. A fifth of the seeds use the plan of an earlier seed that has reached rare events,
    /// but run it with a new schedule.
    pub fn of(seed: u64) -> Plan {
        let first = match Plan::is_again(seed) {
            true => RARE[(seed / 5) as usize % RARE.len()],
            false => seed,
        };
        Plan { seed, ..Plan::draw(first) }
    }

    /// Returns whether a seed uses the plan of another seed.
    pub fn is_again(seed: u64) -> bool {
        seed % 5 == 4
    }

    fn draw(seed: u64) -> Plan {
        let random = &mut Rng::with_seed(seed ^ 0x5eed);
        let theme = Theme::draw(random);
        let servers = if theme == Theme::Behind || random.u8(..4) == 0 { 3 } else { 1 };
        let clients = theme.clients(random);
        let timeout = theme.timeout(random);
        let places = theme.places(random);
        let kinds = theme.kinds(random);
        let is_uniform = random.bool() || theme.has_one_place();
        let fixed = theme.options(random);
        let client = |_| {
            let (objects, threads) = theme.size(random);
            let object = |number: usize| {
                let kind = kinds[random.usize(..kinds.len())];
                let is_order = theme == Theme::Orders;
                let place = if is_order { number } else { random.usize(..places.len()) };
                let options = if is_uniform { fixed.clone() } else { Options::draw(random) };
                ObjectPlan { kind, place: places[place], options }
            };
            let objects: Vec<ObjectPlan> = (0..objects).map(object).collect();
            let thread = |_| ThreadPlan::draw(random, theme, &objects, &places);
            let threads = (0..threads).map(thread).collect();
            let (is_observed, is_lazy) = (random.u8(..5) == 0, random.u8(..6) == 0);
            ClientPlan { timeout, is_observed, is_lazy, objects, threads }
        };
        let mut clients: Vec<ClientPlan> = (0..clients).map(client).collect();
        if theme == Theme::Visitors {
            let is_alone = clients.len() == 1;
            for (number, client) in clients.iter_mut().enumerate() {
                client.visit(random, number == 0 && !is_alone, is_alone);
            }
        }
        let targets = Targets { theme, clients: clients.len(), servers, places: &places, timeout };
        let mut faults = targets.draw(random);
        // Half of the plans are shortened, and have more faults.
        let of_dense = &mut Rng::with_seed(seed ^ 0xde5e);
        if of_dense.bool() {
            faults.extend(targets.draw(of_dense));
            for thread in clients.iter_mut().flat_map(|client| &mut client.threads) {
                thread.steps.truncate(thread.steps.len().div_ceil(2));
            }
        }
        if theme == Theme::Weeding && kinds == [Kind::Semaphore] {
            // With other faults, it is not certain who acquires the lock next.
            faults.retain(Fault::is_of_operators);
        }
        if servers > 1 && theme != Theme::Gentle && random.u8(..3) == 0 {
            // One of the servers lags from the beginning, and clients list contenders.
            for thread in clients.iter_mut().flat_map(|client| &mut client.threads) {
                for _ in 0..2 {
                    let what = What::Contenders(places[random.usize(..places.len())]);
                    let step = Step { rest: ms(random, 1, 1_000), what };
                    thread.steps.insert(random.usize(..=thread.steps.len()), step);
                }
            }
            let lag =
                FaultKind::Lag { server: random.usize(..servers), time: ms(random, 1_000, 16_000) };
            faults.push(lag.at(ms(random, 1, 500)));
        }
        let is_used = random.u8(..16) == 0;
        let used = is_used.then(|| (LAST - random.i32(0..12), places.clone()));
        let latency = match theme {
            Theme::Impatient => ms(random, 2, 40),
            // Requests take longer, so that many things happen between a request and its answer.
            Theme::Groups if random.u8(..4) > 0 => ms(random, 5, 30),
            Theme::Mixed | Theme::Weeding if random.u8(..3) == 0 => ms(random, 2, 20),
            _ => ms(random, 1, 20) / 10,
        };
        let mut plan = Plan {
            seed,
            theme,
            servers,
            latency,
            has_names: false,
            always_lists: false,
            used,
            clients,
            raw: Vec::new(),
            faults,
        };
        plan.add_all(&places);
        plan.always_lists = random.u8(..8) == 0;
        plan
    }
}

impl ClientPlan {
    /// Makes the client one that holds locks for a long time, or one that acquires and releases them quickly.
    fn visit(&mut self, random: &mut Rng, stays: bool, is_alone: bool) {
        let count = self.objects.len();
        self.is_observed &= !is_alone;
        self.threads.truncate(if is_alone { 1 } else { 2 });
        for thread in &mut self.threads {
            thread.begins = if stays { ms(random, 1, 50) } else { ms(random, 50, 2_000) };
            let step = |_| {
                let object = random.usize(..count);
                if is_alone && random.u8(..3) == 0 {
                    let many = What::Acquisitions { object, count: random.u32(6..12) };
                    return Step::at_once(many);
                }
                let wait = if stays { Wait::Forever } else { Wait::For(ms(random, 20, 1_000)) };
                let time = if stays { ms(random, 500, 4_000) } else { ms(random, 1, 5) };
                let rest = if random.bool() { Duration::ZERO } else { ms(random, 1, 100) };
                let while_held = vec![Operation::Work(time)];
                let acquisition =
                    AcquisitionPlan { while_held, ..AcquisitionPlan::plain(object, wait) };
                Step { rest, what: What::Lock(acquisition) }
            };
            thread.steps = (0..if stays { 3 } else { 2 * STEPS }).map(step).collect();
        }
    }
}

impl Options {
    pub(super) fn draw(random: &mut Rng) -> Options {
        let hold_at_least = (random.u8(..6) == 0).then(|| ms(random, 10, 2_000));
        let longer = (random.u8(..10) == 0).then(|| ms(random, 100, 4_000));
        // Some holds expire before their threads are notified that they were granted.
        let longer = longer.map(|time| match time < Duration::from_millis(400) {
            true => Duration::from_nanos(1),
            false => time,
        });
        Options {
            identity: None,
            local_handoffs: if random.u8(..3) == 0 { random.u32(1..4) } else { 0 },
            background_release: random.u8(..3) == 0,
            hold_at_least,
            hold_at_most: longer.map(|time| time + hold_at_least.unwrap_or_default()),
            // At most a quarter of the shortest session timeout.
            margin: (random.u8(..6) == 0).then(|| ms(random, 1, 250)),
        }
    }
}

impl ThreadPlan {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan], places: &[Place]) -> Self {
        let begins = match theme {
            Theme::Contention | Theme::Weeding | Theme::Hidden => 50,
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups => 300,
            Theme::Orders => 20,
            _ => 2_000,
        };
        let begins = ms(random, 1, begins);
        if theme == Theme::Orders {
            let steps = (0..objects.len()).flat_map(|object| {
                let count = [0, 1, 1, 1, 1, 1, 2, 3][random.usize(..8)];
                (0..count).map(|_| Step::order(random, objects, object)).collect::<Vec<_>>()
            });
            return ThreadPlan { begins, steps: steps.collect() };
        }
        // With these themes, few calls acquire the lock, so a thread may make more of them.
        let most = if matches!(theme, Theme::Impatient | Theme::Stuck) { STEPS * 2 } else { STEPS };
        let steps = (0..random.usize(1..=most)).map(|_| Step::draw(random, theme, objects, places));
        ThreadPlan { begins, steps: steps.collect() }
    }
}

impl Step {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan], places: &[Place]) -> Step {
        let rest = match theme {
            Theme::Weeding | Theme::Behind => Duration::ZERO,
            _ if random.bool() => Duration::ZERO,
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups => ms(random, 1, 100),
            _ => ms(random, 1, 3_000),
        };
        let place = places[random.usize(..places.len())];
        let object = random.usize(..objects.len());
        let of = if theme == Theme::Meddlers { 16 } else { 48 };
        let what = match random.u8(..of) {
            _ if theme == Theme::Asked && random.u8(..4) == 0 => What::Revoke(place),
            _ if theme == Theme::Groups && random.u8(..6) == 0 => What::CancelWaiters { object },
            0 => What::Contenders(place),
            1 | 2 => What::Revoke(place),
            3 if theme != Theme::Gentle => What::BreakLock(place),
            4 => What::CancelWaiters { object },
            5 => What::Narrow { object, time: ms(random, 1, 1_000) },
            6 => What::PathsBelow,
            7 if random.u8(..4) == 0 && theme != Theme::Gentle => What::Close,
            _ => What::Lock(AcquisitionPlan::draw(random, theme, objects)),
        };
        Step { rest, what }
    }

    fn order(random: &mut Rng, objects: &[ObjectPlan], object: usize) -> Step {
        let rest = if random.bool() { Duration::ZERO } else { ms(random, 1, 100) };
        if random.u8(..12) == 0 {
            return Step { rest, what: What::CancelWaiters { object } };
        }
        let acquisition = AcquisitionPlan::draw(random, Theme::Orders, objects);
        Step { rest, what: What::Lock(AcquisitionPlan { object, ..acquisition }) }
    }
}

impl AcquisitionPlan {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan]) -> AcquisitionPlan {
        let object = random.usize(..objects.len());
        let wait = match random.u8(..4) {
            0 if !matches!(theme, Theme::Impatient | Theme::Groups) => Wait::Try,
            0 | 1 if theme == Theme::Asked => Wait::For(ms(random, 1, 1_000)),
            _ if theme == Theme::Impatient => Wait::For(ms(random, 1, 300)),
            0..3 if theme == Theme::Groups => Wait::For(ms(random, 300, 4_000)),
            1 => Wait::For(ms(random, 1, 8_000)),
            _ => Wait::Forever,
        };
        let connection = (random.u8(..8) == 0).then(|| ms(random, 0, 1_500));
        let wait = match (wait, connection) {
            (Wait::Forever, Some(limit)) => Wait::Connected(None, limit),
            (Wait::For(time), Some(limit)) => Wait::Connected(Some(time), limit),
            (wait, _) => wait,
        };
        let end = match random.u8(..12) {
            0 => End::Drop,
            1 => End::Panic,
            2 | 3 => End::Release,
            4 | 5 => End::Downgrade,
            _ => End::Unlock,
        };
        let count = if theme == Theme::Behind { 1 } else { random.usize(..4) };
        let operations = (0..count).map(|_| match theme {
            Theme::Impatient => Operation::Work(ms(random, 1, 100)),
            Theme::Orders if random.u8(..4) > 0 => Operation::Work(ms(random, 1, 100)),
            Theme::Stuck => Operation::Work(ms(random, 1, 1_000)),
            Theme::Groups if random.bool() => Operation::Work(ms(random, 100, 2_000)),
            Theme::Groups if random.u8(..4) == 0 => Operation::Also {
                object: random.usize(..objects.len()),
                wait: ms(random, 100, 4_000),
            },
            Theme::Behind => Operation::ReadAndWrite(ms(random, 10, 400)),
            Theme::Hidden | Theme::Weeding if random.bool() => {
                Operation::Work(ms(random, 500, 9_000))
            }
            Theme::Outages if random.bool() => Operation::Write,
            Theme::Outages if random.bool() => Operation::Work(ms(random, 200, 2_000)),
            _ => Operation::draw(random, theme, objects),
        });
        let (while_held, permits) = (operations.collect(), random.u32(1..=3));
        AcquisitionPlan { permits, while_held, end, ..AcquisitionPlan::plain(object, wait) }
    }
}

impl Operation {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan]) -> Operation {
        match random.u8(..12) {
            7.. if matches!(theme, Theme::Meddlers | Theme::Hidden) => {
                Operation::UntilAsked(ms(random, 1, 4_000))
            }
            5.. if theme == Theme::Asked => Operation::UntilAsked(ms(random, 1, 1_000)),
            0 => Operation::UntilAsked(ms(random, 1, 4_000)),
            1 => Operation::EnterAgain(random.u32(1..3), ms(random, 1, 2_000)),
            2 => Operation::ReadBelow,
            3 => Operation::Verify,
            4 | 5 => Operation::Write,
            7 if random.u8(..4) == 0 => Operation::Prolong(ms(random, 0, 3_000)),
            6 => Operation::Also {
                object: random.usize(..objects.len()),
                wait: ms(random, 1, 1_000),
            },
            _ => Operation::Work(ms(random, 1, 1_000)),
        }
    }
}
