//! The history of a run: what was reported and observed, without a verdict.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::event::{
    Answer, Call, Carried, Commit, Doubt, Grant, HoldId, Loss, Overtaken, Unlocked, WorkerId,
};
use crate::lock::{LockIndex, Mode};
use crate::time::Nanos;

/// One hold.
#[derive(Debug, Clone)]
pub struct Record {
    /// The grant of the hold.
    pub grant: Grant,
    /// When the call that unlocks it began.
    pub left: Option<Nanos>,
    /// When the call that unlocks it returned, if known.
    pub returned: Option<Nanos>,
    /// The result of the unlock.
    pub unlocked: Option<Unlocked>,
    /// The loss of the hold, if it was lost.
    pub loss: Option<Loss>,
}

/// A call that has not returned yet.
#[derive(Debug, Clone)]
pub struct OpenCall {
    /// The method's name.
    pub op: Cow<'static, str>,
    /// The index of the lock.
    pub path: LockIndex,
    /// The requested mode, if the call requests a lock.
    pub mode: Option<Mode>,
    /// When the call was made.
    pub started: Nanos,
    /// The deadline for its return.
    pub deadline: Option<Nanos>,
}

/// Events in the order in which they were reported. The methods named in the past tense record events. The public lists
/// may be filled directly.
#[derive(Debug, Default)]
pub struct History {
    /// When the history began.
    pub begun: Nanos,
    /// When the history ended. Set this if open calls should be checked.
    pub over: Option<Nanos>,
    /// The holds, in the order in which they were reported.
    pub holds: Vec<Record>,
    index: HashMap<HoldId, usize>,
    early_losses: HashMap<HoldId, Loss>,
    /// Calls that have returned.
    pub calls: Vec<(WorkerId, Call)>,
    /// Calls that have not returned; at most one per thread.
    pub open: HashMap<WorkerId, OpenCall>,
    /// How late a thread that only sleeps woke up, in nanoseconds, because of the machine.
    pub naps: Vec<u64>,
    /// The longest time that a server needed for a write sent by none of the clients.
    pub slowest_write: u64,
    /// When clients died.
    pub deaths: HashMap<usize, Nanos>,
    /// Periods in which clients could not know the state of their holds.
    pub doubts: Vec<Doubt>,
    /// Behaviour that the library must not show, as reported by monitors.
    pub unexpected: Vec<String>,
    /// Guarded writes, in the order in which they were reported.
    pub commits: Vec<Commit>,
    /// For each lock, the highest token of a hold with a committed write.
    committed: HashMap<LockIndex, u64>,
    /// Holders with guarded writes that were stopped until another holder had taken over.
    pub overtaken_guards: Vec<Overtaken>,
    /// How many holders were stopped for that purpose.
    pub guards_stopped: usize,
    /// The guarded writes that the servers have applied.
    pub carried_out: Vec<Carried>,
}

impl History {
    /// Begins a history.
    pub fn new(begun: Nanos) -> History {
        History { begun, ..History::default() }
    }

    /// Records that a thread that only sleeps woke `late` nanoseconds after the intended time. A sleep that began
    /// before the history is ignored, because it may be reported late.
    pub fn slept(&mut self, since: Nanos, late: u64) {
        if since >= self.begun {
            self.naps.push(late);
        }
    }

    /// Records that a server answered, at `at`, a write sent at `since` by none of the clients. A write sent before the
    /// history began is ignored.
    pub fn served(&mut self, since: Nanos, at: Nanos) {
        if since >= self.begun {
            self.slowest_write = self.slowest_write.max(at - since);
        }
    }

    /// Records that a thread made a call.
    pub fn began(&mut self, by: WorkerId, call: OpenCall) {
        self.open.insert(by, call);
    }

    /// Records that the call of a thread returned. A grant is reported separately, with [`History::granted`].
    pub fn called(&mut self, by: WorkerId, call: Call) {
        self.open.remove(&by);
        self.calls.push((by, call));
    }

    /// Records that a lock was granted.
    pub fn granted(&mut self, grant: Grant) {
        self.index.insert(grant.hold, self.holds.len());
        self.holds.push(Record {
            loss: self.early_losses.remove(&grant.hold),
            grant,
            left: None,
            returned: None,
            unlocked: None,
        });
    }

    /// Records that a hold was lost. The loss may be reported before the grant.
    pub fn lost(&mut self, hold: HoldId, loss: Loss) {
        match self.record(hold) {
            Some(record) => record.loss = Some(loss),
            None => drop(self.early_losses.insert(hold, loss)),
        }
    }

    /// Records that the unlock of a hold begins.
    pub fn left(&mut self, hold: HoldId, at: Nanos) {
        if let Some(record) = self.record(hold) {
            record.left = Some(at);
        }
    }

    /// Records that an unlock returned, and when, if the time is known.
    pub fn unlocked(&mut self, hold: HoldId, at: Option<Nanos>, unlocked: Unlocked) {
        if let Some(record) = self.record(hold) {
            record.returned = at;
            record.unlocked = Some(unlocked);
        }
    }

    /// Records the answer to a guarded write.
    pub fn committed(&mut self, commit: Commit) {
        if let Some(&Grant { path, token: Some(token), .. }) = self.grant(commit.hold)
            && commit.answer == Answer::Done
        {
            let highest = self.committed.entry(path).or_default();
            *highest = token.max(*highest);
        }
        self.commits.push(commit);
    }

    /// Records that a client died. If this is reported several times, the first report counts.
    pub fn died(&mut self, process: usize, at: Nanos) {
        self.deaths.entry(process).or_insert(at);
    }

    /// Returns a hold, if its grant was reported.
    pub fn hold(&self, hold: HoldId) -> Option<&Record> {
        self.holds.get(*self.index.get(&hold)?)
    }

    /// Returns the index of a hold in the list of holds.
    pub(crate) fn position(&self, hold: HoldId) -> Option<usize> {
        self.index.get(&hold).copied()
    }

    /// Returns the grant of a hold.
    pub fn grant(&self, hold: HoldId) -> Option<&Grant> {
        self.hold(hold).map(|record| &record.grant)
    }

    /// Returns whether another holder has acquired the lock after this hold and committed a write.
    pub fn is_overtaken(&self, hold: HoldId) -> bool {
        let highest = |grant: &Grant| self.committed.get(&grant.path).copied();
        self.grant(hold).is_some_and(|grant| highest(grant) > grant.token)
    }

    /// Returns the holds that have not ended, as far as the history shows.
    pub fn open_holds(&self) -> impl Iterator<Item = &Record> {
        let died = |by: WorkerId| self.deaths.contains_key(&by.process);
        self.holds.iter().filter(move |record| {
            record.left.is_none() && record.loss.is_none() && !died(record.grant.hold.by)
        })
    }

    /// Returns the time from which the servers may have granted the lock to others without being able to notify the
    /// holder in time, if the hold had not ended before.
    pub fn doubted(&self, record: &Record) -> Option<Nanos> {
        let grant = &record.grant;
        let end = record.end(&self.deaths).unwrap_or(Nanos::MAX);
        let its = |doubt: &&Doubt| {
            doubt.process == grant.hold.by.process
                && doubt.path.is_none_or(|path| path == grant.path)
                && grant.started <= doubt.over
                && end >= doubt.begun
        };
        self.doubts.iter().filter(its).map(|doubt| doubt.begun).min()
    }

    fn record(&mut self, hold: HoldId) -> Option<&mut Record> {
        let index = *self.index.get(&hold)?;
        self.holds.get_mut(index)
    }
}

impl Record {
    /// Returns the loss, if the hold was lost before it was unlocked.
    pub fn loss_while_held(&self) -> Option<&Loss> {
        let in_time = |loss: &&Loss| self.left.is_none_or(|left| loss.at <= left);
        self.loss.as_ref().filter(in_time)
    }

    /// Returns the end of the hold as known to its owner: the begin of its unlock, its loss, or the client's death.
    pub fn end(&self, deaths: &HashMap<usize, Nanos>) -> Option<Nanos> {
        let lost = self.loss.as_ref().map(|loss| loss.at);
        let died = deaths.get(&self.grant.hold.by.process).copied();
        [self.left, lost, died].into_iter().flatten().min()
    }
}
