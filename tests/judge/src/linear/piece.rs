//! Cuts the operations of a lock into pieces, and has the tester look at each.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use super::objects::{Answered, Limited, Object};
use super::{Linearized, Sizes, Wrong};
use crate::operations::{HoldIndex, Op, Operation};
use crate::time::Nanos;

/// Those of operations that stay open, behind all others: the tester tries them last.
const FIRST_OPEN_LANE: u32 = 1 << 16;

/// An operation begins or returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    at: Nanos,
    /// Whatever happens at the same instant may have overlapped.
    returns: bool,
    operation: u32,
}

pub(super) struct Pieces<'o, O> {
    object: &'o mut O,
    operations: &'o [Operation],
    sizes: Sizes,
    steps: Vec<Step>,
    /// Where each operation returns, among the steps.
    returns: Vec<usize>,
    /// When holds that may have ended are needed for the last time.
    needed: HashMap<HoldIndex, Nanos>,
    /// Acquires whose calls were open at the last cut.
    waiting: Vec<u32>,
    /// Ends that were, of holds that are needed later.
    ending: Vec<u32>,
}

/// What the tester says of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    /// It took too many steps.
    Unknown,
}

impl<'o, O: Object> Pieces<'o, O> {
    /// Leaves the object as it is behind all of them, free. What has no place is returned.
    pub(super) fn check(
        object: &'o mut O,
        operations: &'o [Operation],
        sizes: Sizes,
        found: &mut Linearized,
    ) -> Vec<Wrong> {
        let mut pieces = Pieces::new(object, operations, sizes);
        let mut wrong = Vec::new();
        let mut begin = 0;
        while begin < pieces.steps.len() {
            let (end, is_quiet) = pieces.next_cut(begin);
            found.quiet += usize::from(is_quiet);
            wrong.extend(pieces.judge(begin..end, found));
            begin = end;
        }
        for hold in pieces.object.holders() {
            pieces.object.take(hold);
        }
        wrong
    }

    fn new(object: &'o mut O, operations: &'o [Operation], sizes: Sizes) -> Pieces<'o, O> {
        let mut steps = Vec::with_capacity(2 * operations.len());
        for (number, operation) in (0..).zip(operations) {
            steps.push(Step { at: operation.invoked, returns: false, operation: number });
            let returned = operation.returned;
            steps.extend(returned.map(|at| Step { at, returns: true, operation: number }));
        }
        steps.sort_unstable();
        let mut returns = vec![usize::MAX; operations.len()];
        for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.returns) {
            returns[step.operation as usize] = index;
        }
        let mut needed: HashMap<HoldIndex, Nanos> = HashMap::new();
        let ends = operations.iter().filter(|operation| matches!(operation.op, Op::End(_)));
        needed.extend(ends.map(|operation| (operation.op.hold(), 0)));
        for operation in operations {
            if let Op::Write(hold) | Op::Release(hold) = operation.op
                && let Some(needed) = needed.get_mut(&hold)
            {
                *needed = operation.invoked.max(*needed);
            }
        }
        let (waiting, ending) = (Vec::new(), Vec::new());
        Pieces { object, operations, sizes, steps, returns, needed, waiting, ending }
    }

    /// Returns where the piece ends that begins here, and whether nothing is going on there.
    fn next_cut(&self, begin: usize) -> (usize, bool) {
        let mut going_on = self.waiting.len();
        let (mut count, mut open) = (0, self.ending.len());
        for (index, step) in self.steps.iter().enumerate().skip(begin) {
            let stays_open = self.operations[step.operation as usize].returned.is_none();
            if step.returns {
                going_on -= 1;
                count += 1;
            } else if stays_open {
                open += 1;
            } else {
                going_on += 1;
            }
            let is_quiet = going_on == 0;
            let is_full = count >= self.sizes.most || open >= self.sizes.open;
            if is_quiet && count >= self.sizes.quiet || is_full {
                return (index + 1, is_quiet);
            }
        }
        (self.steps.len(), true)
    }

    /// Judges a piece, and moves on to the next one.
    fn judge(&mut self, piece: Range<usize>, found: &mut Linearized) -> Option<Wrong> {
        found.pieces += 1;
        let verdict = self.test(piece.clone());
        match verdict {
            Verdict::Right => {
                self.pass(piece);
                None
            }
            Verdict::Unknown if piece.len() > 1 => {
                found.divided += 1;
                self.judge_halves(piece, found)
            }
            // The first half that is wrong has the operation.
            Verdict::Wrong if piece.len() > 1 => self.judge_halves(piece, found),
            Verdict::Wrong | Verdict::Unknown => {
                let operation = self.operations[self.steps[piece.start].operation as usize];
                let holders = self.object.holders();
                self.pass(piece);
                Some(Wrong { operation, holders })
            }
        }
    }

    fn judge_halves(&mut self, piece: Range<usize>, found: &mut Linearized) -> Option<Wrong> {
        let middle = piece.start + piece.len() / 2;
        let wrong = self.judge(piece.start..middle, found);
        if wrong.is_some() {
            self.pass(middle..piece.end);
            return wrong;
        }
        self.judge(middle..piece.end, found)
    }

    fn test(&self, piece: Range<usize>) -> Verdict {
        let steps = Rc::new(Cell::new(self.sizes.steps));
        let object = Limited::new(self.object.clone(), Rc::clone(&steps));
        let mut tester = Tester::new(object);
        let returns_here = |&&operation: &&u32| piece.contains(&self.returns[operation as usize]);
        for &operation in self.waiting.iter().filter(returns_here) {
            tester.begin(operation, self.operation(operation).op);
        }
        for &operation in &self.ending {
            tester.begin_open(self.operation(operation).op);
        }
        for step in &self.steps[piece.clone()] {
            let Operation { op, returned, .. } = *self.operation(step.operation);
            match op {
                _ if step.returns => tester.end(step.operation),
                _ if returned.is_none() => tester.begin_open(op),
                Op::Acquire(_) if !returns_here(&&step.operation) => {}
                _ => tester.begin(step.operation, op),
            }
        }
        tester.end_all();
        match tester.tester.is_consistent() {
            true => Verdict::Right,
            false if steps.get() == 0 => Verdict::Unknown,
            false => Verdict::Wrong,
        }
    }

    /// Does everything that is done in the piece.
    fn pass(&mut self, piece: Range<usize>) {
        let Some(last) = self.steps[..piece.end].last().map(|step| step.at) else {
            return;
        };
        for index in piece {
            let Step { operation, returns, .. } = self.steps[index];
            let Operation { op, returned, .. } = *self.operation(operation);
            match op {
                Op::Acquire(acquire) if returns => {
                    self.waiting.retain(|&waiting| waiting != operation);
                    self.object.put(&acquire);
                }
                Op::Acquire(_) if returned.is_some() => self.waiting.push(operation),
                Op::Release(hold) if !returns => drop(self.object.take(hold)),
                Op::End(_) => self.ending.push(operation),
                _ => {}
            }
        }
        let (operations, needed) = (self.operations, &self.needed);
        let object = &mut *self.object;
        self.ending.retain(|&ending| {
            let hold = operations[ending as usize].op.hold();
            let is_needed = needed.get(&hold).is_some_and(|&needed| needed > last);
            if !is_needed {
                object.take(hold);
            }
            is_needed
        });
    }

    fn operation(&self, operation: u32) -> &'o Operation {
        &self.operations[operation as usize]
    }
}

/// The tester, whose threads are lanes: an operation takes the first that is free. One lane has
/// operations one after the other, as a thread has.
struct Tester<O: Object> {
    tester: LinearizabilityTester<u32, Limited<O>>,
    /// The operation that is going on in each.
    lanes: Vec<Option<u32>>,
    open: u32,
}

impl<O: Object> Tester<O> {
    fn new(object: Limited<O>) -> Tester<O> {
        Tester { tester: LinearizabilityTester::new(object), lanes: Vec::new(), open: 0 }
    }

    fn begin(&mut self, operation: u32, op: Op) {
        let free = self.lanes.iter().position(Option::is_none);
        let lane = free.unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        });
        self.lanes[lane] = Some(operation);
        // It refuses a thread that is in an operation already, and there is none.
        let _ = self.tester.on_invoke(lane as u32, op);
    }

    fn begin_open(&mut self, op: Op) {
        let _ = self.tester.on_invoke(FIRST_OPEN_LANE + self.open, op);
        self.open += 1;
    }

    /// Nothing if it has begun before the piece, and has taken effect there.
    fn end(&mut self, operation: u32) {
        let lane = self.lanes.iter().position(|&going_on| going_on == Some(operation));
        if let Some(lane) = lane {
            self.lanes[lane] = None;
            let _ = self.tester.on_return(lane as u32, Answered::Done);
        }
    }

    fn end_all(&mut self) {
        let going_on: Vec<u32> = self.lanes.iter().flatten().copied().collect();
        going_on.into_iter().for_each(|operation| self.end(operation));
    }
}
