//! Whether a call for permits overtook another in the queue. The tokens of other locks show that to the second judge.
//!
//! No call may return with permits while an older waiter is still queued, which was queued before the call was made.
//! `try_acquire` of permits has no position.

use super::timeline::Timeline;
use super::{Case, Findings};

/// Uses looks at the queue before the call and after its return.
pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let looks = case.history.queue_snapshots.iter().filter(|look| look.path == timeline.path);
    let looks: Vec<_> = looks.collect();
    let waited = timeline.entries.iter().filter(|entry| entry.record.grant.waited);
    for grant in waited.map(|entry| &entry.record.grant) {
        let before = looks.partition_point(|look| look.answered < grant.started);
        let after = looks.partition_point(|look| look.asked <= grant.at);
        let (Some(before), Some(after)) = (looks[..before].last(), looks.get(after)) else {
            continue;
        };
        let passed = after.queued.iter().find(|number| before.queued.contains(number));
        if let Some(number) = passed {
            found.inversions += 1;
            found.violations.push(format!(
                "order inverted: at {} {} ({}) did not wait for number {number}, which was in the \
                 queue before its call and after it",
                case.name(grant.path),
                grant.hold,
                grant.op,
            ));
        }
    }
}
