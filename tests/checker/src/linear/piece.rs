//! Splits the operations of a lock into pieces, and checks each with the tester.

use std::cell::Cell;
use std::rc::Rc;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use super::objects::{Limited, Object};
use super::{Linearized, Sizes, Wrong};
use crate::operations::{Op, Operation};

/// Checks all operations of a lock, and returns those that have no possible position. Afterwards, the object has no
/// holders, but keeps its tokens.
pub(super) fn check(
    object: &mut Object,
    mut operations: Vec<Operation>,
    sizes: Sizes,
    found: &mut Linearized,
) -> Vec<Wrong> {
    operations.sort_by_key(Operation::due);
    let mut wrong = Vec::new();
    let mut left = &operations[..];
    while !left.is_empty() {
        let least = sizes.most.min(left.len());
        let end = (least..left.len()).find(|&at| is_cut(left, at)).unwrap_or(left.len());
        let piece;
        (piece, left) = left.split_at(end);
        wrong.extend(check_piece(object, piece, sizes, found));
    }
    object.clear();
    wrong
}

/// Returns whether operations may be divided here. Events at one instant stay together, because their order is unknown.
fn is_cut(operations: &[Operation], at: usize) -> bool {
    operations[at - 1].due() < operations[at].due()
}

/// Checks a piece, and then updates the object to the state after it.
fn check_piece(
    object: &mut Object,
    piece: &[Operation],
    sizes: Sizes,
    found: &mut Linearized,
) -> Option<Wrong> {
    let verdict = test(object, piece, sizes.steps);
    let cuts = (1..piece.len()).filter(|&at| is_cut(piece, at));
    let middle = cuts.min_by_key(|at| at.abs_diff(piece.len() / 2));
    let wrong = piece.last().filter(|_| verdict == Some(false));
    let wrong = wrong.map(|last| Wrong { operation: *last, holders: object.holders().collect() });
    if let Some(middle) = middle.filter(|_| verdict != Some(true)) {
        // The operation is in the first part that has no valid order.
        let (first, second) = piece.split_at(middle);
        let parts =
            [check_piece(object, first, sizes, found), check_piece(object, second, sizes, found)];
        return parts.into_iter().flatten().next().or(wrong);
    }
    found.undecided += usize::from(verdict.is_none());
    pass(object, piece);
    wrong
}

/// Returns whether there is a valid order, or `None` if that takes too many steps. The tester tries the threads in
/// order and copies everything for each try. Therefore, each operation has its own thread, the likeliest first.
fn test(object: &Object, piece: &[Operation], steps: u32) -> Option<bool> {
    let steps = Rc::new(Cell::new(steps));
    let limited = Limited { object: object.clone(), steps: Rc::clone(&steps) };
    let mut tester = LinearizabilityTester::new(limited);
    let both =
        piece.iter().enumerate().flat_map(|(thread, Operation { op, invoked, returned })| {
            [(*invoked, false, thread, *op), (*returned, true, thread, *op)]
        });
    let mut both: Vec<_> = both.collect();
    // An operation that returns at an instant may overlap with one that begins at it, so begins are sorted first.
    both.sort_by_key(|&(at, returns, ..)| (at, returns));
    for (_, returns, thread, op) in both {
        // The tester returns an error for wrong nestings of calls in a thread, which do not occur here.
        let _ = if returns { tester.on_return(thread, ()) } else { tester.on_invoke(thread, op) };
    }
    match tester.is_consistent() {
        true => Some(true),
        false if steps.get() == 0 => None,
        false => Some(false),
    }
}

/// Updates the object to the state after the piece.
fn pass(object: &mut Object, piece: &[Operation]) {
    let ends = |hold| piece.iter().any(|operation| operation.op == Op::End(hold));
    for operation in piece {
        if let Op::End(hold) = operation.op {
            object.take(hold);
        }
    }
    for operation in piece {
        match operation.op {
            Op::Acquire(acquire) if ends(acquire.hold) => object.remember(&acquire),
            Op::Acquire(acquire) => object.put(&acquire),
            Op::Write(_) | Op::End(_) => {}
        }
    }
}
