//! The second checker. It checks the operations of each lock against a [sequential object](objects) with stateright's
//! `LinearizabilityTester`, which is not specific to locks.
//!
//! The tester tries all orders in which the operations may have taken effect, copies the remaining operations at each
//! step, and does not remember states it has seen. It is therefore given pieces of about ten operations, and with each
//! piece the lock's state before it. A grant belongs to the piece in which its call returns, and a write or the end of
//! a hold belongs to the piece in which it begins.
//!
//! Checking pieces accepts and rejects the same histories as checking a whole history. Take a correct order of a
//! history. Move each acquire after everything that precedes its return, and each write and end before everything that
//! follows its begin. At any time, less is held than before, so the order is still correct. The only obstacle would be
//! an acquire that must precede another one because its token is lower. But then its hold ended before the other
//! acquire began, so before its own call returned, and is left out (see [`crate::operations`]). A test compares the
//! results with those for whole histories.

#[cfg(test)]
mod made_up;
mod objects;
mod piece;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::history::{History, Record};
use crate::lock::Lock;
use crate::operations::{HoldIndex, Op, Operation, Operations};

use objects::Object;

/// The limits on the sizes of pieces.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// The number of operations. A piece has more if more of them happen at the same instant.
    most: usize,
    /// The number of steps of the tester after which a piece is divided.
    steps: u32,
}

/// Larger pieces would take ten times as long, because the tester copies the remaining operations at each step.
const SIZES: Sizes = Sizes { most: 10, steps: 300 };

/// The second checker of histories. It keeps the fencing tokens of earlier histories, whose holds have all ended.
#[derive(Debug)]
pub struct Linear {
    locks: Vec<(Lock, Object)>,
    sizes: Sizes,
}

/// The findings of the second checker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Linearized {
    /// How many operations were checked.
    pub operations: usize,
    /// How many operations have an unknown outcome.
    pub open: usize,
    /// Pieces without a result: they took too many steps and cannot be divided, because they happen at one instant.
    pub undecided: usize,
    /// Violations of linearizability, one per line.
    pub violations: Vec<String>,
}

impl Linear {
    /// Creates a checker for histories of these locks.
    pub fn new(locks: &[Lock]) -> Linear {
        Linear::with(locks, SIZES)
    }

    fn with(locks: &[Lock], sizes: Sizes) -> Linear {
        Linear {
            locks: locks.iter().map(|lock| (lock.clone(), Object::new(lock.what))).collect(),
            sizes,
        }
    }

    /// Checks a history.
    pub fn check(&mut self, history: &History) -> Linearized {
        let Operations { of_locks, open } = Operations::new(history, self.locks.len());
        let mut found = Linearized { open, ..Linearized::default() };
        for ((lock, object), operations) in self.locks.iter_mut().zip(of_locks) {
            found.operations += operations.len();
            let wrong = piece::check(object, operations, self.sizes, &mut found);
            let texts = wrong.iter().map(|wrong| describe(history, lock, wrong));
            found.violations.extend(texts);
        }
        found
    }
}

impl Linearized {
    /// Adds the findings in another history.
    pub fn add(&mut self, other: Linearized) {
        self.operations += other.operations;
        self.open += other.open;
        self.undecided += other.undecided;
        self.violations.extend(other.violations);
    }
}

/// An operation that fits in no position of any order.
#[derive(Debug)]
struct Wrong {
    operation: Operation,
    /// The holders of the lock before it.
    holders: Vec<HoldIndex>,
}

fn describe(history: &History, lock: &Lock, wrong: &Wrong) -> String {
    let name = |hold: HoldIndex| match history.holds.get(hold as usize) {
        Some(Record { grant, .. }) => {
            let (hold, mode, nodes) = (grant.hold, grant.mode, grant.nodes.join(", "));
            format!("{hold} ({mode:?}, {}, token {:?}, {nodes})", grant.op, grant.token)
        }
        None => "no one known".to_owned(),
    };
    let Operation { op, invoked, returned, .. } = wrong.operation;
    let what = match op {
        Op::Acquire(_) => "the grant",
        Op::Write(_) => "a guarded write",
        Op::End(_) => "the end",
    };
    let holders: Vec<_> = wrong.holders.iter().map(|&hold| name(hold)).collect();
    format!(
        "not linearizable: {what} of {} at {} from {invoked} to {returned} ns; before it, the lock was \
         held by [{}]",
        name(op.hold()),
        lock.name,
        holders.join(", "),
    )
}
