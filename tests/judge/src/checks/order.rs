//! Checks that no contender overtook another in the queue.
//!
//! Where the number in a node's name is the queue position, a later number must not be granted
//! before an earlier one if one of the two has to wait for the other. A reader or writer must not
//! overtake an earlier writer, and a writer must not overtake an earlier reader. Readers have no
//! order among themselves.
//!
//! Permits do not show the queue position of their call. There, no call may return with permits
//! while a call that was in the queue before it began still waits. A single node has no queue, and
//! `try_acquire` of permits has no position in it.

use super::timeline::Timeline;
use super::{Case, Findings};
use crate::event::HoldId;
use crate::history::Record;
use crate::lock::Mode;

/// The highest numbers that were granted at a lock, over all histories.
#[derive(Debug, Default)]
pub(super) struct Order {
    reader: Option<(u32, HoldId)>,
    writer: Option<(u32, HoldId)>,
}

impl Order {
    pub(super) fn check(&mut self, found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
        if !timeline.lock.what.grants_by_number() {
            return;
        }
        // A hold that its client could not know the end of may be reported late.
        for entry in timeline.entries.iter().filter(|entry| entry.doubted.is_none()) {
            self.check_one(found, case, entry.record);
        }
    }

    fn check_one(&mut self, found: &mut Findings, case: Case<'_>, record: &Record) {
        let (grant, hold) = (&record.grant, record.grant.hold);
        let Some(sequence) = record.sequence() else {
            let text = format!("{hold}: the names {:?} have no sequence", grant.nodes);
            found.violations.push(text);
            return;
        };
        // A read under a write is in the write's place.
        let own = |&(_, before): &(u32, HoldId)| grant.under != Some(before);
        let writer = self.writer.filter(own);
        let passed_by = match grant.mode {
            Mode::Exclusive => writer.max(self.reader),
            Mode::Shared | Mode::Permits(_) => writer,
        };
        // Who had lost it when the call came back may have been followed by others before that.
        // A thread may leave its node to another one of its process.
        let passed_by = passed_by.filter(|&(last, before)| {
            let left = sequence == last && hold.by.is_beside(before.by);
            grant.still_held && sequence <= last && !left
        });
        if let Some((last, before)) = passed_by {
            found.inversions += 1;
            found.violations.push(format!(
                "order inverted: at {} {hold} ({}) with number {sequence} came after {before} with \
                 {last}",
                case.name(grant.path),
                grant.op,
            ));
        }
        let highest = match grant.mode {
            Mode::Exclusive => &mut self.writer,
            Mode::Shared | Mode::Permits(_) => &mut self.reader,
        };
        *highest = (*highest).max(Some((sequence, hold)));
    }
}

/// By looks at the queue before the call was made and after it came back.
pub(super) fn check_queue(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let mut looks =
        case.history.queue_snapshots.iter().filter(|look| look.path == timeline.path).peekable();
    if looks.peek().is_none() {
        return;
    }
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
