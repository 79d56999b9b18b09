//! The history of a run or of a phase: reports and observations, without a judgement.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::event::{
    Act, Answer, Call, Carried, Commit, Doubt, Fault, Grant, HoldId, Incarnation, Loss, Nap,
    Overtaken, QueueSnapshot, Unlocked, WorkerId, Write,
};
use crate::lock::{Kind, LockIndex, Mode};
use crate::time::Nanos;

/// One hold.
#[derive(Debug, Clone)]
pub struct Record {
    /// How it was granted.
    pub grant: Grant,
    /// When its unlock began.
    pub left: Option<Nanos>,
    /// When its unlock was over, if that is known.
    pub returned: Option<Nanos>,
    /// What the unlock said.
    pub unlocked: Option<Unlocked>,
    /// How it was lost.
    pub loss: Option<Loss>,
}

/// A call that has not returned.
#[derive(Debug, Clone)]
pub struct OpenCall {
    /// The method.
    pub op: Cow<'static, str>,
    /// The lock.
    pub path: LockIndex,
    /// How it wants to hold the lock, if it asks for one.
    pub mode: Option<Mode>,
    /// When it was made.
    pub started: Nanos,
    /// When it has to be back.
    pub deadline: Option<Nanos>,
}

/// What happened, in the order in which it was reported. The methods whose names are verbs in the
/// past tense take events; the public lists may be filled directly.
#[derive(Debug, Default)]
pub struct History {
    /// When it began.
    pub begun: Nanos,
    /// When it was over, if calls that are open then are to be judged.
    pub over: Option<Nanos>,
    /// In the order in which they were reported.
    pub holds: Vec<Record>,
    /// Those among them that came with a call of their own.
    pub acquisitions: usize,
    index: HashMap<HoldId, usize>,
    early_losses: HashMap<HoldId, Loss>,
    /// In the order in which the register took them.
    pub writes: Vec<Write>,
    /// Calls that returned.
    pub calls: Vec<(WorkerId, Call)>,
    /// Calls that did not; a thread is in one call at most.
    pub open: HashMap<WorkerId, OpenCall>,
    /// Calls that a loss ended before they had all that they wanted.
    pub lost_while_waiting: Vec<(WorkerId, Kind)>,
    /// In the order of time.
    pub queue_snapshots: Vec<QueueSnapshot>,
    /// How punctual the machine was.
    pub naps: Vec<Nap>,
    /// When clients died.
    pub deaths: HashMap<Incarnation, Nanos>,
    /// When clients could not know what had become of their holds.
    pub doubts: Vec<Doubt>,
    /// What the library must not do, as those say who saw it.
    pub unexpected: Vec<String>,
    /// Calls that did not return, one text each.
    pub hung: Vec<String>,
    /// Some writes must come too late.
    pub stages_late_writes: bool,
    /// Holders that were stopped before a write until somebody else had written, and when.
    pub overtaken: Vec<(HoldId, Nanos)>,
    /// Guarded writes, in the order in which they were reported.
    pub commits: Vec<Commit>,
    /// The highest token at each lock that a write was committed with.
    committed: HashMap<LockIndex, u64>,
    /// Holds that had a write refused.
    refused: HashSet<HoldId>,
    /// Holders that guard writes and were stopped until they had been overtaken.
    pub overtaken_guards: Vec<Overtaken>,
    /// How often clients were stopped for that.
    pub guards_stopped: usize,
    /// The guarded writes that the servers have.
    pub carried_out: Vec<Carried>,
    /// What leaders did.
    pub acts: Vec<Act>,
    /// The last at each lock that a leader said to have time for.
    last_acts: HashMap<LockIndex, Act>,
    /// When `is_healthy()` of a leadership was false.
    pub unwell: Vec<(WorkerId, Nanos)>,
    /// What was done to leaders.
    pub faults: Vec<Fault>,
}

impl History {
    /// Begins a history.
    pub fn new(begun: Nanos) -> History {
        History { begun, ..History::default() }
    }

    /// A thread that only sleeps woke. A nap that began before the history is left out: it may be
    /// reported late.
    pub fn slept(&mut self, nap: Nap) {
        if nap.since >= self.begun {
            self.naps.push(nap);
        }
    }

    /// A thread made a call.
    pub fn began(&mut self, by: WorkerId, call: OpenCall) {
        self.open.insert(by, call);
    }

    /// The call of a thread returned. A grant is reported besides, by [`History::granted`].
    pub fn called(&mut self, by: WorkerId, call: Call) {
        self.open.remove(&by);
        self.calls.push((by, call));
    }

    /// A lock was granted.
    pub fn granted(&mut self, grant: Grant) {
        self.index.insert(grant.hold, self.holds.len());
        self.acquisitions += usize::from(grant.member == 0);
        self.holds.push(Record {
            loss: self.early_losses.remove(&grant.hold),
            grant,
            left: None,
            returned: None,
            unlocked: None,
        });
    }

    /// A hold was lost. The loss may be reported before the grant.
    pub fn lost(&mut self, hold: HoldId, loss: Loss) {
        match self.record(hold) {
            Some(record) => record.loss = Some(loss),
            None => drop(self.early_losses.insert(hold, loss)),
        }
    }

    /// The unlock of a hold begins.
    pub fn left(&mut self, hold: HoldId, at: Nanos) {
        if let Some(record) = self.record(hold) {
            record.left = Some(at);
        }
    }

    /// An unlock returned; when, if that is known.
    pub fn unlocked(&mut self, hold: HoldId, at: Option<Nanos>, unlocked: Unlocked) {
        if let Some(record) = self.record(hold) {
            record.returned = at;
            record.unlocked = Some(unlocked);
        }
    }

    /// A guarded write got its answer.
    pub fn committed(&mut self, commit: Commit) {
        for &hold in &commit.holds {
            let Some(&Grant { path, token: Some(token), .. }) = self.grant(hold) else {
                continue;
            };
            match commit.answer {
                Answer::Done => {
                    let highest = self.committed.entry(path).or_default();
                    *highest = token.max(*highest);
                }
                Answer::Refused => drop(self.refused.insert(hold)),
                Answer::Unknown => {}
            }
        }
        self.commits.push(commit);
    }

    /// A leader acted. Its term was granted as a hold before.
    pub fn acted(&mut self, act: Act) {
        let Some(path) = self.grant(act.term).map(|grant| grant.path) else {
            return;
        };
        if act.until > act.at {
            self.last_acts.insert(path, act);
        }
        self.acts.push(act);
    }

    /// A client died. The earliest report counts: of two who tell of a death, one did it.
    pub fn died(&mut self, client: Incarnation, at: Nanos) {
        self.deaths.entry(client).or_insert(at);
    }

    /// Returns a hold that was reported.
    pub fn hold(&self, hold: HoldId) -> Option<&Record> {
        self.holds.get(*self.index.get(&hold)?)
    }

    /// Returns the index of a hold among those that were reported.
    pub(crate) fn position(&self, hold: HoldId) -> Option<usize> {
        self.index.get(&hold).copied()
    }

    /// Returns the grant of a hold.
    pub fn grant(&self, hold: HoldId) -> Option<&Grant> {
        self.hold(hold).map(|record| &record.grant)
    }

    /// Returns the next write of a hold.
    pub fn write_after(&self, hold: HoldId, at: Nanos) -> Option<&Write> {
        let wanted = |write: &&Write| write.hold == hold && write.at > at;
        self.writes.iter().find(wanted)
    }

    /// Returns whether somebody else has the lock of this hold and has committed a write.
    pub fn is_overtaken(&self, hold: HoldId) -> bool {
        let overtaken = |grant: &Grant| {
            let highest = self.committed.get(&grant.path);
            highest.copied() > grant.token
        };
        self.grant(hold).is_some_and(overtaken)
    }

    /// Returns whether a guarded write of this hold was refused.
    pub fn was_refused(&self, hold: HoldId) -> bool {
        self.refused.contains(&hold)
    }

    /// Returns whether the unlock of this hold has begun.
    pub fn has_left(&self, hold: HoldId) -> bool {
        self.hold(hold).is_some_and(|record| record.left.is_some())
    }

    /// Returns what a leader did last at a lock, if that was since then.
    pub fn act_since(&self, path: LockIndex, since: Nanos) -> Option<Act> {
        self.last_acts.get(&path).copied().filter(|act| act.at >= since)
    }

    /// Returns the holds that go on, as far as is known.
    pub fn open_holds(&self) -> impl Iterator<Item = &Record> {
        let died = |by: WorkerId| self.deaths.contains_key(&by.incarnation());
        self.holds.iter().filter(move |record| {
            record.left.is_none() && record.loss.is_none() && !died(record.grant.hold.by)
        })
    }

    /// Returns since when the servers may have given the lock to others without the holder being
    /// told, if that was before the hold was over.
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
    /// Returns whether the hold was lost at that time or before.
    pub fn was_lost_by(&self, at: Nanos) -> bool {
        self.loss.as_ref().is_some_and(|loss| loss.at <= at)
    }

    /// Returns the loss, if it came before the unlock.
    pub fn loss_while_held(&self) -> Option<&Loss> {
        let in_time = |loss: &&Loss| self.left.is_none_or(|left| loss.at <= left);
        self.loss.as_ref().filter(in_time)
    }

    /// Returns the place in the queue: what the servers put at the end of the node's name.
    pub fn sequence(&self) -> Option<u32> {
        let node = self.grant.nodes.first()?;
        node.get(node.len().checked_sub(10)?..)?.parse().ok()
    }

    /// Returns when the hold was over, as far as its owner could know.
    pub fn end(&self, deaths: &HashMap<Incarnation, Nanos>) -> Option<Nanos> {
        let lost = self.loss.as_ref().map(|loss| loss.at);
        let died = deaths.get(&self.grant.hold.by.incarnation()).copied();
        [self.left, lost, died].into_iter().flatten().min()
    }
}
