//! Checks whether a lock had more holders at a time than its capacity allows.

use super::Findings;
use super::timeline::{Entry, Timeline};
use crate::event::Grant;
use crate::time::{Nanos, difference, millis};

/// Reports each grant that exceeds the capacity together with the holds that have not ended.
pub(super) fn check(found: &mut Findings, timeline: &Timeline<'_>) {
    let capacity = timeline.lock.what.capacity();
    for entry in timeline.entries.iter().filter(|entry| entry.load > capacity) {
        match timeline.fits_with_doubts(entry) {
            true => found.overlaps_expected += 1,
            false => found.violations.push(format!("overlap: {}", describe(timeline, entry))),
        }
    }
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
        "{} ({}, {}) was granted {} at {} ns beside [{}]",
        grant.hold,
        grant.op,
        grant.nodes.join(", "),
        timeline.lock.name,
        grant.at,
        rivals.collect::<Vec<_>>().join("; "),
    )
}
