//! What is added to some plans, drawn with separate seeds: rare actions, locks at places that other locks use, and
//! operators.

use fastrand::Rng;

use super::{
    AcquisitionPlan, ClientPlan, Fault, FaultKind, Kind, Odd, Operation, Options, Place, Plan,
    Step, Theme, What, draw_moves, faults, ms,
};
use crate::raw;

impl Plan {
    pub(super) fn add_all(&mut self, places: &[Place]) {
        // A plan with rare actions has no programs, because the checker of programs relies on every answer.
        if !self.add_oddities(places) {
            raw::add(self);
        }
        self.leave_a_clock();
        self.vary_acquisitions();
        self.add_robberies();
    }

    /// If a machine's system clock is set back, it is not paused as well, because no clock would then show the pause.
    fn leave_a_clock(&mut self) {
        let sets_back = |(_, what)| match what {
            FaultKind::ClockStep { client, milliseconds: ..0 } => Some(client),
            _ => None,
        };
        let set_back: Vec<usize> = self.timed_faults().filter_map(sets_back).collect();
        for fault in &mut self.faults {
            if let Fault::At { what: FaultKind::Sleep { client, is_paused, .. }, .. } = fault {
                *is_paused &= !set_back.contains(client);
            }
        }
    }

    /// Adds rare actions to some plans. Returns whether it has added any.
    fn add_oddities(&mut self, places: &[Place]) -> bool {
        let random = &mut Rng::with_seed(self.seed ^ 0x0dd);
        if random.u8(..3) > 0 {
            return false;
        }
        self.has_names = random.u8(..4) == 0;
        if self.has_names && self.theme != Theme::Gentle && random.bool() {
            self.faults.extend(draw_moves(random, self.servers));
        }
        for _ in 0..random.usize(1..5) {
            let client = random.usize(..self.clients.len());
            match random.u8(..4) {
                0 | 1 => self.add_operation(random, client),
                2 => self.clients[client].add_odd(random),
                _ if self.theme != Theme::Gentle => {
                    let time = ms(random, 5, 3_000);
                    self.faults.push(faults::draw_odd(random, client, places, time));
                }
                _ => {}
            }
        }
        true
    }

    /// Varies the options and the acquisitions in some plans: calls use new objects, threads acquire more locks while
    /// they hold some, and they work until their holds expire by the clock, or prolong them shortly before or at that
    /// moment.
    fn vary_acquisitions(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0x0bec7);
        let is_varied = !matches!(self.theme, Theme::Visitors | Theme::Behind) && random.bool();
        let takes_more = self.theme != Theme::Visitors && random.u8(..4) == 0;
        for client in &mut self.clients {
            for object in client.objects.iter_mut().filter(|_| is_varied) {
                match random.u8(..8) {
                    0 | 1 => object.options.identity = Some(random.u8(1..=2)),
                    2 => object.options = Options::draw(random),
                    _ => {}
                }
            }
            let objects = client.objects.clone();
            for AcquisitionPlan { object, is_fresh, while_held, .. } in client.acquisitions_mut() {
                *is_fresh = is_varied && random.bool();
                if is_varied && random.u8(..6) == 0 {
                    while_held.push(Operation::Second { is_behind: random.bool() });
                }
                if takes_more && random.u8(..3) > 0 {
                    let (object, wait) = (random.usize(..objects.len()), ms(random, 500, 8_000));
                    while_held.insert(0, Operation::Also { object, wait });
                    while_held.insert(0, Operation::Work(ms(random, 1, 100)));
                }
                let options = &objects[*object].options;
                if options.hold_at_least.is_some() && random.u8(..6) == 0 {
                    while_held.insert(0, Operation::Prolong(ms(random, 0, 100)));
                }
                if options.margin.is_some() && random.bool() {
                    while_held.push(Operation::UntilDue);
                }
                if options.hold_at_most.is_some() && random.bool() {
                    while_held.push(Operation::UntilDue);
                    while_held.push(match random.bool() {
                        true => Operation::Prolong(ms(random, 0, 1_000)),
                        false => Operation::Second { is_behind: false },
                    });
                }
            }
        }
    }

    /// Adds operators that delete the nodes of multi-locks while these are held.
    fn add_robberies(&mut self) {
        let random = &mut Rng::with_seed(self.seed ^ 0x0b5);
        let may_rob = self.has(Kind::Several) && self.theme != Theme::Gentle;
        if !may_rob || self.is_steady() || random.u8(..3) > 0 {
            return;
        }
        let count = random.usize(1..6);
        self.faults.extend((0..count).map(|_| FaultKind::Rob.at(ms(random, 10, 10_000))));
    }

    fn add_operation(&mut self, random: &mut Rng, client: usize) {
        let is_gentle = self.theme == Theme::Gentle;
        let threads = &mut self.clients[client].threads;
        let thread = random.usize(..threads.len());
        for AcquisitionPlan { while_held: operations, .. } in threads[thread].acquisitions_mut() {
            let odd = match random.u8(..12) {
                0..4 => Operation::ReadAndWrite(ms(random, 1, 300)),
                4..6 => Operation::WriteLate(ms(random, 1, 400)),
                6 | 7 => Operation::Second { is_behind: random.bool() },
                8 if !is_gentle => {
                    // The session ends while the thread acquires the lock again, reentrantly.
                    let time = ms(random, 1, 500);
                    operations.insert(0, Operation::EnterAgain(2, time * 2));
                    operations.insert(0, Operation::Expire(time));
                    continue;
                }
                _ => continue,
            };
            operations.insert(random.usize(..=operations.len()), odd);
        }
    }
}

impl ClientPlan {
    fn add_odd(&mut self, random: &mut Rng) {
        let thread = random.usize(..self.threads.len());
        let object = random.usize(..self.objects.len());
        let odd = match random.u8(..8) {
            0 | 1 => Odd::Unlock,
            2..4 => Odd::DropHeld,
            4 => Odd::LongPaths { are_stuck: random.bool() },
            _ => Odd::Resign { waits: random.bool() },
        };
        let steps = &mut self.threads[thread].steps;
        let what = What::Odd { object, odd, time: ms(random, 1, 1_000) };
        let step = Step { rest: ms(random, 1, 1_000), what };
        steps.insert(random.usize(..=steps.len()), step);
    }
}
