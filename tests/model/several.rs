//! The model of several locks at once: who waits for whom in a circle. It has no time, no faults and one kind
//! of lock. Queues and first levels are fair; the models of the queue say why.
//!
//! A *level* is the first level of a lock object: threads of one process share it. Two objects on one lock
//! have two levels and one queue.

use stateright::{Model, Property};

use super::check::Checked;

pub(crate) const NO_CIRCLE: &str = "nobody waits for ever";
pub(crate) const IN_ORDER: &str = "whoever has come first has all first";

/// How a thread takes its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// One after the other, in its order.
    OneByOne,
    /// All that are left in one transaction, as far as their first levels are free. What is not free keeps the
    /// locks before it, and nothing behind it.
    AtOnce,
    /// All first levels, and all in one transaction, and it waits in all queues at once.
    InAll,
}

/// A rule broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Nodes behind the first that is not granted stay. Somebody who has that one waits for them.
    NodesKept,
    /// The first levels of locks behind it stay. A thread that has it by another object waits for them.
    LevelsKept,
}

/// A thread: the locks that it takes, in its order, and their first levels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thread(pub(crate) Way, pub(crate) &'static [usize], pub(crate) &'static [usize]);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Several {
    pub(crate) threads: &'static [Thread],
    pub(crate) broken: Option<Broken>,
}

/// Threads by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Takes a first level, or several.
    Level(usize),
    /// Creates its nodes.
    Enter(usize),
    /// Sees that the next one is granted.
    Take(usize),
    /// Gives up all behind the next one, which it did not see granted.
    GiveUp(usize),
    Release(usize),
}

/// The locks of a thread, by how many of the first in its order it has, stands in the queue of, and has the
/// first level of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Progress {
    has: usize,
    entered: usize,
    leveled: usize,
    is_done: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    threads: Vec<Progress>,
    /// The threads in the queue of each lock, in order.
    queues: Vec<Vec<usize>>,
    levels: Vec<Option<usize>>,
    /// The threads in the order in which they first entered, and in which they had all.
    came: Vec<usize>,
    had_all: Vec<usize>,
}

const LOCKS: usize = 3;
const LEVELS: usize = 9;

impl Checked for Several {}

impl Model for Several {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            threads: vec![Progress::default(); self.threads.len()],
            queues: vec![Vec::new(); LOCKS],
            levels: vec![None; LEVELS],
            came: Vec::new(),
            had_all: Vec::new(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        (0..self.threads.len()).for_each(|thread| self.steps(world, thread, actions));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Level(thread) => {
                let count = self.levels_to_take(world, thread);
                let from = world.threads[thread].leveled;
                for level in &self.threads[thread].2[from..from + count] {
                    next.levels[*level] = Some(thread);
                }
                next.threads[thread].leveled += count;
            }
            Action::Enter(thread) => {
                let Progress { entered, leveled, .. } = world.threads[thread];
                for lock in &self.threads[thread].1[entered..leveled] {
                    next.queues[*lock].push(thread);
                }
                next.threads[thread].entered = leveled;
                if entered == 0 {
                    next.came.push(thread);
                }
            }
            Action::Take(thread) => {
                next.threads[thread].has += 1;
                if next.threads[thread].has == self.threads[thread].1.len() {
                    next.had_all.push(thread);
                }
            }
            Action::GiveUp(thread) => {
                let from = world.threads[thread].has + 1;
                self.leave(&mut next, thread, from, !self.is(Broken::LevelsKept));
            }
            Action::Release(thread) => {
                self.leave(&mut next, thread, 0, true);
                next.threads[thread].is_done = true;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Several>> {
        let mut all = vec![Property::always(NO_CIRCLE, |protocol: &Several, world: &World| {
            let mut actions = Vec::new();
            protocol.actions(world, &mut actions);
            !actions.is_empty() || world.threads.iter().all(|thread| thread.is_done)
        })];
        if self.threads.iter().all(|thread| thread.0 == Way::InAll) {
            all.push(Property::always(IN_ORDER, |protocol, world| !protocol.is_overtaken(world)));
        }
        if self.threads.iter().all(|thread| thread.0 == Way::AtOnce) && self.broken.is_none() {
            let overtaken = |protocol: &Several, world: &World| protocol.is_overtaken(world);
            all.push(Property::sometimes("whoever has come later has all first", overtaken));
        }
        all
    }
}

impl Several {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn steps(&self, world: &World, thread: usize, actions: &mut Vec<Action>) {
        let Progress { has, entered, leveled, is_done } = world.threads[thread];
        let Thread(way, locks, _) = self.threads[thread];
        if is_done {
            return;
        }
        if has == locks.len() {
            actions.push(Action::Release(thread));
            return;
        }
        let needs_levels = match way {
            Way::InAll => leveled < locks.len(),
            _ => leveled == has,
        };
        if needs_levels {
            let is_free = self.levels_to_take(world, thread) > 0;
            actions.extend(is_free.then_some(Action::Level(thread)));
        } else if entered == has {
            actions.push(Action::Enter(thread));
        } else {
            let is_first = world.queues[locks[has]].first() == Some(&thread);
            actions.extend(is_first.then_some(Action::Take(thread)));
            // The list may be older than the grant.
            let may_give_up =
                way == Way::AtOnce && entered > has + 1 && !self.is(Broken::NodesKept);
            actions.extend(may_give_up.then_some(Action::GiveUp(thread)));
        }
    }

    /// Returns how many first levels the thread takes now.
    fn levels_to_take(&self, world: &World, thread: usize) -> usize {
        let Thread(way, _, levels) = self.threads[thread];
        let next = &levels[world.threads[thread].leveled..];
        let free = next.iter().take_while(|level| world.levels[**level].is_none()).count();
        match way {
            Way::AtOnce => free,
            Way::OneByOne | Way::InAll => free.min(1),
        }
    }

    /// Leaves the queues of its locks from this one on, and maybe the first levels.
    fn leave(&self, world: &mut World, thread: usize, from: usize, leaves_levels: bool) {
        let Thread(_, locks, levels) = self.threads[thread];
        let Progress { entered, leveled, .. } = world.threads[thread];
        for lock in &locks[from..entered] {
            world.queues[*lock].retain(|other| *other != thread);
        }
        world.threads[thread].entered = from;
        if leaves_levels {
            levels[from..leveled].iter().for_each(|level| world.levels[*level] = None);
            world.threads[thread].leveled = from;
        }
    }

    /// Returns whether a thread has had all its locks before one that came earlier and shares a lock with it.
    fn is_overtaken(&self, world: &World) -> bool {
        let share = |one: usize, other: usize| {
            let locks = self.threads[one].1;
            locks.iter().any(|lock| self.threads[other].1.contains(lock))
        };
        let came = |thread| world.came.iter().position(|other| *other == thread);
        let mut later = world.had_all.iter().enumerate();
        later.any(|(index, one)| {
            let earlier = &world.had_all[index + 1..];
            earlier.iter().any(|other| share(*one, *other) && came(*other) < came(*one))
        })
    }
}
