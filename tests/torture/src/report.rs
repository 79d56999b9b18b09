//! The report: a line for each phase during the run, and at its end the tables, the problems, and all figures
//! as one line of JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zoolock_judge::{Findings, Guarded, Linearized, Tally};

use crate::clock::millis;
use crate::kinds::Kind;
use crate::nemesis::Phase;
use crate::protocol::Counts;

/// Figures beside the findings of the phases.
pub(crate) struct Totals {
    pub(crate) ensemble: bool,
    pub(crate) seed: u64,
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
    pub(crate) orphans: usize,
    pub(crate) hung: usize,
    pub(crate) linearized: Linearized,
}

/// The findings of one phase over all its rounds.
pub(crate) struct Row {
    pub(crate) phase: &'static Phase,
    pub(crate) times: usize,
    pub(crate) took: Duration,
    pub(crate) found: Findings,
}

pub(crate) const PHASES_HEADING: &str = "phase              seconds  acquired  overlaps (expected)  losses  \
                                  margin ms  refused  late  killed  overshoot ms  wrong";

impl Row {
    pub(crate) fn new(phase: &'static Phase, took: Duration, found: Findings) -> Row {
        Row { phase, times: 1, took, found }
    }

    /// Adds another round of the same phase.
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
            found.sum(|tally| tally.acquisitions),
            found.sum(|tally| tally.overlaps),
            format!("({})", found.sum(|tally| tally.overlaps_expected)),
            found.sum(|tally| tally.losses),
            shown(found.margin()),
            found.stale_refused,
            found.late_writes,
            found.deaths,
            largest(&found.overshoots),
            found.violations.len(),
        )
    }
}

/// Remarks about a phase that the table has no columns for.
fn remarks(row: &Row) -> Vec<String> {
    let mut remarks = Vec::new();
    let Guarded { stops, commits, refused_by_lease, refused_by_servers, .. } = row.found.guarded;
    let Guarded { late_answers, unknown, stale, .. } = row.found.guarded;
    if stops > 0 {
        let refused = row.found.guarded.refused();
        remarks.push(format!(
            "guarded writes: {refused} late commits were refused, {refused_by_lease} by the look at the \
             lease and {refused_by_servers} by the servers; {stale} were carried out; {late_answers} \
             answers of before came late, {unknown} none; {stops} stops, {commits} commits"
        ));
    }
    remarks
}

const KINDS_HEADING: &str = "kind               acquired  overlaps (expected)  losses  \
                                        margin ms  at once";

/// A line of the table of kinds.
fn kind_line(kind: Kind, tally: &Tally) -> String {
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

/// The sum over all phases. The margins, and the highest numbers of holds, come from the phases in which
/// holds must not overlap.
fn kinds(rows: &[Row]) -> BTreeMap<Kind, Tally> {
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

fn largest(values: &[i64]) -> f64 {
    values.iter().max().map_or(0.0, |&value| millis(value))
}

pub(crate) fn print(rows: &[Row], violations: &[String], totals: &Totals) {
    println!("\n{PHASES_HEADING}");
    rows.iter().for_each(|row| println!("{}", row.line()));
    let remarks: Vec<_> = rows.iter().flat_map(remarks).collect();
    if !remarks.is_empty() {
        println!("\n{}", remarks.join("\n"));
    }
    println!("\n{KINDS_HEADING}");
    for (kind, tally) in kinds(rows) {
        println!("{}", kind_line(kind, &tally));
    }
    for violation in violations {
        println!("violation: {violation}");
    }
    println!("{}", summary(rows, violations.len(), totals));
}

fn summary(rows: &[Row], violations: usize, totals: &Totals) -> Value {
    let sum = |figure: fn(&Findings) -> usize| -> usize {
        rows.iter().map(|row| figure(&row.found)).sum()
    };
    let sorted = |values: fn(&Findings) -> &Vec<i64>| -> Vec<i64> {
        let values = rows.iter().flat_map(|row| values(&row.found));
        let mut values: Vec<_> = values.copied().collect();
        values.sort_unstable();
        values
    };
    let overshoots = sorted(|found| &found.overshoots);
    let slept = sorted(|found| &found.slept);
    let mut guarded = Guarded::default();
    rows.iter().for_each(|row| guarded.add(&row.found.guarded));
    let latest = rows.iter().filter_map(|row| row.found.latest.as_ref()).max();
    // Phases with expected overlaps have other margins.
    let usual = rows.iter().filter(|row| !row.phase.rules.expect_overlaps());
    let margin = |row: &Row| Some((row.phase.name.to_owned(), row.found.margin()?.into()));
    let slowest =
        |row: &Row| (row.phase.name.to_owned(), millis(row.found.slowest_write as i64).into());
    let kind = |(kind, tally): (Kind, Tally)| {
        let figures = json!({
            "acquisitions": tally.acquisitions,
            "overlaps": tally.overlaps,
            "overlaps_expected": tally.overlaps_expected,
            "losses": tally.losses,
            "loss_margin_ms_min": tally.margin.map(millis),
            "most_at_once": tally.most,
        });
        (kind.to_string(), figures)
    };
    json!({
        "seed": totals.seed,
        "ensemble": totals.ensemble,
        "seconds": totals.took.as_secs(),
        "phases": rows.iter().map(|row| row.times).sum::<usize>(),
        "acquisitions": sum(|found| found.sum(|tally| tally.acquisitions)),
        "overlaps": sum(|found| found.sum(|tally| tally.overlaps)),
        "overlaps_expected": sum(|found| found.sum(|tally| tally.overlaps_expected)),
        "stale_writes_accepted": sum(|found| found.stale_accepted),
        "stale_writes_refused": sum(|found| found.stale_refused),
        "late_writes_staged": sum(|found| found.late_writes),
        "guarded_writes": {
            "stops": guarded.stops,
            "commits": guarded.commits,
            "late_refused": guarded.refused(),
            "late_refused_by_lease": guarded.refused_by_lease,
            "late_refused_by_servers": guarded.refused_by_servers,
            "late_answers": guarded.late_answers,
            "late_unknown": guarded.unknown,
            "stale_writes_accepted": guarded.stale,
        },
        "linearizable": {
            "operations": totals.linearized.operations,
            "without_answer": totals.linearized.open,
            "pieces": totals.linearized.pieces,
            "undecided": totals.linearized.undecided,
            "violations": totals.linearized.violations.len(),
        },
        "fifo_inversions": sum(|found| found.inversions),
        "hung_calls": sum(|found| found.hung) + totals.hung,
        "orphans": totals.orphans,
        "processes_killed": sum(|found| found.deaths),
        "losses": sum(|found| found.sum(|tally| tally.losses)),
        "deadline_overshoot_ms": {
            "calls": overshoots.len(),
            "p999": quantile(&overshoots, 999),
            "max": largest(&overshoots),
            "max_of": latest.map(|(_, op)| op),
            "sleeper_p999": quantile(&slept, 999),
            "sleeper_max": largest(&slept),
        },
        "slowest_write_ms": rows.iter().map(slowest).collect::<Map<_, _>>(),
        "loss_margin_ms": {
            "min": usual.filter_map(|row| row.found.margin()).reduce(f64::min),
            "per_fault": rows.iter().filter_map(margin).collect::<Map<_, _>>(),
        },
        "witness_lag_ms_max": rows.iter().filter_map(|row| row.found.witness_lag).max().map(millis),
        "connections": totals.counts.connections,
        "resumed": totals.counts.resumed,
        "holds_lost": totals.counts.holds_lost,
        "violations": violations,
        "kinds": kinds(rows).into_iter().map(kind).collect::<Map<_, _>>(),
    })
}

/// The value that this many of 1000 do not exceed.
fn quantile(sorted: &[i64], of_1000: usize) -> f64 {
    let index = (sorted.len() * of_1000).div_ceil(1000).saturating_sub(1);
    sorted.get(index).map_or(0.0, |&value| millis(value))
}
