//! Cuts the operations of a lock into pieces, and passes each piece to the tester.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use super::objects::{Answered, Limited, Object};
use super::{Linearized, Sizes, Wrong};
use crate::operations::{HoldIndex, Op, Operation};
use crate::time::Nanos;

/// The threads of operations that stay open, behind all others: the tester tries them last.
const FIRST_OPEN: usize = usize::MAX / 2;

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
    /// The last step that needs a hold that may have ended.
    needed: HashMap<HoldIndex, usize>,
    /// How many operations have begun before the next cut and not returned.
    going_on: usize,
    /// Acquires among those of the last cut.
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
        let ends = operations.iter().filter(|operation| matches!(operation.op, Op::End(_)));
        let mut needed: HashMap<_, _> = ends.map(|operation| (operation.op.hold(), 0)).collect();
        if !needed.is_empty() {
            for (index, step) in steps.iter().enumerate() {
                let op = operations[step.operation as usize].op;
                let needs = match op {
                    Op::Acquire(_) => step.returns,
                    Op::Write(_) | Op::Release(_) => !step.returns,
                    Op::End(_) => false,
                };
                if let Some(needed) = needed.get_mut(&op.hold()).filter(|_| needs) {
                    *needed = index;
                }
            }
        }
        let (going_on, waiting, ending) = (0, Vec::new(), Vec::new());
        Pieces { object, operations, sizes, steps, returns, needed, going_on, waiting, ending }
    }

    /// Returns where the piece ends that begins here, and whether nothing is going on there.
    fn next_cut(&mut self, begin: usize) -> (usize, bool) {
        let (mut count, mut open) = (0, self.ending.len());
        for (index, step) in self.steps.iter().enumerate().skip(begin) {
            let stays_open = self.operations[step.operation as usize].returned.is_none();
            if step.returns {
                self.going_on -= 1;
                count += 1;
            } else if stays_open {
                open += 1;
            } else {
                self.going_on += 1;
            }
            // Whatever happens at one instant may have happened in any order.
            if self.is_within_instant(index + 1) {
                continue;
            }
            let is_quiet = self.going_on == 0;
            let is_full = count >= self.sizes.most || open >= self.sizes.open;
            if is_quiet && count >= self.sizes.quiet || is_full {
                return (index + 1, is_quiet);
            }
        }
        (self.steps.len(), true)
    }

    fn is_within_instant(&self, cut: usize) -> bool {
        self.steps.get(cut).is_some_and(|next| next.at == self.steps[cut - 1].at)
    }

    /// Returns a place near the middle where a piece can be cut.
    fn middle(&self, piece: &Range<usize>) -> Option<usize> {
        let middle = piece.start + piece.len() / 2;
        let mut cuts = (middle..piece.end).chain((piece.start + 1..middle).rev());
        cuts.find(|&cut| cut > piece.start && !self.is_within_instant(cut))
    }

    /// Judges a piece, and moves on to the next one.
    fn judge(&mut self, piece: Range<usize>, found: &mut Linearized) -> Option<Wrong> {
        found.pieces += 1;
        let verdict = self.test(piece.clone());
        let last = self.steps[piece.end - 1].operation;
        let holders = self.object.holders();
        let wrong = Wrong { operation: *self.operation(last), holders };
        match (verdict, self.middle(&piece)) {
            (Verdict::Right, _) => {
                self.pass(piece);
                None
            }
            (Verdict::Unknown, Some(middle)) => {
                found.divided += 1;
                self.judge_parts(piece, middle, found)
            }
            (Verdict::Unknown, None) => {
                found.undecided += 1;
                self.pass(piece);
                None
            }
            // The first part that is wrong has the operation.
            (Verdict::Wrong, Some(middle)) => {
                self.judge_parts(piece, middle, found).or(Some(wrong))
            }
            (Verdict::Wrong, None) => {
                self.pass(piece);
                Some(wrong)
            }
        }
    }

    fn judge_parts(
        &mut self,
        piece: Range<usize>,
        middle: usize,
        found: &mut Linearized,
    ) -> Option<Wrong> {
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
            tester.begin(operation, self.returns[operation as usize], self.operation(operation).op);
        }
        for &operation in &self.ending {
            tester.begin_open(self.operation(operation).op);
        }
        for (index, step) in piece.clone().zip(&self.steps[piece.clone()]) {
            let Operation { op, returned, .. } = *self.operation(step.operation);
            match op {
                _ if step.returns => tester.end(step.operation),
                _ if returned.is_none() => tester.begin_open(op),
                Op::Acquire(_) if !returns_here(&&step.operation) => {}
                // A grant is likeliest at its return, and what is done by a holder when it begins.
                Op::Acquire(_) => {
                    tester.begin(step.operation, self.returns[step.operation as usize], op)
                }
                _ => tester.begin(step.operation, index, op),
            }
        }
        tester.end_all();
        match tester.tester.is_consistent() {
            true => Verdict::Right,
            false if steps.get() == 0 => Verdict::Unknown,
            false => Verdict::Wrong,
        }
    }

    /// Brings the object into the state behind the piece.
    fn pass(&mut self, piece: Range<usize>) {
        let (mut came, mut gone) = (Vec::new(), Vec::new());
        for index in piece.clone() {
            let Step { operation, returns, .. } = self.steps[index];
            let Operation { op, returned, .. } = *self.operation(operation);
            match op {
                Op::Acquire(acquire) if returns => {
                    self.waiting.retain(|&waiting| waiting != operation);
                    came.push(acquire);
                }
                Op::Acquire(_) if returned.is_some() => self.waiting.push(operation),
                Op::Release(hold) if !returns => gone.push(hold),
                Op::End(_) => self.ending.push(operation),
                _ => {}
            }
        }
        let (operations, needed) = (self.operations, &self.needed);
        self.ending.retain(|&ending| {
            let hold = operations[ending as usize].op.hold();
            let is_needed = needed.get(&hold).is_some_and(|&needed| needed >= piece.end);
            if !is_needed {
                gone.push(hold);
            }
            is_needed
        });
        for &hold in &gone {
            self.object.take(hold);
        }
        for acquire in came {
            if gone.contains(&acquire.hold) {
                self.object.remember(&acquire);
            } else {
                self.object.put(&acquire);
            }
        }
    }

    fn operation(&self, operation: u32) -> &'o Operation {
        &self.operations[operation as usize]
    }
}

/// The tester. Each operation is a thread of its own, since it tries threads in their order, and
/// copies everything for each that it tries: so the likeliest is the first.
struct Tester<O: Object> {
    tester: LinearizabilityTester<usize, Limited<O>>,
    /// The operations that are going on, and their threads.
    going_on: Vec<(u32, usize)>,
    open: usize,
}

impl<O: Object> Tester<O> {
    fn new(object: Limited<O>) -> Tester<O> {
        let tester = LinearizabilityTester::new(object);
        Tester { tester, going_on: Vec::new(), open: 0 }
    }

    fn begin(&mut self, operation: u32, thread: usize, op: Op) {
        self.going_on.push((operation, thread));
        // It refuses a thread that is in an operation already, and there is none.
        let _ = self.tester.on_invoke(thread, op);
    }

    fn begin_open(&mut self, op: Op) {
        let _ = self.tester.on_invoke(FIRST_OPEN + self.open, op);
        self.open += 1;
    }

    /// Nothing if it has begun before the piece, and has taken effect there.
    fn end(&mut self, operation: u32) {
        let position = self.going_on.iter().position(|&(going_on, _)| going_on == operation);
        if let Some(position) = position {
            let (_, thread) = self.going_on.swap_remove(position);
            let _ = self.tester.on_return(thread, Answered::Done);
        }
    }

    fn end_all(&mut self) {
        while let Some(&(operation, _)) = self.going_on.first() {
            self.end(operation);
        }
    }
}
