//! The history of each lock as operations, which the second checker uses. Each operation takes effect at some time
//! between its begin and its return.
//!
//! | in the history | operations |
//! |---|---|
//! | a grant | an acquire, from the call to its return |
//! | a guarded write that was applied | a write, from the call to its return |
//! | an unlock that reported success | the end of the hold, from the call to its return |
//! | an unlock with an unknown result, or of a hold in doubt; a loss, a death, a doubt | the end of the hold at that instant, or when its last write began if that is later |
//! | a call that returned without the lock, even if it may have held the lock for a while; a hold that was over before its call returned | nothing: it can only have excluded others |

use crate::event::{Answer, Missed, Unlocked};
use crate::history::{History, Record};
use crate::lock::Mode;
use crate::time::Nanos;

/// The index of a hold in its history.
pub(crate) type HoldIndex = u32;

/// An operation on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Acquire(Acquire),
    /// A write that the servers apply while the lock is held.
    Write(HoldIndex),
    /// The lock is released, or the servers end the session of a client that is dead or has lost it.
    End(HoldIndex),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acquire {
    pub(crate) hold: HoldIndex,
    pub(crate) client: usize,
    pub(crate) mode: Mode,
    /// If this is a downgraded read: the write hold.
    pub(crate) under: Option<HoldIndex>,
    /// The fencing token that the call returned.
    pub(crate) token: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) op: Op,
    pub(crate) invoked: Nanos,
    pub(crate) returned: Nanos,
}

impl Operation {
    fn of(op: Op, invoked: Nanos, returned: Nanos) -> Operation {
        Operation { op, invoked: invoked.min(returned), returned }
    }

    /// Returns when the operation takes effect if acquires do so as late as possible, and others as early as possible.
    pub(crate) fn due(&self) -> Nanos {
        match self.op {
            Op::Acquire(_) => self.returned,
            Op::Write(_) | Op::End(_) => self.invoked,
        }
    }
}

impl Op {
    pub(crate) fn hold(&self) -> HoldIndex {
        match *self {
            Op::Acquire(Acquire { hold, .. }) | Op::Write(hold) | Op::End(hold) => hold,
        }
    }
}

/// The operations of each lock, unordered, and the number of operations with an unknown outcome.
pub(crate) struct Operations {
    pub(crate) of_locks: Vec<Vec<Operation>>,
    pub(crate) open: usize,
}

impl Operations {
    pub(crate) fn new(history: &History, locks: usize) -> Operations {
        let mut all = Operations { of_locks: vec![Vec::new(); locks], open: 0 };
        // When each hold's last guarded write began.
        let mut wrote: Vec<Option<Nanos>> = vec![None; history.holds.len()];
        for commit in history.commits.iter().filter(|commit| commit.answer == Answer::Done) {
            if let Some(index) = history.position(commit.hold) {
                wrote[index] = wrote[index].max(Some(commit.started));
                let op = Op::Write(index as HoldIndex);
                let write = Operation::of(op, commit.started, commit.ended);
                all.of_locks[history.holds[index].grant.path].push(write);
            }
        }
        for (index, (record, wrote)) in history.holds.iter().zip(wrote).enumerate() {
            all.add(history, index as HoldIndex, record, wrote);
        }
        let is_unknown = |missed: &Option<Missed>| missed.is_some_and(|missed| !missed.certain);
        all.open += history.calls.iter().filter(|(_, call)| is_unknown(&call.missed)).count();
        all.open += history.open.values().filter(|call| call.mode.is_some()).count();
        all
    }

    fn add(&mut self, history: &History, hold: HoldIndex, record: &Record, wrote: Option<Nanos>) {
        let grant = &record.grant;
        let client = grant.hold.by.process;
        let doubted = history.doubted(record);
        let released = match (record.unlocked, record.left, record.returned) {
            // If the client could not be notified of the end of its hold, its unlock could not detect that either.
            (Some(Unlocked::Fine), Some(left), Some(returned)) if doubted.is_none() => {
                Some((left.max(wrote.unwrap_or(left)), returned))
            }
            _ => None,
        };
        let end = record.end(&history.deaths).into_iter().chain(doubted).min();
        self.open += usize::from(end.is_some() && released.is_none());
        let is_over = end.is_some_and(|end| end <= grant.at);
        if is_over && wrote.is_none() && released.is_none() {
            return;
        }
        let acquire = Acquire {
            hold,
            client,
            mode: grant.mode,
            under: grant.under.and_then(|under| Some(history.position(under)? as HoldIndex)),
            token: grant.token,
        };
        let of_lock = &mut self.of_locks[grant.path];
        of_lock.push(Operation::of(Op::Acquire(acquire), grant.started, grant.at));
        // The hold is not needed after its last guarded write.
        let at_once = end.map(|end| end.max(grant.at).max(wrote.unwrap_or(end)));
        let ends = released.or(at_once.map(|end| (end, end)));
        of_lock.extend(ends.map(|(from, to)| Operation::of(Op::End(hold), from, to)));
    }
}
