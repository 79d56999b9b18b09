//! The history of one lock as operations that begin, and end or stay open. The second judge uses
//! these.
//!
//! | in the history | operations |
//! |---|---|
//! | a grant | an acquire, from the call to its return |
//! | a call whose answer was lost, a hold that was over before its call came back | an acquire that stays open |
//! | a call that came back without the lock | nothing: it changes nothing |
//! | a guarded write that was carried out | a write, from the call to its return |
//! | an unlock that said that it was fine | a release, from the call to its return |
//! | an unlock of which nothing is known, or of a hold in doubt | a release that stays open |
//! | a loss, a death, a doubt | an *end*, which stays open: the servers free the lock at some time after it |

use crate::event::{Answer, Incarnation, Missed, Unlocked};
use crate::history::{History, Record};
use crate::lock::Mode;
use crate::time::Nanos;

/// The index of a hold in its history. Open acquires have higher numbers.
pub(crate) type HoldIndex = u32;

/// An operation on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Acquire(Acquire),
    /// Applied by the servers while the lock is held.
    Write(HoldIndex),
    Release(HoldIndex),
    /// The servers take the lock from a client that they have given up.
    End(HoldIndex),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acquire {
    pub(crate) hold: HoldIndex,
    pub(crate) client: Incarnation,
    pub(crate) mode: Mode,
    /// The write, if this is a downgraded read.
    pub(crate) under: Option<HoldIndex>,
    /// The returned token. `None` if it returned none, or stays open.
    pub(crate) token: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) op: Op,
    pub(crate) invoked: Nanos,
    pub(crate) returned: Option<Nanos>,
}

impl Operation {
    fn of(op: Op, invoked: Nanos, returned: Nanos) -> Operation {
        Operation { op, invoked: invoked.min(returned), returned: Some(returned) }
    }

    fn open(op: Op, invoked: Nanos) -> Operation {
        Operation { op, invoked, returned: None }
    }
}

impl Op {
    pub(crate) fn hold(&self) -> HoldIndex {
        match *self {
            Op::Acquire(Acquire { hold, .. }) => hold,
            Op::Write(hold) | Op::Release(hold) | Op::End(hold) => hold,
        }
    }
}

/// Returns the operations of each lock, unordered.
pub(crate) fn of(history: &History, locks: usize) -> Vec<Vec<Operation>> {
    let mut all: Vec<Vec<Operation>> = vec![Vec::new(); locks];
    // The begin of each hold's last guarded write.
    let mut wrote: Vec<Option<Nanos>> = vec![None; history.holds.len()];
    for commit in history.commits.iter().filter(|commit| commit.answer == Answer::Done) {
        for &hold in &commit.holds {
            let Some(index) = history.position(hold) else {
                continue;
            };
            let last = &mut wrote[index];
            *last = (*last).max(Some(commit.started));
            all[history.holds[index].grant.path].push(Operation::of(
                Op::Write(index as HoldIndex),
                commit.started,
                commit.ended,
            ));
        }
    }
    for (index, (record, wrote)) in history.holds.iter().zip(wrote).enumerate() {
        of_hold(&mut all[record.grant.path], history, (index as HoldIndex, record), wrote);
    }
    let missed = history.calls.iter().filter_map(|(by, call)| match call.missed {
        Some(Missed { mode, certain: false }) => Some((by, call.path, mode, call.started)),
        _ => None,
    });
    let open = history
        .open
        .iter()
        .filter_map(|(by, call)| Some((by, call.path, call.mode?, call.started)));
    for ((by, path, mode, started), hold) in missed.chain(open).zip(history.holds.len() as u32..) {
        let client = by.incarnation();
        let acquire = Acquire { hold, client, mode, under: None, token: None };
        all[path].push(Operation::open(Op::Acquire(acquire), started));
    }
    all
}

fn of_hold(
    operations: &mut Vec<Operation>,
    history: &History,
    (hold, record): (HoldIndex, &Record),
    wrote: Option<Nanos>,
) {
    let grant = &record.grant;
    let client = grant.hold.by.incarnation();
    let doubted = history.doubted(record);
    let released = match (record.unlocked, record.left, record.returned) {
        // An unlock cannot know of an end that nobody could report to the client.
        (Some(Unlocked::Fine), Some(left), Some(returned)) if doubted.is_none() => {
            Some((left, returned))
        }
        _ => None,
    };
    let lost = record.loss.as_ref().map(|loss| loss.at);
    let died = history.deaths.get(&client).copied();
    let left = record.left.filter(|_| released.is_none());
    let ends = [lost, died, left, doubted];
    let end = ends.into_iter().flatten().min();
    let needed = wrote.max(released.map(|(left, _)| left));
    let mut acquire = Acquire {
        hold,
        client,
        mode: grant.mode,
        under: grant.under.and_then(|under| Some(history.position(under)? as HoldIndex)),
        token: grant.token,
    };
    if end.is_some_and(|end| end <= grant.at) && needed.is_none() {
        // Its hold ended before anybody knew of it.
        acquire.token = None;
        operations.push(Operation::open(Op::Acquire(acquire), grant.started));
        return;
    }
    operations.push(Operation::of(Op::Acquire(acquire), grant.started, grant.at));
    if let Some((left, returned)) = released {
        operations.push(Operation::of(Op::Release(hold), left, returned));
    }
    let end = end.filter(|&end| released.is_none_or(|(_, returned)| end < returned));
    if let Some(end) = end {
        operations.push(Operation::open(Op::End(hold), end.max(grant.at)));
    }
}
