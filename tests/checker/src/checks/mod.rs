//! The first checker looks at times and capacities. It does not know how the locks work.

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

/// Findings in a history.
#[derive(Debug, Default)]
pub struct Findings {
    /// Calls that were granted what they asked for.
    pub acquisitions: usize,
    /// Holds that overlapped where no lock can prevent it.
    pub overlaps_expected: usize,
    /// Holds lost before their unlock.
    pub losses: usize,
    /// The fate of guarded writes.
    pub guarded: Guarded,
    /// Violations, a line each.
    pub violations: Vec<String>,
}

/// A history, and the rules for it.
#[derive(Clone, Copy)]
struct Case<'h> {
    locks: &'h [Lock],
    margins: &'h Margins,
    rules: &'h Rules,
    history: &'h History,
}

/// Checks a history about these locks.
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
