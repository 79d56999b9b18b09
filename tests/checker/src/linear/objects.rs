//! A lock as a sequential specification, against which histories are checked.

use std::cell::Cell;
use std::rc::Rc;

use stateright::semantics::SequentialSpec;

use crate::lock::{Mode, Use};
use crate::operations::{Acquire, HoldIndex, Op};

/// The highest fencing token, and its owner. A thread that hands its node over to another thread of the same client
/// also passes on the token.
#[derive(Debug, Clone, Copy, Default)]
struct Fence(Option<(u64, usize)>);

impl Fence {
    fn admits(self, acquire: &Acquire) -> bool {
        let (Some(token), Some((highest, client))) = (acquire.token, self.0) else { return true };
        token > highest || token == highest && client == acquire.client
    }

    fn raise(&mut self, acquire: &Acquire) {
        if let Some(token) = acquire.token {
            self.0 = self.0.max(Some((token, acquire.client)));
        }
    }
}

/// The state of a lock. It admits as many holders as fit: any number of readers, or a single writer, which may also
/// read. The token of an exclusive holder is higher than all earlier ones, and a reader's is higher than those of all
/// earlier writers. Permits are unordered.
#[derive(Debug, Clone)]
pub(super) struct Object {
    what: Use,
    /// The holders, and the units that each of them takes.
    taken: Vec<(HoldIndex, u32)>,
    written: Fence,
    read: Fence,
}

impl Object {
    pub(super) fn new(what: Use) -> Object {
        Object { what, taken: Vec::new(), written: Fence::default(), read: Fence::default() }
    }

    /// Returns whether a grant is correct in this state.
    fn admits(&self, acquire: &Acquire) -> bool {
        let others = self.taken.iter().filter(|(hold, _)| acquire.under != Some(*hold));
        let units: u32 = others.map(|(_, units)| units).sum();
        let fits = units + self.what.units(acquire.mode) <= self.what.capacity();
        let is_alone = acquire.mode == Mode::Exclusive;
        fits && self.written.admits(acquire) && (!is_alone || self.read.admits(acquire))
    }

    pub(super) fn put(&mut self, acquire: &Acquire) {
        self.taken.push((acquire.hold, self.what.units(acquire.mode)));
        self.remember(acquire);
    }

    /// Remembers the token of a hold that has already ended.
    pub(super) fn remember(&mut self, acquire: &Acquire) {
        match acquire.mode {
            Mode::Exclusive => self.written.raise(acquire),
            Mode::Shared => self.read.raise(acquire),
            Mode::Permits(_) => {}
        }
    }

    /// Removes a hold. Returns whether it held the lock.
    pub(super) fn take(&mut self, hold: HoldIndex) -> bool {
        let position = self.taken.iter().position(|(taken, _)| *taken == hold);
        position.map(|position| self.taken.swap_remove(position)).is_some()
    }

    /// Ends all holds.
    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = HoldIndex> {
        self.taken.iter().map(|(hold, _)| *hold)
    }
}

/// An object with a limit on the tester's steps. Without it, the tester would try all orders, which may be very many.
#[derive(Debug, Clone)]
pub(super) struct Limited {
    pub(super) object: Object,
    pub(super) steps: Rc<Cell<u32>>,
}

impl Limited {
    fn has_steps(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }
}

impl SequentialSpec for Limited {
    type Op = Op;
    type Ret = ();

    /// Not used, because only operations that have returned are checked.
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
                Op::Write(hold) => self.object.holders().any(|one| one == *hold),
                Op::End(hold) => self.object.take(*hold),
            }
    }
}
