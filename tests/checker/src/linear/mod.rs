//! The second checker. The `LinearizabilityTester` of stateright, which knows nothing of locks, checks the
//! operations of each lock against a [sequential object](objects).
//!
//! The tester tries the orders in which the operations may have taken effect, copies the rest at each step,
//! and remembers no state. So it gets pieces of some ten operations, each with the state of the lock before
//! it. A grant belongs to the piece in which its call returns, and a write or the end of a hold to that in
//! which it begins.
//!
//! These pieces accept and reject the same histories as no pieces. Take a correct order of a
//! history. Move each acquire after everything that precedes its return, and each write and end before
//! everything that follows its begin. Less is held at each time than before, so the order stays correct.
//! The only obstacle would be an acquire that must precede another one because its token is lower. Then that
//! hold ended before the other one began, and so before its own call returned, which leaves it out
//! (see [`crate::operations`]). A test compares all of this with whole histories.

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

/// The sizes of pieces.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// The number of operations, or more at one instant.
    most: usize,
    /// The number of steps after which a piece is divided.
    steps: u32,
}

/// Larger pieces take ten times as long, since the tester copies the rest at each step.
const SIZES: Sizes = Sizes { most: 10, steps: 300 };

/// The second checker of histories. It remembers the fencing tokens of earlier ones, whose holds have all
/// ended.
#[derive(Debug)]
pub struct Linear {
    locks: Vec<(Lock, Object)>,
    sizes: Sizes,
}

/// The findings of the second checker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Linearized {
    /// The number of operations.
    pub operations: usize,
    /// How many have no known outcome.
    pub open: usize,
    /// Undecided pieces, which took too many steps and are one instant.
    pub undecided: usize,
    /// Contradictions to linearizability, a line each.
    pub violations: Vec<String>,
}

impl Linear {
    /// Creates a checker of histories about these locks.
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

/// An operation without a possible position.
#[derive(Debug)]
struct Wrong {
    operation: Operation,
    /// The holders of the lock at that time.
    holders: Vec<HoldIndex>,
}

fn describe(history: &History, lock: &Lock, wrong: &Wrong) -> String {
    let name = |hold: HoldIndex| match history.holds.get(hold as usize) {
        Some(Record { grant, .. }) => {
            let (hold, mode, nodes) = (grant.hold, grant.mode, grant.nodes.join(", "));
            format!("{hold} ({mode:?}, {}, token {:?}, {nodes})", grant.op, grant.token)
        }
        None => "nobody known".to_owned(),
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
