//! The holds of one lock in the order of their grants, and which of them overlapped.

use super::Case;
use crate::history::Record;
use crate::lock::{Lock, LockIndex};
use crate::time::Nanos;

pub(super) struct Timeline<'e> {
    pub(super) path: LockIndex,
    pub(super) lock: &'e Lock,
    pub(super) entries: Vec<Entry<'e>>,
}

pub(super) struct Entry<'e> {
    pub(super) record: &'e Record,
    /// The units of the lock's capacity that the hold takes.
    pub(super) units: u32,
    pub(super) end: Nanos,
    /// The time from which the hold's client could not know whether it still held the lock.
    pub(super) doubted: Option<Nanos>,
    /// The indices of earlier holds that had not ended. A downgraded read's own write is not included.
    pub(super) beside: Vec<usize>,
    /// The units that those holds and this one take together.
    pub(super) load: u32,
}

impl<'e> Timeline<'e> {
    /// Returns `None` if no call requested this lock.
    pub(super) fn new(case: Case<'e>, path: LockIndex) -> Option<Timeline<'e>> {
        let Case { history, .. } = case;
        let lock = &case.locks[path];
        let at_lock = |record: &&Record| record.grant.path == path;
        let mut records: Vec<_> = history.holds.iter().filter(at_lock).collect();
        let is_wanted = || history.open.values().any(|call| call.path == path);
        if records.is_empty() && !is_wanted() {
            return None;
        }
        records.sort_by_key(|record| record.grant.at);
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(records.len());
        let mut open: Vec<usize> = Vec::new();
        for record in records {
            let at = record.grant.at;
            open.retain(|&index| entries[index].end > at);
            let end = record.end(&history.deaths).unwrap_or(Nanos::MAX);
            let units = lock.what.units(record.grant.mode);
            let other =
                |&&index: &&usize| record.grant.under != Some(entries[index].record.grant.hold);
            let beside: Vec<_> = open.iter().filter(other).copied().collect();
            let doubted = history.doubted(record);
            let mut load = 0;
            // A hold that ended before its call returned makes no promise.
            if end > at {
                open.push(entries.len());
                load = beside.iter().map(|&index| entries[index].units).sum::<u32>() + units;
            }
            entries.push(Entry { record, units, end, doubted, beside, load });
        }
        Some(Timeline { path, lock, entries })
    }

    /// Returns whether a grant fits beside the holds whose clients were able to detect a loss.
    pub(super) fn fits_with_doubts(&self, entry: &Entry<'_>) -> bool {
        let at = entry.record.grant.at;
        let known = |entry: &Entry<'_>| entry.doubted.is_none_or(|since| since > at);
        if !known(entry) {
            return true;
        }
        let beside = entry.beside.iter().map(|&index| &self.entries[index]);
        let load: u32 = beside.filter(|beside| known(beside)).map(|beside| beside.units).sum();
        load + entry.units <= self.lock.what.capacity()
    }
}
