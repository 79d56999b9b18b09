//! Checks that there were never more holds at a path than it allows.

use super::timeline::{Entry, Timeline};
use super::{Case, Findings};
use crate::history::Record;
use crate::time::{Nanos, difference, millis};

/// There are too many at a path if a grant does not fit in beside those that had not ended; or if
/// the witness could not be had, unless that was because of losers whose threads had not let go of
/// it yet.
pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let capacity = timeline.lock.what.capacity();
    for (index, entry) in timeline.entries.iter().enumerate() {
        if entry.load > capacity {
            let is_expected = case.rules.overlaps_expected || timeline.fits_with_doubts(entry);
            overlap(found, is_expected, entry.record, || describe_overlap(timeline, entry));
            continue;
        }
        if entry.record.grant.witness_free {
            continue;
        }
        let losers = || timeline.entries[..index].iter().filter(|loser| lingers(loser, entry));
        let lingering: u32 = losers().map(|loser| loser.units).sum();
        let first = losers().filter_map(|loser| loser.record.loss_while_held());
        match first.map(|loss| loss.at).min() {
            Some(lost) if entry.load + lingering > capacity => {
                let lag = difference(entry.record.grant.at, lost);
                found.witness_lag = found.witness_lag.max(Some(lag));
            }
            _ => {
                let text =
                    || format!("{}, but no holder is known", describe(timeline, entry.record));
                overlap(found, case.rules.overlaps_expected, entry.record, text);
            }
        }
    }
}

/// Had the loser lost its hold, and not unlocked it, when the other was granted its own?
fn lingers(loser: &Entry<'_>, granted: &Entry<'_>) -> bool {
    let at = granted.record.grant.at;
    let lost = loser.record.loss_while_held();
    let left = loser.record.left;
    lost.is_some_and(|loss| loss.at <= at) && left.is_none_or(|left| left > at)
}

fn overlap(
    found: &mut Findings,
    is_expected: bool,
    record: &Record,
    text: impl FnOnce() -> String,
) {
    let tally = found.of(record.grant.kind);
    if is_expected {
        tally.overlaps_expected += 1;
    } else {
        tally.overlaps += 1;
        found.violations.push(format!("overlap: {}", text()));
    }
}

fn describe_overlap(timeline: &Timeline<'_>, entry: &Entry<'_>) -> String {
    let granted = entry.record.grant.at;
    let rivals = entry.beside.iter().map(|&index| &timeline.entries[index]);
    let rivals = rivals.map(|rival| {
        let end = match rival.end {
            Nanos::MAX => "had not ended".to_owned(),
            end => format!("ended {} ms later", millis(difference(end, granted))),
        };
        let grant = &rival.record.grant;
        let after = millis(difference(granted, grant.at));
        let (hold, op, nodes) = (grant.hold, &grant.op, grant.nodes.join(", "));
        format!("{after} ms after {hold} ({op}, {nodes}), which {end}")
    });
    let rivals: Vec<_> = rivals.collect();
    format!("{}, {}", describe(timeline, entry.record), rivals.join("; "))
}

fn describe(timeline: &Timeline<'_>, record: &Record) -> String {
    let grant = &record.grant;
    let witness = if grant.witness_free { "free" } else { "taken" };
    format!(
        "{} ({}, {}) was granted {} at {} ns with the witness {witness}",
        grant.hold,
        grant.op,
        grant.nodes.join(", "),
        timeline.lock.name,
        grant.at,
    )
}
