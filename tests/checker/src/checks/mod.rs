//! The first checker. It examines times and capacities, and does not depend on how the locks work.

mod deadlines;
mod guarded;
mod losses;
mod open;
mod overlaps;
#[cfg(test)]
mod tests;
mod timeline;

use crate::history::History;
use crate::lock::Lock;
use crate::rules::{Margins, Rules};

pub use guarded::Guarded;
use timeline::Timeline;

/// The findings of this checker in a history.
#[derive(Debug, Default)]
pub struct Findings {
    /// Calls that were granted what they requested.
    pub acquisitions: usize,
    /// Grants that overlapped with other holds in a way that no lock can prevent.
    pub overlaps_expected: usize,
    /// Holds that were lost before they were unlocked.
    pub losses: usize,
    /// What happened to guarded writes.
    pub guarded: Guarded,
    /// The violations, one per line.
    pub violations: Vec<String>,
}

/// A history, its locks, and the rules that apply to it.
#[derive(Clone, Copy)]
struct Case<'h> {
    locks: &'h [Lock],
    margins: &'h Margins,
    rules: &'h Rules,
    history: &'h History,
}

/// Checks a history of these locks.
pub fn check(locks: &[Lock], margins: &Margins, rules: &Rules, history: &History) -> Findings {
    let mut found = Findings::default();
    let case = Case { locks, margins, rules, history };
    for timeline in (0..locks.len()).filter_map(|path| Timeline::new(case, path)) {
        found.acquisitions += timeline.entries.len();
        overlaps::check(&mut found, &timeline);
        losses::check(&mut found, case, &timeline);
        open::check(&mut found, case, &timeline);
    }
    deadlines::check(&mut found, case);
    guarded::check(&mut found, case);
    found.violations.extend(history.unexpected.iter().cloned());
    found
}

impl Case<'_> {
    fn name(&self, path: usize) -> &str {
        &self.locks[path].name
    }
}

impl Findings {
    /// Adds the findings in another history.
    pub fn add(&mut self, other: Findings) {
        self.acquisitions += other.acquisitions;
        self.overlaps_expected += other.overlaps_expected;
        self.losses += other.losses;
        self.guarded.add(&other.guarded);
        self.violations.extend(other.violations);
    }
}
