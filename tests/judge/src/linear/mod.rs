//! The second judge: the operations of each lock go through the `LinearizabilityTester` of
//! stateright, which knows nothing of locks, with the [sequential objects](objects) that locks have
//! to look like.
//!
//! The tester tries the orders in which the operations may have taken effect, copies all that is
//! left at each step, and remembers no state that it has seen. So it gets pieces of some ten
//! operations, with the state of the lock before them. There are two kinds of cuts:
//!
//! - where no operation is going on whose answer is known: everything before has taken effect;
//! - where there are too many operations without such a point. Then a grant takes effect behind the
//!   cut that its call was open at, a release or a write before it.
//!
//! The second kind accepts and rejects the same histories as no cut at all. Let a history have a
//! right order. Move each acquire behind all that comes before its return, and each release and
//! write before all that comes after its invocation. Less is held at each time than before, so
//! whatever was right stays right. What would be in the way is an acquire that must come before
//! another one because its token is lower; then that hold was over before the other one began, and
//! so before its own call came back, which makes it an acquire that stays open (see
//! [`operations`]), without a token.
//!
//! Operations that stay open are in the piece in which they begin. After that, an acquire whose
//! answer was lost can be left out, since it only blocks others and no later operation needs it. A
//! hold that may have ended has ended, unless a release or a write needs it later. A test compares
//! all of this with histories that are not cut.

mod objects;
mod piece;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::event::HoldId;
use crate::history::History;
use crate::lock::{Lock, Use};
use crate::operations::{self, Op, Operation};

use objects::{FencedMutex, FencedRwLock, Semaphore};
use piece::Pieces;

/// What the tester gets at once: pieces end at the first quiet point behind the first number of
/// operations, and wherever they are behind the second.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    quiet: usize,
    most: usize,
    /// So many operations may stay open in a piece: any of them may have any place.
    open: usize,
    /// After so many steps a piece is divided.
    steps: u32,
}

/// Larger ones take ten times as long, since the tester copies what is left at each step.
const SIZES: Sizes = Sizes { quiet: 6, most: 12, open: 3, steps: 300 };

/// The second judge of histories. It keeps the fencing tokens of those before; all holds of those
/// are over.
#[derive(Debug)]
pub struct Linear {
    locks: Vec<(Lock, Object)>,
    sizes: Sizes,
}

#[derive(Debug)]
enum Object {
    Mutex(FencedMutex),
    RwLock(FencedRwLock),
    Semaphore(Semaphore),
}

/// What the second judge found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Linearized {
    /// How many operations there were.
    pub operations: usize,
    /// Those of them that stay open.
    pub open: usize,
    /// How many pieces went through the tester.
    pub pieces: usize,
    /// Those that end where no operation was going on.
    pub quiet: usize,
    /// Those that took the tester too many steps, and were divided.
    pub divided: usize,
    /// Those that are not decided: they took too many steps, and are one instant.
    pub undecided: usize,
    /// What is not linearizable, a line each.
    pub violations: Vec<String>,
}

impl Linear {
    /// Makes a judge of histories about these locks.
    pub fn new(locks: &[Lock]) -> Linear {
        Linear::with(locks, SIZES)
    }

    fn with(locks: &[Lock], sizes: Sizes) -> Linear {
        let object = |lock: &Lock| match lock.what {
            Use::Exclusive | Use::Ephemeral => Object::Mutex(FencedMutex::default()),
            Use::ReadWrite => Object::RwLock(FencedRwLock::default()),
            Use::Semaphore(permits) => Object::Semaphore(Semaphore::new(permits)),
        };
        Linear { locks: locks.iter().map(|lock| (lock.clone(), object(lock))).collect(), sizes }
    }

    /// Judges a history.
    pub fn check(&mut self, history: &History) -> Linearized {
        let mut found = Linearized::default();
        let all = operations::of(history, self.locks.len());
        for ((lock, object), operations) in self.locks.iter_mut().zip(&all) {
            found.operations += operations.len();
            let open = operations.iter().filter(|operation| operation.returned.is_none());
            found.open += open.count();
            let wrong = match object {
                Object::Mutex(object) => Pieces::check(object, operations, self.sizes, &mut found),
                Object::RwLock(object) => Pieces::check(object, operations, self.sizes, &mut found),
                Object::Semaphore(object) => {
                    Pieces::check(object, operations, self.sizes, &mut found)
                }
            };
            let texts = wrong.iter().map(|wrong| describe(history, lock, wrong));
            found.violations.extend(texts);
        }
        found
    }
}

impl Linearized {
    /// Adds what was found in another history.
    pub fn add(&mut self, other: Linearized) {
        self.operations += other.operations;
        self.open += other.open;
        self.pieces += other.pieces;
        self.quiet += other.quiet;
        self.divided += other.divided;
        self.undecided += other.undecided;
        self.violations.extend(other.violations);
    }
}

/// An operation for which there is no place.
#[derive(Debug)]
struct Wrong {
    operation: Operation,
    /// Who held the lock then.
    holders: Vec<operations::HoldIndex>,
}

fn describe(history: &History, lock: &Lock, wrong: &Wrong) -> String {
    let record = |hold: operations::HoldIndex| history.holds.get(hold as usize);
    let name = |hold| record(hold).map(|record| record.grant.hold.to_string());
    let Operation { op, invoked, returned, .. } = wrong.operation;
    let token = record(op.hold()).and_then(|record| record.grant.token);
    let what = match op {
        Op::Acquire(acquire) => format!("the grant ({:?}, token {token:?})", acquire.mode),
        Op::Write(_) => "a guarded write".to_owned(),
        Op::Release(_) => "the release".to_owned(),
        Op::End(_) => "the end".to_owned(),
    };
    let holders: Vec<HoldId> =
        wrong.holders.iter().filter_map(|&hold| Some(record(hold)?.grant.hold)).collect();
    let holders: Vec<_> = holders.iter().map(HoldId::to_string).collect();
    format!(
        "not linearizable: {what} of {} at {} from {invoked} to {returned:?} ns; before it, the lock was \
         held by [{}]",
        name(op.hold()).unwrap_or_else(|| "nobody known".to_owned()),
        lock.name,
        holders.join(", "),
    )
}
