//! Locks as sequential specifications, with which histories are compared.

use std::cell::Cell;
use std::rc::Rc;

use stateright::semantics::SequentialSpec;

use crate::event::Incarnation;
use crate::lock::Mode;
use crate::operations::{Acquire, HoldIndex, Op};

/// The state of a lock.
pub(super) trait Object: Clone {
    /// Returns whether a grant is correct in this state.
    fn admits(&self, acquire: &Acquire) -> bool;
    fn put(&mut self, acquire: &Acquire);
    /// The hold existed, and has ended.
    fn remember(&mut self, acquire: &Acquire);
    /// Returns whether that hold had it.
    fn take(&mut self, hold: HoldIndex) -> bool;
    fn holders(&self) -> Vec<HoldIndex>;
}

/// The highest fencing token, and its owner. A thread that hands its node to another one of its client keeps
/// the token.
#[derive(Debug, Clone, Copy, Default)]
struct Fence(Option<(u64, Incarnation)>);

impl Fence {
    fn admits(self, acquire: &Acquire) -> bool {
        let (Some(token), Some((highest, client))) = (acquire.token, self.0) else {
            return true;
        };
        token > highest || token == highest && client == acquire.client
    }

    fn raise(&mut self, acquire: &Acquire) {
        if let Some(token) = acquire.token {
            self.0 = self.0.max(Some((token, acquire.client)));
        }
    }
}

/// One holder at a time, each with a higher token than all before.
#[derive(Debug, Clone, Default)]
pub(super) struct FencedMutex {
    holder: Option<HoldIndex>,
    fence: Fence,
}

impl Object for FencedMutex {
    fn admits(&self, acquire: &Acquire) -> bool {
        self.holder.is_none() && self.fence.admits(acquire)
    }

    fn put(&mut self, acquire: &Acquire) {
        self.holder = Some(acquire.hold);
        self.remember(acquire);
    }

    fn remember(&mut self, acquire: &Acquire) {
        self.fence.raise(acquire);
    }

    fn take(&mut self, hold: HoldIndex) -> bool {
        self.holder.take_if(|holder| *holder == hold).is_some()
    }

    fn holders(&self) -> Vec<HoldIndex> {
        self.holder.into_iter().collect()
    }
}

/// Any number of readers, or one writer, who may also take a read and keep it. A writer's token is higher
/// than all before, and a reader's is higher than those of all earlier writers.
#[derive(Debug, Clone, Default)]
pub(super) struct FencedRwLock {
    writer: Option<HoldIndex>,
    readers: Vec<HoldIndex>,
    written: Fence,
    read: Fence,
}

impl Object for FencedRwLock {
    fn admits(&self, acquire: &Acquire) -> bool {
        let free = match acquire.mode {
            Mode::Exclusive => self.writer.is_none() && self.readers.is_empty(),
            _ => self.writer.is_none() || self.writer == acquire.under,
        };
        let exclusive = acquire.mode == Mode::Exclusive;
        free && self.written.admits(acquire) && (!exclusive || self.read.admits(acquire))
    }

    fn put(&mut self, acquire: &Acquire) {
        if acquire.mode == Mode::Exclusive {
            self.writer = Some(acquire.hold);
        } else {
            self.readers.push(acquire.hold);
        }
        self.remember(acquire);
    }

    fn remember(&mut self, acquire: &Acquire) {
        match acquire.mode {
            Mode::Exclusive => self.written.raise(acquire),
            _ => self.read.raise(acquire),
        }
    }

    fn take(&mut self, hold: HoldIndex) -> bool {
        let readers = self.readers.len();
        self.readers.retain(|&reader| reader != hold);
        self.readers.len() < readers || self.writer.take_if(|writer| *writer == hold).is_some()
    }

    fn holders(&self) -> Vec<HoldIndex> {
        self.writer.into_iter().chain(self.readers.iter().copied()).collect()
    }
}

/// A number of permits, of which an acquire takes some.
#[derive(Debug, Clone)]
pub(super) struct Semaphore {
    left: u32,
    taken: Vec<(HoldIndex, u32)>,
}

impl Semaphore {
    pub(super) fn new(permits: u32) -> Semaphore {
        Semaphore { left: permits, taken: Vec::new() }
    }
}

impl Object for Semaphore {
    fn admits(&self, acquire: &Acquire) -> bool {
        permits(acquire) <= self.left
    }

    fn put(&mut self, acquire: &Acquire) {
        let count = permits(acquire);
        // After a violation there may be too many.
        let taken = count.min(self.left);
        self.left -= taken;
        self.taken.push((acquire.hold, taken));
    }

    fn remember(&mut self, _: &Acquire) {}

    fn take(&mut self, hold: HoldIndex) -> bool {
        let position = self.taken.iter().position(|&(taken, _)| taken == hold);
        if let Some(position) = position {
            self.left += self.taken.swap_remove(position).1;
        }
        position.is_some()
    }

    fn holders(&self) -> Vec<HoldIndex> {
        self.taken.iter().map(|&(hold, _)| hold).collect()
    }
}

fn permits(acquire: &Acquire) -> u32 {
    match acquire.mode {
        Mode::Permits(count) => count,
        Mode::Exclusive | Mode::Shared => 1,
    }
}

/// An object for the tester with a limit of steps. Without the limit the tester would try all orders, of
/// which there may be very many.
#[derive(Debug, Clone)]
pub(super) struct Limited<O> {
    object: O,
    steps: Rc<Cell<u32>>,
}

impl<O: Object> Limited<O> {
    pub(super) fn new(object: O, steps: Rc<Cell<u32>>) -> Limited<O> {
        Limited { object, steps }
    }

    fn has_steps(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }
}

impl<O: Object> SequentialSpec for Limited<O> {
    type Op = Op;
    type Ret = ();

    /// All operations have returned, so that nothing comes here.
    fn invoke(&mut self, op: &Op) {
        self.is_valid_step(op, &());
    }

    fn is_valid_step(&mut self, op: &Op, (): &()) -> bool {
        self.has_steps()
            && match op {
                Op::Acquire(acquire) => {
                    let admits = self.object.admits(acquire);
                    if admits {
                        self.object.put(acquire);
                    }
                    admits
                }
                Op::Write(hold) => self.object.holders().contains(hold),
                Op::End(hold) => self.object.take(*hold),
            }
    }
}
