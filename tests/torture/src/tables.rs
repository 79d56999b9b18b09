//! The tables for people: a line per phase on the way, and a line per kind at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::millis;
use crate::kinds::Kind;
use crate::phases::Phase;
use crate::verdict::{Findings, Tally};

/// The findings of one phase, once or in several rounds.
pub(crate) struct Row {
    pub(crate) phase: &'static Phase,
    pub(crate) times: usize,
    pub(crate) took: Duration,
    pub(crate) found: Findings,
}

pub(crate) const HEADING: &str = "phase              seconds  acquired  overlaps (expected)  losses  \
                                  margin ms  refused  late  killed  overshoot ms  wrong";

impl Row {
    pub(crate) fn new(phase: &'static Phase, took: Duration, found: Findings) -> Row {
        Row { phase, times: 1, took, found }
    }

    /// The same phase again.
    pub(crate) fn add(&mut self, again: Row) {
        self.times += again.times;
        self.took += again.took;
        self.found.add(again.found);
    }

    /// A line of the table.
    pub(crate) fn line(&self) -> String {
        let found = &self.found;
        format!(
            "{:<18} {:>7.1} {:>9} {:>9} {:>10} {:>7} {:>10} {:>8} {:>5} {:>7} {:>13.1} {:>6}",
            self.phase.name,
            self.took.as_secs_f64(),
            found.acquisitions,
            found.overlaps,
            format!("({})", found.overlaps_expected),
            found.losses,
            shown(self.margin()),
            found.stale_refused,
            found.late_writes,
            found.deaths,
            largest(&found.overshoots),
            found.violations.len(),
        )
    }

    pub(crate) fn margin(&self) -> Option<f64> {
        self.found.margins.iter().min().map(|&least| millis(least))
    }
}

pub(crate) const KINDS_HEADING: &str = "kind               acquired  overlaps (expected)  losses  \
                                        margin ms  at once";

/// A line of the table of kinds.
pub(crate) fn kind_line(kind: Kind, tally: &Tally) -> String {
    format!(
        "{:<18} {:>8} {:>9} {:>10} {:>7} {:>10} {:>8}",
        kind,
        tally.acquisitions,
        tally.overlaps,
        format!("({})", tally.overlaps_expected),
        tally.losses,
        shown(tally.margin.map(millis)),
        tally.most,
    )
}

/// Over all phases. The margins, and how many were there at once, are those of the phases in which
/// holds must not overlap.
pub(crate) fn kinds(rows: &[Row]) -> BTreeMap<Kind, Tally> {
    let mut sums: BTreeMap<Kind, Tally> = BTreeMap::new();
    for row in rows {
        for (&kind, tally) in &row.found.kinds {
            let mut tally = *tally;
            if row.phase.rules.expect_overlaps() {
                (tally.margin, tally.most) = (None, 0);
            }
            sums.entry(kind).or_default().add(&tally);
        }
    }
    sums
}

fn shown(margin: Option<f64>) -> String {
    margin.map_or("-".to_owned(), |least| format!("{least:.1}"))
}

pub(crate) fn largest(values: &[i64]) -> f64 {
    values.iter().max().map_or(0.0, |&value| millis(value))
}
