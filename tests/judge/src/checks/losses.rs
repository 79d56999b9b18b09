//! Lost holds: the time until the next grant, whether their owners heard, and whether the phase excuses the
//! loss.

use super::timeline::{Entry, Timeline};
use super::{Case, Findings};
use crate::event::Unlocked;
use crate::rules::Outage;
use crate::time::{difference, millis, nanos};

/// Returns whether the phase excuses the loss of a hold.
fn excused(case: Case<'_>) -> bool {
    let too_late = nanos(case.margins.machine_late) as u64;
    let machine = case.history.naps.iter().any(|late| *late > too_late);
    let server = case.history.slowest_write > too_late;
    machine || server || case.rules.outage == Outage::Long
}

pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let excused = excused(case);
    for (index, entry) in timeline.entries.iter().enumerate() {
        let record = entry.record;
        let Some(loss) = record.loss_while_held() else {
            continue;
        };
        let (kind, hold) = (record.grant.kind, record.grant.hold);
        found.of(kind).losses += 1;
        if let Some(next) = next_in_need(timeline, index) {
            let margin = difference(next.record.grant.at, loss.at);
            let least = &mut found.of(kind).margin;
            *least = Some(least.map_or(margin, |least| least.min(margin)));
        }
        if let Some(Unlocked::Fine) = record.unlocked {
            found.violations.push(format!(
                "a loss was kept quiet: the unlock of {hold} said nothing of it ({})",
                loss.reason
            ));
        }
        if !excused && entry.doubted.is_none() {
            found.violations.push(format!(
                "lost for nothing: {hold} ({}) at {} ({}); a server took {} ms for a write",
                record.grant.op,
                timeline.lock.name,
                loss.reason,
                millis(case.history.slowest_write as i64)
            ));
        }
    }
}

/// The first later grant that does not fit beside the hold.
fn next_in_need<'c>(timeline: &'c Timeline<'_>, lost: usize) -> Option<&'c Entry<'c>> {
    let (capacity, units) = (timeline.lock.what.capacity(), timeline.entries[lost].units);
    let hold = timeline.entries[lost].hold();
    timeline.entries[lost + 1..].iter().find(|next| {
        let own = next.record.grant.under == Some(hold);
        let others = match next.beside.contains(&lost) {
            true => next.load.saturating_sub(units),
            false => next.load,
        };
        !own && others + units > capacity
    })
}

/// Calls for several locks that lost one before they had all.
pub(super) fn check_waiting(found: &mut Findings, case: Case<'_>) {
    if excused(case) {
        return;
    }
    for (by, kind) in &case.history.lost_while_waiting {
        let text = format!("lost for nothing: a part of what {by} waited for ({kind})");
        found.violations.push(text);
    }
}
