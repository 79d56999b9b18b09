//! The history of a phase: what was reported and seen, without a judgement.

use std::collections::{HashMap, HashSet};

use crate::clock::{Nanos, now};
use crate::journal::Entry;
use crate::kinds::Kind;
use crate::paths;
use crate::protocol::{Act, Answer, Call, Commit, Grant, HoldId, Incarnation, Unlocked, WorkerId};

/// A write that reached the register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) at: Nanos,
    pub(crate) path: usize,
    pub(crate) token: u64,
    pub(crate) hold: HoldId,
    pub(crate) accepted: bool,
}

/// The loss of a hold, as it was announced.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    pub(crate) at: Nanos,
    pub(crate) reason: String,
}

/// One hold.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) grant: Grant,
    /// When its unlock began.
    pub(crate) left: Option<Nanos>,
    /// What the unlock said.
    pub(crate) unlocked: Option<Unlocked>,
    pub(crate) loss: Option<Loss>,
}

/// How much too late a sleeper woke.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nap {
    pub(crate) process: usize,
    pub(crate) since: Nanos,
    pub(crate) late: u64,
}

/// A hold whose process was stopped, until another one had its lock and had committed a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overtaken {
    pub(crate) hold: HoldId,
    /// When the process stood still.
    pub(crate) stopped: Nanos,
    /// When the other one was known to have committed.
    pub(crate) overtaken: Nanos,
}

/// What was done to leaders.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Whose, if it was one process only.
    pub(crate) process: Option<usize>,
    /// Where there has to be a leader again.
    pub(crate) paths: Vec<usize>,
    pub(crate) begun: Nanos,
    pub(crate) over: Nanos,
    /// From when on the time without a leader counts: the end, if it allows for none.
    pub(crate) counts_from: Nanos,
    /// Nodes vanished, so that leaders could not know how long they had.
    pub(crate) breaks_leases: bool,
    /// Servers took connections and answered nobody. A client to which that happens for a session timeout rests.
    pub(crate) answers_nobody: bool,
}

/// The queue of those who wait for permits, at some instant between two.
#[derive(Debug)]
pub(crate) struct QueueSnapshot {
    pub(crate) path: usize,
    pub(crate) asked: Nanos,
    pub(crate) answered: Nanos,
    /// The numbers in it; never none.
    pub(crate) queued: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) begun: Nanos,
    /// In the order in which they were reported.
    pub(crate) holds: Vec<Record>,
    /// Those among them that came with a call of their own.
    pub(crate) acquisitions: usize,
    index: HashMap<HoldId, usize>,
    early_losses: HashMap<HoldId, Loss>,
    /// In the order in which the register took them.
    pub(crate) writes: Vec<Write>,
    pub(crate) calls: Vec<(WorkerId, Call)>,
    /// Calls that a loss ended before they had all that they wanted.
    pub(crate) lost_while_waiting: Vec<(WorkerId, Kind)>,
    /// In the order of time.
    pub(crate) queue_snapshots: Vec<QueueSnapshot>,
    pub(crate) naps: Vec<Nap>,
    /// When processes died, by number and incarnation.
    pub(crate) deaths: HashMap<Incarnation, Nanos>,
    /// What the library must not do, as those say who saw it.
    pub(crate) unexpected: Vec<String>,
    /// Calls that did not return, one text each.
    pub(crate) hung: Vec<String>,
    /// Some writes must come too late.
    pub(crate) stages_late_writes: bool,
    /// Holders that were stopped before a write until somebody else had written, and when.
    pub(crate) overtaken: Vec<(HoldId, Nanos)>,
    /// Of guarded writes, in the order in which they were reported.
    pub(crate) commits: Vec<Commit>,
    /// The highest token at each path that a write was committed with.
    committed: HashMap<usize, u64>,
    /// Holds that had a write refused.
    refused: HashSet<HoldId>,
    /// Holders of locks that guard writes, likewise, and how often processes were stopped for that.
    pub(crate) overtaken_guards: Vec<Overtaken>,
    pub(crate) guards_stopped: usize,
    /// The guarded writes that ZooKeeper has.
    pub(crate) carried_out: Vec<Entry>,
    /// Of leaders.
    pub(crate) acts: Vec<Act>,
    /// The last at each path that a leader said to have time for.
    last_acts: HashMap<usize, Act>,
    pub(crate) unwell: Vec<(WorkerId, Nanos)>,
    pub(crate) faults: Vec<Fault>,
}

impl History {
    pub(crate) fn new() -> History {
        History { begun: now(), ..History::default() }
    }

    /// Nobody waits for the sleepers, so a nap of the phase before may be reported now.
    pub(crate) fn slept(&mut self, nap: Nap) {
        if nap.since >= self.begun {
            self.naps.push(nap);
        }
    }

    pub(crate) fn granted(&mut self, grant: Grant) {
        self.index.insert(grant.hold, self.holds.len());
        self.acquisitions += usize::from(grant.member == 0);
        self.holds.push(Record {
            loss: self.early_losses.remove(&grant.hold),
            grant,
            left: None,
            unlocked: None,
        });
    }

    /// A loss can come before the grant, which is reported with the token.
    pub(crate) fn lost(&mut self, hold: HoldId, loss: Loss) {
        match self.record(hold) {
            Some(record) => record.loss = Some(loss),
            None => drop(self.early_losses.insert(hold, loss)),
        }
    }

    pub(crate) fn left(&mut self, hold: HoldId, at: Nanos) {
        if let Some(record) = self.record(hold) {
            record.left = Some(at);
        }
    }

    pub(crate) fn unlocked(&mut self, hold: HoldId, unlocked: Unlocked) {
        if let Some(record) = self.record(hold) {
            record.unlocked = Some(unlocked);
        }
    }

    pub(crate) fn hold(&self, hold: HoldId) -> Option<&Record> {
        self.holds.get(*self.index.get(&hold)?)
    }

    pub(crate) fn grant(&self, hold: HoldId) -> Option<&Grant> {
        self.hold(hold).map(|record| &record.grant)
    }

    /// The next write of a hold.
    pub(crate) fn write_after(&self, hold: HoldId, at: Nanos) -> Option<&Write> {
        let wanted = |write: &&Write| write.hold == hold && write.at > at;
        self.writes.iter().find(wanted)
    }

    fn record(&mut self, hold: HoldId) -> Option<&mut Record> {
        let index = *self.index.get(&hold)?;
        self.holds.get_mut(index)
    }

    pub(crate) fn committed(&mut self, commit: Commit) {
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

    /// Somebody else has the lock of this hold and has committed a write.
    pub(crate) fn is_overtaken(&self, hold: HoldId) -> bool {
        let overtaken = |grant: &Grant| {
            let highest = self.committed.get(&grant.path);
            highest.copied() > grant.token
        };
        self.grant(hold).is_some_and(overtaken)
    }

    pub(crate) fn was_refused(&self, hold: HoldId) -> bool {
        self.refused.contains(&hold)
    }

    pub(crate) fn has_left(&self, hold: HoldId) -> bool {
        self.hold(hold).is_some_and(|record| record.left.is_some())
    }

    pub(crate) fn acted(&mut self, act: Act) {
        let Some(path) = self.grant(act.term).map(|grant| grant.path) else {
            return;
        };
        if act.until > act.at {
            self.last_acts.insert(path, act);
        }
        self.acts.push(act);
    }

    /// What a leader there did last, if that was since then.
    pub(crate) fn act_since(&self, path: usize, since: Nanos) -> Option<Act> {
        self.last_acts.get(&path).copied().filter(|act| act.at >= since)
    }

    /// The earliest counts: of two who tell of a death, one did it.
    pub(crate) fn died(&mut self, process: Incarnation, at: Nanos) {
        self.deaths.entry(process).or_insert(at);
    }

    /// Holds that go on, as far as is known.
    pub(crate) fn open_holds(&self) -> impl Iterator<Item = &Record> {
        let died = |by: WorkerId| self.deaths.contains_key(&by.incarnation());
        self.holds.iter().filter(move |record| {
            record.left.is_none() && record.loss.is_none() && !died(record.grant.hold.by)
        })
    }
}

impl Record {
    pub(crate) fn was_lost_by(&self, at: Nanos) -> bool {
        self.loss.as_ref().is_some_and(|loss| loss.at <= at)
    }

    /// The loss, if it came before the unlock.
    pub(crate) fn loss_while_held(&self) -> Option<&Loss> {
        let in_time = |loss: &&Loss| self.left.is_none_or(|left| loss.at <= left);
        self.loss.as_ref().filter(in_time)
    }

    /// How much of the capacity of its path it takes.
    pub(crate) fn units(&self) -> u32 {
        paths::at(self.grant.path).units(self.grant.mode)
    }

    /// The place in the queue: what the servers put at the end of the node's name.
    pub(crate) fn sequence(&self) -> Option<u32> {
        let node = self.grant.nodes.first()?;
        node.get(node.len().checked_sub(10)?..)?.parse().ok()
    }

    /// When the hold was over, as far as its owner could know.
    pub(crate) fn end(&self, deaths: &HashMap<Incarnation, Nanos>) -> Option<Nanos> {
        let lost = self.loss.as_ref().map(|loss| loss.at);
        let died = deaths.get(&self.grant.hold.by.incarnation()).copied();
        [self.left, lost, died].into_iter().flatten().min()
    }
}
