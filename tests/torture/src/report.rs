//! The figures at the end, as one line of JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::clock::millis;
use crate::kinds::Kind;
use crate::message::Counts;
use crate::peer::Peer;
use crate::tables::{Row, kinds, largest};
use crate::verdict::{Findings, Tally};

/// What the run amounts to, as one line of JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// Only where zoolock's clients were not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Peer>,
    seed: u64,
    ensemble: bool,
    seconds: u64,
    phases: usize,
    acquisitions: usize,
    overlaps: usize,
    overlaps_expected: usize,
    stale_writes_accepted: usize,
    stale_writes_refused: usize,
    late_writes_staged: usize,
    fifo_inversions: usize,
    hung_calls: usize,
    orphans: usize,
    processes_killed: usize,
    losses: usize,
    deadline_overshoot_ms: Overshoot,
    loss_margin_ms: Margins,
    witness_lag_ms_max: Option<f64>,
    connections: u64,
    resumed: u64,
    holds_lost: u64,
    violations: usize,
    kinds: BTreeMap<Kind, Figures>,
}

/// Of one kind.
#[derive(Debug, Serialize)]
struct Figures {
    acquisitions: usize,
    overlaps: usize,
    overlaps_expected: usize,
    losses: usize,
    loss_margin_ms_min: Option<f64>,
    most_at_once: u32,
}

#[derive(Debug, Serialize)]
struct Overshoot {
    calls: usize,
    p999: f64,
    max: f64,
    max_of: Option<String>,
    sleeper_p999: f64,
    sleeper_max: f64,
}

#[derive(Debug, Serialize)]
struct Margins {
    min: Option<f64>,
    per_fault: BTreeMap<&'static str, f64>,
}

/// What is known at the end only.
pub(crate) struct End {
    pub(crate) peer: Option<Peer>,
    pub(crate) seed: u64,
    pub(crate) ensemble: bool,
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
    pub(crate) orphans: usize,
    pub(crate) hung: usize,
    pub(crate) violations: usize,
}

impl Summary {
    pub(crate) fn of(rows: &[Row], end: &End) -> Summary {
        let sum = |figure: fn(&Findings) -> usize| rows.iter().map(|row| figure(&row.found)).sum();
        let all = |values: fn(&Findings) -> &Vec<i64>| -> Vec<i64> {
            let values = rows.iter().flat_map(|row| values(&row.found));
            let mut values: Vec<_> = values.copied().collect();
            values.sort_unstable();
            values
        };
        let (overshoots, slept) = (all(|found| &found.overshoots), all(|found| &found.slept));
        let latest = rows.iter().filter_map(|row| row.found.latest.as_ref()).max();
        Summary {
            peer: end.peer,
            seed: end.seed,
            ensemble: end.ensemble,
            seconds: end.took.as_secs(),
            phases: rows.iter().map(|row| row.times).sum(),
            acquisitions: sum(|found| found.acquisitions),
            overlaps: sum(|found| found.overlaps),
            overlaps_expected: sum(|found| found.overlaps_expected),
            stale_writes_accepted: sum(|found| found.stale_accepted),
            stale_writes_refused: sum(|found| found.stale_refused),
            late_writes_staged: sum(|found| found.late_writes),
            fifo_inversions: sum(|found| found.inversions),
            hung_calls: sum(|found| found.hung) + end.hung,
            orphans: end.orphans,
            processes_killed: sum(|found| found.deaths),
            losses: sum(|found| found.losses),
            deadline_overshoot_ms: Overshoot {
                calls: overshoots.len(),
                p999: p999(&overshoots),
                max: largest(&overshoots),
                max_of: latest.map(|(_, op)| op.clone()),
                sleeper_p999: p999(&slept),
                sleeper_max: largest(&slept),
            },
            loss_margin_ms: margins(rows),
            witness_lag_ms_max: all(|found| &found.witness_lags).last().map(|&lag| millis(lag)),
            connections: end.counts.connections,
            resumed: end.counts.resumed,
            holds_lost: end.counts.holds_lost,
            violations: end.violations,
            kinds: kinds(rows)
                .into_iter()
                .map(|(kind, tally)| (kind, Figures::of(&tally)))
                .collect(),
        }
    }
}

impl Figures {
    fn of(tally: &Tally) -> Figures {
        Figures {
            acquisitions: tally.acquisitions,
            overlaps: tally.overlaps,
            overlaps_expected: tally.overlaps_expected,
            losses: tally.losses,
            loss_margin_ms_min: tally.margin.map(millis),
            most_at_once: tally.most,
        }
    }
}

/// The phases where holds overlap by what is done to them have margins of their own kind.
fn margins(rows: &[Row]) -> Margins {
    let mut per_fault = BTreeMap::new();
    for row in rows {
        if let Some(margin) = row.margin() {
            let least = per_fault.entry(row.phase.name).or_insert(margin);
            *least = margin.min(*least);
        }
    }
    let usual = rows.iter().filter(|row| !row.phase.rules.expect_overlaps());
    Margins { min: usual.filter_map(Row::margin).reduce(f64::min), per_fault }
}

fn p999(sorted: &[i64]) -> f64 {
    let index = (sorted.len() * 999).div_ceil(1000).saturating_sub(1);
    sorted.get(index).map_or(0.0, |&value| millis(value))
}
