//! The holds of one lock in the order of their grants, each with those that existed at the same
//! time.

use super::Case;
use crate::event::HoldId;
use crate::history::Record;
use crate::lock::{Lock, LockIndex, Mode};
use crate::time::Nanos;

pub(super) struct Timeline<'e> {
    pub(super) path: LockIndex,
    pub(super) lock: &'e Lock,
    pub(super) entries: Vec<Entry<'e>>,
}

pub(super) struct Entry<'e> {
    pub(super) record: &'e Record,
    /// How much of the capacity it takes.
    pub(super) units: u32,
    pub(super) end: Nanos,
    /// Since when its client could not know whether it still had it.
    pub(super) doubted: Option<Nanos>,
    /// Those granted before that had not ended, by index. A write under which this is a read does
    /// not count.
    pub(super) beside: Vec<usize>,
    /// How much of the capacity they and this one take together.
    pub(super) load: u32,
    /// How many permits, or else holds, that is.
    pub(super) at_once: u32,
}

impl<'e> Timeline<'e> {
    /// Returns none if nobody asked for the lock.
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
            let other = |&&index: &&usize| record.grant.under != Some(entries[index].hold());
            let beside: Vec<_> = open.iter().filter(other).copied().collect();
            let of_beside = |figure: fn(&Entry<'_>) -> u32| -> u32 {
                beside.iter().map(|&index| figure(&entries[index])).sum()
            };
            let load = of_beside(|entry| entry.units) + units;
            let at_once = of_beside(|entry| count(entry.record)) + count(record);
            let doubted = history.doubted(record);
            // A hold that was over before the call came back promises nothing.
            if end > at {
                open.push(entries.len());
            }
            let load = if end > at { load } else { 0 };
            entries.push(Entry { record, units, end, doubted, beside, load, at_once });
        }
        Some(Timeline { path, lock, entries })
    }

    /// Returns whether a grant fits in beside those holds whose clients could know about them.
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

impl Entry<'_> {
    pub(super) fn hold(&self) -> HoldId {
        self.record.grant.hold
    }
}

fn count(record: &Record) -> u32 {
    match record.grant.mode {
        Mode::Permits(count) => count,
        Mode::Exclusive | Mode::Shared => 1,
    }
}
