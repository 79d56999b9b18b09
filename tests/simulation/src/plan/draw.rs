//! Draws a plan from its seed. The order of the draws is part of a seed's meaning.

use std::mem;
use std::time::Duration;

use fastrand::Rng;

use super::{
    ClientPlan, DeadlockPlan, Deed, End, Fault, FrameFault, Kind, Meddling, ObjectPlan, Odd, Of,
    Options, Place, Plan, Plant, Step, Theme, ThreadPlan, Trouble, Wait, What,
};
use crate::raw;

/// Limits of most plans.
const CLIENTS: usize = 4;
const THREADS: usize = 4;
const STEPS: usize = 12;
const OBJECTS: usize = 5;
/// Limit on the threads of a client in a crowd.
const CROWD: usize = 8;
/// Number of clients in a herd, and number of objects and threads of each.
const HERD: usize = 8;
const QUEUE: usize = 2;
/// A directory has no numbers after this one.
const LAST: i32 = i32::MAX;

/// Weights of the themes. Themes with rare findings have more weight.
const THEMES: [(Theme, usize); 19] = [
    (Theme::Mixed, 8),
    (Theme::Frames, 4),
    (Theme::Gentle, 8),
    (Theme::Crowd, 3),
    (Theme::Herd, 1),
    (Theme::Numbers, 2),
    (Theme::Visitors, 2),
    (Theme::Kept, 2),
    (Theme::Weeding, 8),
    (Theme::Behind, 3),
    (Theme::Outages, 4),
    (Theme::Short, 2),
    (Theme::Hidden, 2),
    (Theme::Meddlers, 2),
    (Theme::Asked, 6),
    (Theme::Impatient, 2),
    (Theme::Stuck, 4),
    (Theme::Groups, 6),
    (Theme::Orders, 4),
];

pub(crate) fn ms(random: &mut Rng, from: u64, to: u64) -> Duration {
    // Short times are more likely than long ones.
    let span = (to.max(from + 1) / from.max(1)).max(2) as f64;
    let share = span.powf(random.f64());
    Duration::from_micros((from.max(1) as f64 * 1000.0 * share) as u64)
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let mut random = Rng::with_seed(seed ^ 0x5eed);
        let random = &mut random;
        let theme = Theme::draw(random);
        let servers = if theme == Theme::Behind || random.u8(..4) == 0 { 3 } else { 1 };
        let clients = theme.clients(random);
        let tick = Duration::from_millis(500);
        let timeout = theme.timeout(random);
        let places = theme.places(random);
        let kinds = theme.kinds(random);
        let is_uniform = random.bool() || theme.has_one_place();
        let fixed = theme.options(random);
        let mut clients: Vec<ClientPlan> = (0..clients)
            .map(|_| {
                let (objects, threads) = theme.size(random);
                let objects: Vec<ObjectPlan> = (0..objects)
                    .map(|number| {
                        let kind = kinds[random.usize(..kinds.len())];
                        let place = match theme {
                            Theme::Orders => number,
                            _ => random.usize(..places.len()),
                        };
                        let kind = match theme {
                            Theme::Numbers if place == 0 => Kind::Exclusive,
                            Theme::Numbers => Kind::Single,
                            _ => kind,
                        };
                        let place = places[place];
                        let options =
                            if is_uniform { fixed.clone() } else { Options::draw(random) };
                        ObjectPlan { kind, place, options }
                    })
                    .collect();
                let threads = (0..threads)
                    .map(|_| ThreadPlan::draw(random, theme, &objects, &places))
                    .collect();
                let is_observed = random.u8(..5) == 0;
                let is_lazy = random.u8(..6) == 0;
                let deadlocks = None;
                ClientPlan { timeout, is_observed, is_lazy, deadlocks, objects, threads }
            })
            .collect();
        if matches!(theme, Theme::Numbers | Theme::Visitors) {
            let is_alone = clients.len() == 1;
            for (number, client) in clients.iter_mut().enumerate() {
                client.visit(random, theme, number == 0 && !is_alone, is_alone);
            }
        }
        let mut faults = Fault::draw_all(random, theme, clients.len(), servers, &places, timeout);
        if theme == Theme::Weeding && kinds == [Kind::Semaphore] {
            // Only then it is certain who makes a turn again.
            faults.retain(Fault::is_of_operators);
        }
        if servers > 1 && !matches!(theme, Theme::Gentle | Theme::Herd) && random.u8(..3) == 0 {
            // One server lags from the start, and clients look at the locks.
            for thread in clients.iter_mut().flat_map(|client| &mut client.threads) {
                for _ in 0..2 {
                    let what = What::Contenders(places[random.usize(..places.len())]);
                    let step = Step { rest: ms(random, 1, 1_000), what };
                    thread.steps.insert(random.usize(..=thread.steps.len()), step);
                }
            }
            let what =
                Trouble::Lag { server: random.usize(..servers), time: ms(random, 1_000, 16_000) };
            faults.push(Fault::At { when: ms(random, 1, 500), what });
        }
        let is_used = theme != Theme::Herd && random.u8(..16) == 0;
        let used = is_used.then(|| (LAST - random.i32(0..12), places.clone()));
        let latency = match theme {
            Theme::Impatient => ms(random, 2, 40),
            // Much happens between a request and its answer.
            Theme::Groups if random.u8(..4) > 0 => ms(random, 5, 30),
            Theme::Mixed | Theme::Weeding if random.u8(..3) == 0 => ms(random, 2, 20),
            _ => ms(random, 1, 20) / 10,
        };
        let mut plan = Plan {
            seed,
            theme,
            servers,
            tick,
            latency,
            has_names: false,
            always_lists: false,
            used,
            clients,
            raw: Vec::new(),
            faults,
        };
        // The judge of programs relies on every answer, so a plan with oddities has no programs.
        if !plan.add_oddities(&places) {
            raw::add(&mut plan);
        }
        plan.leave_a_clock();
        plan.add_objects();
        plan.add_circles();
        plan.add_aborts();
        plan.add_delays();
        plan.add_robberies();
        plan.add_ends();
        plan.always_lists = random.u8(..8) == 0;
        plan
    }

    /// Keeps a machine from being paused if its system clock is set back. No clock would show it that time has passed.
    fn leave_a_clock(&mut self) {
        let sets_back = |fault: &Fault| match fault {
            Fault::At { what: Trouble::ClockStep { client, milliseconds }, .. } => {
                (*milliseconds < 0).then_some(*client)
            }
            _ => None,
        };
        let set_back: Vec<usize> = self.faults.iter().filter_map(sets_back).collect();
        for fault in &mut self.faults {
            if let Fault::At { what: Trouble::Sleep { client, is_paused, .. }, .. } = fault {
                *is_paused &= !set_back.contains(client);
            }
        }
    }

    /// Adds rare actions to some plans. Returns whether it did so.
    fn add_oddities(&mut self, places: &[Place]) -> bool {
        let random = &mut Rng::with_seed(self.seed ^ 0x0dd);
        if self.theme == Theme::Herd || random.u8(..3) > 0 {
            return false;
        }
        self.has_names = random.u8(..4) == 0;
        if self.has_names && self.theme != Theme::Gentle && random.bool() {
            self.faults.extend(Fault::draw_moves(random, self.servers));
        }
        for _ in 0..random.usize(1..5) {
            let client = random.usize(..self.clients.len());
            match random.u8(..4) {
                0 | 1 => self.add_deed(random, client),
                2 => self.clients[client].add_odd(random),
                _ if self.theme != Theme::Gentle => {
                    let time = ms(random, 5, 3_000);
                    self.faults.push(Fault::draw_odd(random, client, places, time));
                }
                _ => {}
            }
        }
        true
    }

    /// Lets objects differ in their options, and calls have objects for themselves, in some plans.
    fn add_objects(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0x0bec7);
        let is_of_its_own =
            matches!(self.theme, Theme::Herd | Theme::Numbers | Theme::Visitors | Theme::Behind);
        if is_of_its_own || random.bool() {
            return;
        }
        let drops = self.theme != Theme::Gentle && random.u8(..4) == 0;
        for client in &mut self.clients {
            for object in &mut client.objects {
                match random.u8(..8) {
                    0 | 1 => object.options.identity = Some(random.u8(1..=2)),
                    2 => object.options = Options::draw(random),
                    _ => {}
                }
            }
            let objects = client.objects.len();
            for step in client.threads.iter_mut().flat_map(|thread| &mut thread.steps) {
                match &mut step.what {
                    What::Lock { is_fresh, while_held, .. } => {
                        *is_fresh = random.bool();
                        if random.u8(..6) == 0 {
                            while_held.push(Deed::Second { is_behind: random.bool() });
                        }
                    }
                    what if drops && random.bool() => {
                        let (object, time) = (random.usize(..objects), ms(random, 1, 1_000));
                        *what = What::Odd { object, odd: Odd::DropHeld, time };
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lets calls look for deadlocks soon, in some plans, and threads wait for each other in circles.
    fn add_circles(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0xc1c1e);
        if matches!(self.theme, Theme::Herd | Theme::Numbers | Theme::Visitors)
            || random.u8(..4) > 0
        {
            return;
        }
        // Leaders wait, too, and no call can see that.
        let objects = self.clients.iter().flat_map(|client| &client.objects);
        let has_leaders = objects.map(|object| object.kind).any(|kind| kind == Kind::Leadership);
        let (common, is_common) = (ms(random, 20, 500), random.bool() && !has_leaders);
        if is_common && random.u8(..4) > 0 {
            self.faults.clear();
            if random.bool() {
                self.use_two_locks([Place(random.usize(..5)), Place(5)]);
            }
        }
        for client in &mut self.clients {
            let after = if is_common { common } else { ms(random, 20, 1_500) };
            let fails = is_common || random.bool();
            client.deadlocks = Some(DeadlockPlan { after, fails, is_common });
            let count = client.objects.len();
            for step in client.threads.iter_mut().flat_map(|thread| &mut thread.steps) {
                let What::Lock { while_held, .. } = &mut step.what else {
                    continue;
                };
                if random.u8(..3) > 0 {
                    let (object, wait) = (random.usize(..count), ms(random, 500, 8_000));
                    while_held.insert(0, Deed::Also { object, wait });
                    while_held.insert(0, Deed::Work(ms(random, 1, 100)));
                }
            }
        }
    }

    /// Leaves one thread of each client, and two locks for all, so that nothing hides a circle of machines.
    fn use_two_locks(&mut self, places: [Place; 2]) {
        for client in &mut self.clients {
            client.threads.truncate(1);
            for (object, place) in client.objects.iter_mut().zip(places.into_iter().cycle()) {
                *object = ObjectPlan { kind: Kind::Exclusive, place, options: Options::default() };
            }
        }
    }

    /// Has threads work until their holds are over by the clock, or prolong them right then or before.
    fn add_ends(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0xe2d);
        for client in &mut self.clients {
            let objects = &client.objects;
            let steps = client.threads.iter_mut().flat_map(|thread| &mut thread.steps);
            for step in steps {
                let What::Lock { object, while_held, .. } = &mut step.what else {
                    continue;
                };
                let options = &objects[*object].options;
                if options.hold_at_least.is_some() && random.u8(..6) == 0 {
                    while_held.insert(0, Deed::Prolong(ms(random, 0, 100)));
                }
                if options.hold_at_most.is_some() && random.bool() {
                    while_held.push(Deed::UntilDue);
                    while_held.push(match random.bool() {
                        true => Deed::Prolong(ms(random, 0, 1_000)),
                        false => Deed::Second { is_behind: false },
                    });
                }
            }
        }
    }

    /// Has a program end itself when it loses a hold, in some plans with faults.
    fn add_aborts(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0xab027);
        if self.theme == Theme::Gentle || self.is_steady() || random.u8(..8) > 0 {
            return;
        }
        if let Some(client) = random.choice(&mut self.clients) {
            let objects = client.objects.iter_mut();
            objects.for_each(|object| object.options.abort_on_loss = true);
        }
    }

    /// Gives the exclusive locks of some plans a lock-delay. An operator ends delays, and deletes the nodes of holders
    /// and of those that wait for the end of a delay.
    fn add_delays(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0xde1a7);
        if random.u8(..8) > 0 {
            return;
        }
        let deletes = self.theme != Theme::Gentle && !self.is_steady();
        for client in &mut self.clients {
            for object in &mut client.objects {
                use Kind::{Exclusive, Leadership, Reentrant, Several};
                if !matches!(object.kind, Exclusive | Reentrant | Several | Leadership) {
                    continue;
                }
                // A call looks at its node once a session timeout.
                let least = if random.bool() { Duration::ZERO } else { client.timeout };
                let (lock_delay, keep_idle) = (Some(least + ms(random, 1, 2_000)), None);
                let options = mem::take(&mut object.options);
                object.options = Options { lock_delay, keep_idle, local_handoffs: 0, ..options };
                for _ in 0..random.usize(..3) {
                    let faults = Fault::draw_delay(random, object.place, self.latency, deletes);
                    self.faults.extend(faults);
                }
            }
        }
    }

    /// Has an operator delete the nodes of holds of several locks.
    fn add_robberies(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0x0b5);
        let mut objects = self.clients.iter().flat_map(|client| &client.objects);
        let has_several = objects.any(|object| object.kind == Kind::Several);
        if !has_several || self.theme == Theme::Gentle || self.is_steady() || random.u8(..3) > 0 {
            return;
        }
        let time =
            |random: &mut Rng| Fault::At { when: ms(random, 10, 10_000), what: Trouble::Rob };
        let robberies: Vec<_> = (0..random.usize(1..6)).map(|_| time(random)).collect();
        self.faults.extend(robberies);
    }

    fn add_deed(&mut self, random: &mut Rng, client: usize) {
        let is_gentle = self.theme == Theme::Gentle;
        let threads = &mut self.clients[client].threads;
        let thread = random.usize(..threads.len());
        let locks = threads[thread].steps.iter_mut().filter_map(|step| match &mut step.what {
            What::Lock { while_held, .. } => Some(while_held),
            _ => None,
        });
        for deeds in locks {
            let odd = match random.u8(..12) {
                0..3 => Deed::ReadAndWrite(ms(random, 1, 300)),
                3 => Deed::CreateAgain,
                4..6 => Deed::WriteLate(ms(random, 1, 400)),
                6 | 7 => Deed::Second { is_behind: random.bool() },
                8 if !is_gentle => {
                    // The session ends while the lock is entered again.
                    let time = ms(random, 1, 500);
                    deeds.insert(0, Deed::EnterAgain(2, time * 2));
                    deeds.insert(0, Deed::Expire(time));
                    continue;
                }
                _ => continue,
            };
            deeds.insert(random.usize(..=deeds.len()), odd);
        }
    }
}

impl Theme {
    fn draw(random: &mut Rng) -> Theme {
        let all = THEMES.iter().flat_map(|(theme, share)| std::iter::repeat_n(*theme, *share));
        let all: Vec<Theme> = all.collect();
        all[random.usize(..all.len())]
    }

    /// Draws the number of clients.
    fn clients(self, random: &mut Rng) -> usize {
        match self {
            Theme::Crowd => random.usize(1..=2),
            Theme::Herd => HERD,
            Theme::Visitors => random.usize(1..=3),
            Theme::Numbers | Theme::Kept | Theme::Behind => random.usize(2..=3),
            Theme::Weeding => random.usize(2..=CLIENTS),
            Theme::Asked | Theme::Groups => random.usize(2..CLIENTS),
            Theme::Impatient | Theme::Stuck => 1 + random.usize(..3) / 2,
            _ => random.usize(1..=CLIENTS),
        }
    }

    /// Draws the session timeout.
    fn timeout(self, random: &mut Rng) -> Duration {
        let timeouts = [1_000, 2_000, 4_000, 10_000];
        Duration::from_millis(match self {
            Theme::Short
            | Theme::Hidden
            | Theme::Kept
            | Theme::Weeding
            | Theme::Stuck
            | Theme::Groups => 1_000,
            Theme::Impatient => 10_000,
            Theme::Outages => timeouts[random.usize(..2)],
            _ => timeouts[random.usize(..timeouts.len())],
        })
    }

    /// Draws the places of the locks. They are few, so that clients meet.
    fn places(self, random: &mut Rng) -> Vec<Place> {
        match self {
            Theme::Numbers => (5..Place::SHARED).map(Place).collect(),
            Theme::Orders => (Place::SHARED..Place::ALL.len()).map(Place).collect(),
            _ if self.has_one_place() || matches!(self, Theme::Asked | Theme::Impatient) => {
                vec![Place(random.usize(..Place::SHARED))]
            }
            Theme::Groups => vec![Place(0), Place(5)],
            _ => {
                let count = random.usize(1..=if self == Theme::Gentle { 2 } else { 3 });
                (0..count).map(|_| Place(random.usize(..Place::SHARED))).collect()
            }
        }
    }

    /// Draws the kinds of locks.
    fn kinds(self, random: &mut Rng) -> Vec<Kind> {
        match self {
            Theme::Numbers => vec![Kind::Exclusive, Kind::Single],
            Theme::Herd => vec![Kind::Exclusive],
            Theme::Visitors => {
                let first = if random.bool() { Kind::Exclusive } else { Kind::Reentrant };
                vec![first, Kind::Write, Kind::Read, Kind::Read]
            }
            Theme::Kept | Theme::Behind => vec![Kind::Exclusive, Kind::Reentrant],
            Theme::Weeding if random.u8(..4) == 0 => vec![Kind::Semaphore],
            Theme::Weeding | Theme::Outages | Theme::Hidden | Theme::Orders => {
                let kinds = [Kind::Exclusive, Kind::Reentrant, Kind::Write, Kind::Read];
                (0..2).map(|_| kinds[random.usize(..kinds.len())]).collect()
            }
            Theme::Crowd if random.u8(..3) == 0 => vec![Kind::Semaphore],
            Theme::Asked if random.u8(..3) == 0 => vec![Kind::Semaphore],
            Theme::Asked => vec![Kind::Single],
            Theme::Groups => vec![Kind::Several, Kind::Exclusive],
            Theme::Stuck if random.u8(..6) == 0 => vec![Kind::Several],
            Theme::Impatient | Theme::Stuck => {
                let kinds = [Kind::Exclusive, Kind::Write, Kind::Single, Kind::Semaphore];
                // The semaphore has double weight, because its calls wait for the most.
                vec![kinds[random.usize(..=kinds.len()).min(kinds.len() - 1)]]
            }
            _ => {
                let count = random.usize(1..=4);
                (0..count).map(|_| Kind::ALL[random.usize(..Kind::ALL.len())]).collect()
            }
        }
    }

    /// Draws the options of all objects if they share them.
    fn options(self, random: &mut Rng) -> Options {
        match self {
            Theme::Herd | Theme::Visitors | Theme::Behind => Options::default(),
            Theme::Kept => {
                Options { keep_idle: Some(ms(random, 6_000, 60_000)), ..Options::default() }
            }
            Theme::Weeding => Options { observes_queue: random.bool(), ..Options::default() },
            Theme::Outages => Options {
                local_handoffs: random.u32(1..4),
                observes_queue: random.bool(),
                ..Options::default()
            },
            Theme::Crowd if random.bool() => {
                Options { local_handoffs: random.u32(1..4), ..Options::default() }
            }
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups | Theme::Orders
                if random.bool() =>
            {
                Options::default()
            }
            Theme::Short if random.bool() => Options { observes_queue: true, ..Options::default() },
            _ => Options::draw(random),
        }
    }

    /// Draws the number of objects and of threads of a client.
    fn size(self, random: &mut Rng) -> (usize, usize) {
        match self {
            Theme::Crowd => (random.usize(1..=2), random.usize(3..=CROWD)),
            Theme::Herd => (QUEUE, QUEUE),
            Theme::Impatient => (1 + random.usize(..3) / 2, random.usize(2..=CROWD)),
            Theme::Stuck => (random.usize(1..=3), random.usize(1..=3)),
            Theme::Weeding | Theme::Outages => (random.usize(1..=3), random.usize(2..=5)),
            Theme::Visitors => (4, random.usize(1..=2)),
            Theme::Kept | Theme::Behind => (1, random.usize(1..=2)),
            Theme::Orders => (Place::ALL.len() - Place::SHARED, random.usize(1..=2)),
            _ => (random.usize(1..=OBJECTS), random.usize(1..=THREADS)),
        }
    }

    /// Returns whether all locks have the same path and options.
    fn has_one_place(self) -> bool {
        matches!(
            self,
            Theme::Crowd
                | Theme::Herd
                | Theme::Visitors
                | Theme::Kept
                | Theme::Weeding
                | Theme::Hidden
                | Theme::Behind
                | Theme::Outages
                | Theme::Stuck
        )
    }
}

impl ClientPlan {
    /// Turns the client into one that stays for long, or one that comes and goes.
    fn visit(&mut self, random: &mut Rng, theme: Theme, stays: bool, is_alone: bool) {
        let is_numbers = theme == Theme::Numbers;
        if is_numbers {
            // The single nodes in the order of their names, and the queue in their directory.
            let first = random.usize(6..8);
            let places = if stays { 5..6 } else { first..Place::SHARED };
            let object = |place: usize| ObjectPlan {
                kind: if place == 5 { Kind::Exclusive } else { Kind::Single },
                place: Place(place),
                options: Options::default(),
            };
            let queue = (!stays).then(|| object(5));
            self.objects = places.map(object).chain(queue).collect();
            if !stays && random.bool() {
                // The last single node is left out.
                self.objects.swap_remove(self.objects.len() - 2);
            }
        }
        let count = self.objects.len();
        self.is_observed &= !is_alone;
        self.threads.truncate(if is_numbers || is_alone { 1 } else { 2 });
        for thread in &mut self.threads {
            thread.begins = if stays { ms(random, 1, 50) } else { ms(random, 50, 2_000) };
            let step = |number: usize| {
                let object = if is_numbers { number % count } else { random.usize(..count) };
                if is_alone && random.u8(..3) == 0 {
                    let turns = What::Turns { object, count: random.u32(6..12) };
                    return Step { rest: Duration::ZERO, what: turns };
                }
                let wait = match stays {
                    true => Wait::Forever,
                    false => Wait::For(ms(random, 20, 1_000)),
                };
                let time = if stays { ms(random, 500, 4_000) } else { ms(random, 1, 5) };
                let (while_held, end) = (vec![Deed::Work(time)], End::Unlock);
                let rest = if random.bool() { Duration::ZERO } else { ms(random, 1, 100) };
                let (permits, is_fresh) = (1, false);
                let what = What::Lock { object, is_fresh, wait, permits, while_held, end };
                Step { rest, what }
            };
            thread.steps = (0..if stays { 3 } else { 2 * STEPS }).map(step).collect();
        }
    }

    fn add_odd(&mut self, random: &mut Rng) {
        let thread = random.usize(..self.threads.len());
        let object = random.usize(..self.objects.len());
        let odd = match random.u8(..8) {
            0 | 1 => Odd::Unlock,
            2 | 3 => Odd::DropHeld,
            4 => Odd::LongPaths { are_stuck: random.bool() },
            5 => Odd::Visit { is_cut: random.bool() },
            _ => Odd::Resign { waits: random.bool() },
        };
        let steps = &mut self.threads[thread].steps;
        let what = What::Odd { object, odd, time: ms(random, 1, 1_000) };
        let step = Step { rest: ms(random, 1, 1_000), what };
        steps.insert(random.usize(..=steps.len()), step);
    }
}

impl Options {
    fn draw(random: &mut Rng) -> Options {
        let hold_at_least = (random.u8(..6) == 0).then(|| ms(random, 10, 2_000));
        let longer = (random.u8(..10) == 0).then(|| ms(random, 100, 4_000));
        Options {
            identity: None,
            local_handoffs: if random.u8(..3) == 0 { random.u32(1..4) } else { 0 },
            keep_idle: (random.u8(..3) == 0).then(|| ms(random, 10, 20_000)),
            background_release: random.u8(..3) == 0,
            hold_at_least,
            hold_at_most: longer.map(|time| time + hold_at_least.unwrap_or_default()),
            abort_on_loss: false,
            lock_delay: None,
            observes_queue: random.u8(..6) == 0,
        }
    }
}

impl ThreadPlan {
    fn draw(
        random: &mut Rng,
        theme: Theme,
        objects: &[ObjectPlan],
        places: &[Place],
    ) -> ThreadPlan {
        let begins = match theme {
            Theme::Crowd | Theme::Herd | Theme::Weeding | Theme::Hidden => 50,
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups => 300,
            Theme::Orders => 20,
            _ => 2_000,
        };
        let begins = ms(random, 1, begins);
        if theme == Theme::Orders {
            let steps = (0..objects.len()).flat_map(|object| {
                let turns = [0, 1, 1, 1, 1, 1, 2, 3][random.usize(..8)];
                (0..turns).map(|_| Step::order(random, objects, object)).collect::<Vec<_>>()
            });
            return ThreadPlan { begins, steps: steps.collect() };
        }
        // Under these themes calls seldom get the lock, so a thread may make more of them.
        let most = if matches!(theme, Theme::Impatient | Theme::Stuck) { STEPS * 2 } else { STEPS };
        let steps = (0..random.usize(1..=most)).map(|_| Step::draw(random, theme, objects, places));
        ThreadPlan { begins, steps: steps.collect() }
    }
}

impl Step {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan], places: &[Place]) -> Step {
        let rest = match theme {
            Theme::Herd | Theme::Weeding | Theme::Behind => Duration::ZERO,
            _ if random.bool() => Duration::ZERO,
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups => ms(random, 1, 100),
            _ => ms(random, 1, 3_000),
        };
        let place = places[random.usize(..places.len())];
        let object = random.usize(..objects.len());
        let of = if theme == Theme::Meddlers { 16 } else { 48 };
        let what = match random.u8(..of) {
            _ if theme == Theme::Herd => Step::lock(random, theme, objects),
            _ if theme == Theme::Asked && random.u8(..4) == 0 => What::Revoke(place),
            _ if theme == Theme::Groups && random.u8(..6) == 0 => What::CancelWaiters { object },
            0 => What::Contenders(place),
            1 | 2 => What::Revoke(place),
            3 if theme != Theme::Gentle => What::BreakLock(place),
            4 => What::CancelWaiters { object },
            5 => What::Narrow { object, time: ms(random, 1, 1_000) },
            6 => What::LocksBelow,
            7 if random.u8(..4) == 0 => What::BadName(place),
            7 if random.u8(..4) == 0 && theme != Theme::Gentle => What::Close,
            _ => Step::lock(random, theme, objects),
        };
        Step { rest, what }
    }

    /// Draws a turn of this object.
    fn order(random: &mut Rng, objects: &[ObjectPlan], object: usize) -> Step {
        let rest = if random.bool() { Duration::ZERO } else { ms(random, 1, 100) };
        if random.u8(..12) == 0 {
            return Step { rest, what: What::CancelWaiters { object } };
        }
        let mut what = Step::lock(random, Theme::Orders, objects);
        if let What::Lock { object: its, .. } = &mut what {
            *its = object;
        }
        Step { rest, what }
    }

    fn lock(random: &mut Rng, theme: Theme, objects: &[ObjectPlan]) -> What {
        let object = random.usize(..objects.len());
        let wait = match random.u8(..4) {
            0 if !matches!(theme, Theme::Herd | Theme::Impatient | Theme::Groups) => Wait::Try,
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
        let deeds = (0..count).map(|_| match theme {
            Theme::Herd | Theme::Impatient => Deed::Work(ms(random, 1, 100)),
            Theme::Orders if random.u8(..4) > 0 => Deed::Work(ms(random, 1, 100)),
            Theme::Stuck => Deed::Work(ms(random, 1, 1_000)),
            Theme::Groups if random.bool() => Deed::Work(ms(random, 100, 2_000)),
            Theme::Groups if random.u8(..4) == 0 => {
                Deed::Also { object: random.usize(..objects.len()), wait: ms(random, 100, 4_000) }
            }
            Theme::Behind => Deed::ReadAndWrite(ms(random, 10, 400)),
            Theme::Hidden | Theme::Weeding if random.bool() => Deed::Work(ms(random, 500, 9_000)),
            Theme::Outages if random.bool() => Deed::Write,
            Theme::Outages if random.bool() => Deed::Work(ms(random, 200, 2_000)),
            _ => Deed::draw(random, theme, objects),
        });
        let while_held = deeds.collect();
        let (permits, is_fresh) = (random.u32(1..=3), false);
        What::Lock { object, is_fresh, wait, permits, while_held, end }
    }
}

impl Deed {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan]) -> Deed {
        match random.u8(..12) {
            7.. if matches!(theme, Theme::Meddlers | Theme::Hidden) => {
                Deed::UntilAsked(ms(random, 1, 4_000))
            }
            5.. if theme == Theme::Asked => Deed::UntilAsked(ms(random, 1, 1_000)),
            0 => Deed::UntilAsked(ms(random, 1, 4_000)),
            1 => Deed::EnterAgain(random.u32(1..3), ms(random, 1, 2_000)),
            2 => Deed::ReadBelow,
            3 => Deed::Verify,
            4 | 5 => Deed::Write,
            7 if random.u8(..4) == 0 => Deed::Prolong(ms(random, 0, 3_000)),
            6 => Deed::Also { object: random.usize(..objects.len()), wait: ms(random, 1, 1_000) },
            _ => Deed::Work(ms(random, 1, 1_000)),
        }
    }
}

impl Fault {
    fn draw_odd(random: &mut Rng, client: usize, places: &[Place], time: Duration) -> Fault {
        let place = places[random.usize(..places.len())];
        let what = match random.u8(..12) {
            0..6 => {
                let what = match random.bool() {
                    true => FrameFault::Garble,
                    false => FrameFault::Swap,
                };
                let nth = random.u32(1..60);
                return Fault::Frame { client, is_up: false, of: Of::Any, nth, what };
            }
            6 | 7 => Trouble::Full { client, time },
            8 | 9 => Trouble::forbid(random, place, time),
            10 => Trouble::Plant { place, what: Plant::Past, time },
            _ => {
                let what = Trouble::NoThreads { client, time };
                return Fault::At { when: Duration::ZERO, what };
            }
        };
        Fault::At { when: ms(random, 10, 10_000), what }
    }

    /// Draws late requests, requests that meet others, and lost answers.
    fn draw_meetings(
        random: &mut Rng,
        clients: usize,
        place: Place,
        timeout: Duration,
    ) -> Vec<Fault> {
        let longest = timeout.as_millis() as u64 / 2;
        let mut faults = Vec::new();
        for _ in 0..random.usize(2..12) {
            let client = random.usize(..clients);
            let time = ms(random, 5, longest);
            if random.u8(..4) == 0 {
                // A client does not learn whether its node is deleted while another client asks for the node.
                let (nth, what) = (random.u32(1..10), FrameFault::Away(time));
                let other = (client + 1) % clients;
                faults.push(Fault::Frame { client, is_up: false, of: Of::Delete, nth, what });
                let (nth, what) = (random.u32(1..4), FrameFault::Delay(time.mul_f64(random.f64())));
                faults.push(Fault::Frame { client: other, is_up: true, of: Of::Write, nth, what });
                continue;
            }
            let ahead = if random.bool() { Duration::ZERO } else { ms(random, 1, 50) };
            let (late, away) = (FrameFault::Delay(time), FrameFault::Away(time));
            let asks = FrameFault::Meets(Meddling::Asks, ahead);
            let deletes = FrameFault::Meets(Meddling::Deletes, ahead);
            let (is_up, of, what) = match random.u8(..18) {
                0 | 1 => (true, Of::Create, away),
                2..5 => (false, Of::Create, away),
                5 | 6 => (false, Of::Delete, away),
                7..10 => (true, Of::Write, late),
                10 => (true, Of::Write, deletes),
                11 => (true, Of::Read, late),
                12..14 => (true, Of::Read, asks),
                14 | 15 => (true, Of::Create, asks),
                16 => (true, Of::Read, deletes),
                _ => {
                    let what = match random.u8(..3) {
                        0 => Trouble::Scribble { place, nth: random.usize(..2), is_request: true },
                        1 => Trouble::Delete { place, nth: random.usize(..2) },
                        _ => Trouble::Refuse { client, time: ms(random, 5, longest) },
                    };
                    faults.push(Fault::At { when: ms(random, 10, 5_000), what });
                    continue;
                }
            };
            let nth = random.u32(1..if of == Of::Write { 5 } else { 10 });
            faults.push(Fault::Frame { client, is_up, of, nth, what });
        }
        faults
    }

    /// Draws strangers in new directories, and lost answers.
    fn draw_strangers(random: &mut Rng, clients: usize, timeout: Duration) -> Vec<Fault> {
        let longest = timeout.as_millis() as u64 / 2;
        let count = random.usize(1..12);
        let fault = |_| {
            let (client, nth) = (random.usize(..clients), random.u32(1..16));
            let time = ms(random, 1, 50);
            let of = match random.u8(..6) {
                0 => Of::Create,
                1 => Of::Delete,
                _ => Of::Transaction,
            };
            let meddling = match random.u8(..6) {
                0 | 1 => Meddling::Furnishes,
                2 | 3 => Meddling::Joins,
                4 => Meddling::Makes,
                _ => Meddling::Deletes,
            };
            let (is_up, what) = match random.u8(..8) {
                0 => (false, FrameFault::CutBefore),
                1 => (true, FrameFault::CutBehind),
                2 => (false, FrameFault::Away(ms(random, 5, longest))),
                3 => (true, FrameFault::Delay(ms(random, 5, longest))),
                _ => (true, FrameFault::Meets(meddling, time)),
            };
            Fault::Frame { client, is_up, of, nth, what }
        };
        (0..count).map(fault).collect()
    }

    /// Draws moves of servers whose names cannot always be resolved.
    pub(crate) fn draw_moves(random: &mut Rng, servers: usize) -> Vec<Fault> {
        let mut faults = Vec::new();
        for _ in 0..random.usize(1..5) {
            let (server, when) = (random.usize(..servers), ms(random, 50, 8_000));
            let (time, hangs) = (ms(random, 20, 3_000), random.bool());
            if random.u8(..3) > 0 {
                faults.push(Fault::At { when, what: Trouble::NoName { server, time, hangs } });
            }
            let when = when + time.mul_f64(random.f64() / 2.0);
            faults.push(Fault::At { when, what: Trouble::Move { server } });
        }
        faults
    }

    /// Draws the end of a lock-delay by an operator. With `deletes`, it may come behind the deletion of a holder's
    /// node, or the node of whoever waits for the end of the delay is deleted instead.
    fn draw_delay(random: &mut Rng, place: Place, latency: Duration, deletes: bool) -> Vec<Fault> {
        let when = ms(random, 10, 10_000);
        let end = |when| Fault::At { when, what: Trouble::EndDelay { place } };
        let delete = |when| Fault::At { when, what: Trouble::Delete { place, nth: 0 } };
        match random.u8(..3) {
            0 if deletes => vec![delete(when), end(when + latency * random.u32(1..12))],
            1 if deletes => vec![delete(when), delete(when + ms(random, 10, 1_000))],
            _ => vec![end(when)],
        }
    }

    /// Draws silences, freezes of servers, and cuts.
    fn draw_stalls(random: &mut Rng, clients: usize, servers: usize) -> Vec<Fault> {
        let count = random.usize(..4);
        let stall = |_| {
            let (client, time) = (random.usize(..clients), ms(random, 200, 6_000));
            let what = match random.u8(..4) {
                0 => Trouble::BlackHole { client, time },
                1 => Trouble::Deaf { client, is_up: random.bool(), time },
                2 => Trouble::FreezeServer { server: random.usize(..servers), time },
                _ => Trouble::Cut { client },
            };
            Fault::At { when: ms(random, 50, 3_000), what }
        };
        (0..count).map(stall).collect()
    }

    /// Draws bans on deletions or deletions by an operator, and no other faults.
    fn draw_bans(random: &mut Rng, place: Place, timeout: Duration) -> Vec<Fault> {
        let forbids = random.bool();
        let count = random.u32(2..if forbids { 6 } else { 12 });
        let ban = |_| {
            let (time, nth) = (timeout * random.u32(2..8), random.usize(..8));
            let what = match forbids {
                true => Trouble::forbid(random, place, time),
                false => Trouble::Delete { place, nth },
            };
            Fault::At { when: ms(random, 10, 2_000), what }
        };
        (0..count).map(ban).collect()
    }

    pub(crate) fn draw_all(
        random: &mut Rng,
        theme: Theme,
        clients: usize,
        servers: usize,
        places: &[Place],
        timeout: Duration,
    ) -> Vec<Fault> {
        let count = match random.u8(..4) {
            _ if theme == Theme::Behind => random.usize(8..24),
            _ if matches!(theme, Theme::Outages | Theme::Weeding | Theme::Hidden) => {
                random.usize(4..16)
            }
            0 => 0,
            1 if theme != Theme::Herd => random.usize(1..3),
            _ if matches!(theme, Theme::Herd | Theme::Numbers | Theme::Visitors) => 0,
            _ if theme == Theme::Gentle => random.usize(2..10),
            _ => random.usize(1..12),
        };
        match theme {
            Theme::Asked => return Fault::draw_meetings(random, clients, places[0], timeout),
            Theme::Stuck => return Fault::draw_bans(random, places[0], timeout),
            Theme::Impatient => return Fault::draw_stalls(random, clients, servers),
            Theme::Groups if random.bool() => return Vec::new(),
            Theme::Orders if random.bool() => {
                return Fault::draw_strangers(random, clients, timeout);
            }
            _ => {}
        }
        // Acts of operators hide other problems, so most plans have few of them.
        let has_operators = random.u8(..3) == 0;
        let longest = timeout.as_millis() as u64 * if theme == Theme::Short { 12 } else { 5 } / 2;
        let mut faults = Vec::new();
        if theme == Theme::Behind {
            let time = ms(random, 40, 1_600);
            let what = Trouble::Lag { server: random.usize(..servers), time };
            faults.push(Fault::At { when: ms(random, 1, 500), what });
        }
        let mut last = Duration::ZERO;
        for _ in 0..count {
            // Faults seldom come alone.
            last = match random.u8(..3) {
                0 => last + ms(random, 1, 50),
                _ => ms(random, 10, if theme.has_one_place() { 6_000 } else { 15_000 }),
            };
            let when = last;
            let client = random.usize(..clients);
            let server = random.usize(..servers);
            let place = places[random.usize(..places.len())];
            // Times close to a session timeout matter most.
            let time = match random.u8(..if theme == Theme::Outages { 4 } else { 12 }) {
                0..3 => timeout.mul_f64(0.2 + random.f64()),
                _ => ms(random, 5, longest),
            };
            if let Some(what) = Trouble::of(random, theme, (client, place), time) {
                let soon = when + ms(random, 1, 50) / 10;
                match (theme, &what) {
                    // Some clients hear of a request only after reconnecting, or while they look.
                    (Theme::Gentle, Trouble::Scribble { .. }) => {
                        let cut = Trouble::Cut { client };
                        let (first, next) = match random.u8(..3) {
                            0 => (what.clone(), what),
                            1 => (what, cut),
                            _ => (cut, what),
                        };
                        faults.push(Fault::At { when, what: first });
                        faults.push(Fault::At { when: soon, what: next });
                        continue;
                    }
                    // Some clients hear of the ends of two nodes at once.
                    (Theme::Weeding, Trouble::Delete { .. }) if random.u8(..3) == 0 => {
                        let away = Trouble::Refuse { client, time: ms(random, 20, 400) };
                        faults.push(Fault::At { when, what: away });
                        faults.push(Fault::At { when: soon, what });
                        continue;
                    }
                    // The session ends while a thread stalls, so the thread goes on with outdated knowledge.
                    (Theme::Outages, Trouble::Expire { .. }) => {
                        faults.push(Fault::At {
                            when,
                            what: Trouble::Stall { client, time: timeout },
                        });
                        let later = when + timeout.mul_f64(random.f64() * 0.8);
                        faults.push(Fault::At { when: later, what });
                        continue;
                    }
                    _ => {}
                }
                faults.push(Fault::At { when, what });
                continue;
            }
            if theme == Theme::Groups && random.bool() {
                // What became of the nodes of several locks is not told.
                let what = match random.bool() {
                    true => FrameFault::CutBefore,
                    false => FrameFault::Away(ms(random, 5, 200)),
                };
                let (is_up, of, nth) = (random.bool(), Of::Transaction, random.u32(1..20));
                faults.push(Fault::Frame { client, is_up, of, nth, what });
                continue;
            }
            if random.bool() || matches!(theme, Theme::Frames | Theme::Gentle | Theme::Behind) {
                let what = match random.u8(..if theme == Theme::Gentle { 5 } else { 6 }) {
                    // The cut often comes right after an event that lets a waiter in.
                    _ if theme == Theme::Behind => FrameFault::CutBehind,
                    0 | 1 => FrameFault::CutBefore,
                    2 | 3 => FrameFault::CutBehind,
                    4 => FrameFault::Tear,
                    _ => FrameFault::Delay(time),
                };
                let (of, nth) = match random.u8(..8) {
                    0..4 if theme == Theme::Behind => (Of::Event, random.u32(1..12)),
                    0 => (Of::Create, random.u32(1..8)),
                    1 => (Of::Transaction, random.u32(1..5)),
                    _ => (Of::Any, random.u32(1..if theme == Theme::Frames { 40 } else { 120 })),
                };
                let is_up = theme != Theme::Behind && random.bool();
                faults.push(Fault::Frame { client, is_up, of, nth, what });
                continue;
            }
            if theme == Theme::Short && random.u8(..4) == 0 {
                let time = timeout * 6;
                let what = match random.bool() {
                    true => Trouble::Deaf { client, is_up: false, time },
                    false => Trouble::Useless { client, time },
                };
                faults.push(Fault::At { when: ms(random, 100, 5_000), what });
                continue;
            }
            let what = match random.u8(..if has_operators { 26 } else { 19 }) {
                0 | 1 => Trouble::Cut { client },
                2 => Trouble::BlackHole { client, time },
                3 => Trouble::Deaf { client, is_up: random.bool(), time },
                4 => Trouble::Refuse { client, time },
                5 => Trouble::Freeze { client, time },
                6 => Trouble::Stall { client, time },
                // Longer than a session timeout, or any time.
                7 => {
                    let time = if random.bool() { timeout * 2 } else { time };
                    let is_paused = random.bool();
                    if !is_paused && random.bool() {
                        // The system clock does not show the length of the sleep either.
                        let milliseconds = random.i64(-5_000..0);
                        let what = Trouble::ClockStep { client, milliseconds };
                        faults
                            .push(Fault::At { when: when.saturating_sub(ms(random, 1, 50)), what });
                    }
                    Trouble::Sleep { client, time, is_paused }
                }
                8 => Trouble::ClockStep { client, milliseconds: random.i64(-5_000..20_000) },
                9 => Trouble::NoThreads { client, time },
                10 => Trouble::Kill { client },
                11 | 12 => Trouble::Crash { server, time },
                13 => Trouble::FreezeServer { server, time },
                14 => Trouble::CutOffServer { server, time },
                15 => Trouble::Lag { server, time },
                16 => Trouble::Depose,
                17 => Trouble::Plant { place, what: Plant::Exclusive, time },
                18 => Trouble::Plant { place, what: Plant::Write, time },
                19 => Trouble::Expire { client },
                20 | 21 => Trouble::Delete { place, nth: random.usize(..5) },
                22 => Trouble::Plant { place, what: Plant::Foreign, time },
                23 => Trouble::Plant { place, what: Plant::Lookalike, time },
                _ => Trouble::Scribble { place, nth: random.usize(..5), is_request: random.bool() },
            };
            faults.push(Fault::At { when, what });
        }
        faults
    }
}

impl Trouble {
    fn forbid(random: &mut Rng, place: Place, time: Duration) -> Trouble {
        let below = ["", "/locks", "/leases", "/leases"][random.usize(..4)];
        Trouble::Forbid { place, below, time }
    }

    /// Draws a fault that the theme has more of, if any.
    fn of(
        random: &mut Rng,
        theme: Theme,
        (client, place): (usize, Place),
        time: Duration,
    ) -> Option<Trouble> {
        let nth = random.usize(..4);
        let choice = random.u8(..12);
        Some(match (theme, choice) {
            (Theme::Gentle, 0..3) | (Theme::Kept, 0..6) => Trouble::Cut { client },
            (Theme::Gentle, 3..9) => Trouble::Scribble { place, nth, is_request: true },
            (Theme::Kept, 6..9) => Trouble::HideDirectory { place, time: time * 2 },
            // Permits come before turns.
            (Theme::Weeding, 0..6) => Trouble::Delete { place, nth: nth + random.usize(..8) },
            (Theme::Weeding, 6..9) => {
                // Clients hear of the ends one by one, or of all at once.
                let pause = if random.u8(..3) == 0 { ms(random, 1, 20) } else { Duration::ZERO };
                Trouble::Clear { place, pause }
            }
            (Theme::Hidden, 0..2) => Trouble::Delete { place, nth },
            (Theme::Hidden, 2..8) => {
                Trouble::Hide { place, nth, time: time * 3, is_deleted: random.bool() }
            }
            (Theme::Outages, 0 | 1) => Trouble::Freeze { client, time },
            (Theme::Outages, 2 | 3) => Trouble::Stall { client, time },
            (Theme::Outages, 4 | 10 | 11) => Trouble::Expire { client },
            (Theme::Outages, 5 | 6) => Trouble::Deaf { client, is_up: true, time },
            (Theme::Outages, 8 | 9) => Trouble::Deaf { client, is_up: true, time: time * 3 },
            (Theme::Outages, 7) => Trouble::BlackHole { client, time },
            _ => return None,
        })
    }
}
