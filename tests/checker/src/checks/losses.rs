//! Checks lost holds: whether their owners were notified, and whether the losses are excused.

use super::timeline::Timeline;
use super::{Case, Findings};
use crate::event::Unlocked;
use crate::rules::Outage;
use crate::time::{millis, nanos};

/// Returns whether faults, or a slow machine, excuse the loss of a hold.
fn excused(case: Case<'_>) -> bool {
    let too_late = nanos(case.margins.machine_late) as u64;
    let machine = case.history.naps.iter().any(|late| *late > too_late);
    let server = case.history.slowest_write > too_late;
    machine || server || case.rules.outage == Outage::Long
}

pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let excused = excused(case);
    for entry in &timeline.entries {
        let (record, hold) = (entry.record, entry.record.grant.hold);
        let Some(loss) = record.loss_while_held() else { continue };
        found.losses += 1;
        if let Some(Unlocked::Fine) = record.unlocked {
            found.violations.push(format!(
                "a loss was kept quiet: the unlock of {hold} did not report it ({})",
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
