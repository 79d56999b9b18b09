//! Whether more holds were at a path than fit.

use super::Findings;
use super::timeline::{Entry, Timeline};
use crate::event::Grant;
use crate::time::{Nanos, difference, millis};

/// Two signs of too many holds: a grant does not fit beside those that had not ended, or the witness was
/// taken, and not by losers whose threads had not released it yet.
pub(super) fn check(found: &mut Findings, timeline: &Timeline<'_>) {
    let capacity = timeline.lock.what.capacity();
    for (index, entry) in timeline.entries.iter().enumerate() {
        let losers = timeline.entries[..index].iter().filter(|loser| lingers(loser, entry));
        let is_wrong = match entry.load > capacity {
            true => !timeline.fits_with_doubts(entry),
            false if entry.record.grant.witness_free => false,
            false => entry.load + losers.map(|loser| loser.units).sum::<u32>() <= capacity,
        };
        if is_wrong {
            found.violations.push(format!("overlap: {}", describe(timeline, entry)));
        }
        found.overlaps_expected += usize::from(entry.load > capacity && !is_wrong);
    }
}

/// Whether the loser had lost its hold without unlocking it when the other was granted.
fn lingers(loser: &Entry<'_>, granted: &Entry<'_>) -> bool {
    let at = granted.record.grant.at;
    let lost = loser.record.loss_while_held();
    let left = loser.record.left;
    lost.is_some_and(|loss| loss.at <= at) && left.is_none_or(|left| left > at)
}

fn describe(timeline: &Timeline<'_>, entry: &Entry<'_>) -> String {
    let grant = &entry.record.grant;
    let rivals = entry.beside.iter().map(|&index| {
        let rival = &timeline.entries[index];
        let Grant { hold, at, .. } = rival.record.grant;
        let ahead = difference(grant.at, at);
        let lasts = difference(rival.end.min(Nanos::MAX / 2), grant.at);
        format!("{hold}, granted {} ms before, to {} ms later", millis(ahead), millis(lasts))
    });
    format!(
        "{} ({}, {}) was granted {} at {} ns with the witness {} beside [{}]",
        grant.hold,
        grant.op,
        grant.nodes.join(", "),
        timeline.lock.name,
        grant.at,
        if grant.witness_free { "free" } else { "taken" },
        rivals.collect::<Vec<_>>().join("; "),
    )
}
