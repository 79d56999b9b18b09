//! The first judge looks at times, capacities and queues. It does not know how the locks work.

mod deadlines;
mod guarded;
mod losses;
mod open;
mod order;
mod overlaps;
#[cfg(test)]
mod tests;
mod timeline;
mod writes;

use std::collections::BTreeMap;

use crate::history::History;
use crate::lock::{Kind, Lock};
use crate::rules::{Margins, Rules};
use crate::time::millis;

pub use guarded::Guarded;
use timeline::Timeline;
use writes::Tokens;

/// Findings in a history.
#[derive(Debug, Default)]
pub struct Findings {
    /// Late writes that the register or the servers accepted.
    pub stale_accepted: usize,
    /// Writes that the register refused.
    pub stale_refused: usize,
    /// Grants that overtook another in the queue.
    pub inversions: usize,
    /// Calls that did not return.
    pub hung: usize,
    /// Clients that died.
    pub deaths: usize,
    /// Staged writes that came too late and were refused.
    pub late_writes: usize,
    /// The fate of guarded writes.
    pub guarded: Guarded,
    /// The longest time after a loss in which its thread still had the witness when the next holder looked.
    pub witness_lag: Option<i64>,
    /// Delays of calls that returned after their deadlines.
    pub overshoots: Vec<i64>,
    /// The longest of them, and its call.
    pub latest: Option<(i64, String)>,
    /// Delays of the machine.
    pub slept: Vec<i64>,
    /// The longest time that a server took for a write from beside the clients.
    pub slowest_write: u64,
    /// Figures of each kind.
    pub kinds: BTreeMap<Kind, Tally>,
    /// Violations, a line each.
    pub violations: Vec<String>,
}

/// Figures of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Calls that were granted what they asked for.
    pub acquisitions: usize,
    /// Holds that overlapped.
    pub overlaps: usize,
    /// Holds that overlapped where no lock can prevent it.
    pub overlaps_expected: usize,
    /// Holds lost before their unlock.
    pub losses: usize,
    /// The shortest time from a loss to the next grant at its lock that had to wait for it, in nanoseconds.
    pub margin: Option<i64>,
    /// The highest number of simultaneous holds or permits at one lock.
    pub most: u32,
}

/// The judge of histories. It remembers the relevant facts of earlier ones.
#[derive(Debug)]
pub struct Judge {
    locks: Vec<Lock>,
    margins: Margins,
    tokens: Tokens,
}

/// A history, and the rules for it.
#[derive(Clone, Copy)]
struct Case<'h> {
    locks: &'h [Lock],
    margins: &'h Margins,
    rules: &'h Rules,
    history: &'h History,
}

impl Judge {
    /// Creates a judge of histories about these locks.
    pub fn new(locks: Vec<Lock>, margins: Margins) -> Judge {
        let tokens = Tokens::new(locks.len());
        Judge { locks, margins, tokens }
    }

    /// Judges one history. Tokens that were written in earlier histories count as well.
    pub fn judge(&mut self, rules: &Rules, history: &History) -> Findings {
        let mut found = Findings {
            deaths: history.deaths.len(),
            hung: history.hung.len(),
            slowest_write: history.slowest_write,
            ..Findings::default()
        };
        let case = Case { locks: &self.locks, margins: &self.margins, rules, history };
        for timeline in (0..self.locks.len()).filter_map(|path| Timeline::new(case, path)) {
            found.count(&timeline);
            overlaps::check(&mut found, case, &timeline);
            losses::check(&mut found, case, &timeline);
            open::check_waiting(&mut found, case, &timeline);
            if !rules.overlaps_expected {
                order::check(&mut found, case, &timeline);
            }
        }
        losses::check_waiting(&mut found, case);
        self.tokens.check(&mut found, case);
        writes::check_late(&mut found, case);
        deadlines::check(&mut found, case);
        open::check_late(&mut found, case);
        guarded::check(&mut found, case);
        let hung = history.hung.iter();
        found.violations.extend(hung.map(|call| format!("hung call: {call}")));
        found.violations.extend(history.unexpected.iter().cloned());
        found
    }
}

impl Case<'_> {
    fn name(&self, path: usize) -> &str {
        &self.locks[path].name
    }
}

impl Findings {
    /// Returns the sum of a figure over all kinds.
    pub fn sum(&self, figure: fn(&Tally) -> usize) -> usize {
        self.kinds.values().map(figure).sum()
    }

    /// Returns the shortest time from a loss to the next grant, in milliseconds.
    pub fn margin(&self) -> Option<f64> {
        self.kinds.values().filter_map(|tally| tally.margin).min().map(millis)
    }

    fn of(&mut self, kind: Kind) -> &mut Tally {
        self.kinds.entry(kind).or_default()
    }

    /// Adds the findings in another history.
    pub fn add(&mut self, other: Findings) {
        self.stale_accepted += other.stale_accepted;
        self.stale_refused += other.stale_refused;
        self.inversions += other.inversions;
        self.hung += other.hung;
        self.deaths += other.deaths;
        self.late_writes += other.late_writes;
        self.guarded.add(&other.guarded);
        self.witness_lag = self.witness_lag.max(other.witness_lag);
        self.overshoots.extend(other.overshoots);
        self.latest = self.latest.take().max(other.latest);
        self.slept.extend(other.slept);
        self.slowest_write = self.slowest_write.max(other.slowest_write);
        for (kind, tally) in &other.kinds {
            self.of(*kind).add(tally);
        }
        self.violations.extend(other.violations);
    }

    fn count(&mut self, timeline: &Timeline<'_>) {
        for entry in &timeline.entries {
            let grant = &entry.record.grant;
            let tally = self.of(grant.kind);
            tally.acquisitions += usize::from(grant.member == 0);
            tally.most = tally.most.max(entry.at_once);
        }
    }
}

impl Tally {
    /// Adds the figures of another history.
    pub fn add(&mut self, other: &Tally) {
        self.acquisitions += other.acquisitions;
        self.overlaps += other.overlaps;
        self.overlaps_expected += other.overlaps_expected;
        self.losses += other.losses;
        self.margin = [self.margin, other.margin].into_iter().flatten().min();
        self.most = self.most.max(other.most);
    }
}
