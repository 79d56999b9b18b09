//! The holds at one path in the order of their grants, and which went on beside each.

use std::collections::HashMap;

use crate::clock::Nanos;
use crate::history::Record;
use crate::paths::{self, LockPath, Mode};
use crate::protocol::{HoldId, Incarnation};

pub(super) struct Timeline<'e> {
    pub(super) path: usize,
    pub(super) entries: Vec<Entry<'e>>,
}

pub(super) struct Entry<'e> {
    pub(super) record: &'e Record,
    pub(super) end: Nanos,
    /// Those granted before that had not ended, by index. A write under which this is a read does
    /// not count.
    pub(super) beside: Vec<usize>,
    /// How much of the capacity they and this one take together.
    pub(super) load: u32,
    /// How many permits, or else holds, that is.
    pub(super) at_once: u32,
}

impl<'e> Timeline<'e> {
    pub(super) fn new(
        path: usize,
        records: impl Iterator<Item = &'e Record>,
        deaths: &HashMap<Incarnation, Nanos>,
    ) -> Timeline<'e> {
        let mut records: Vec<_> = records.collect();
        records.sort_by_key(|record| record.grant.at);
        let mut entries: Vec<Entry<'_>> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for record in records {
            open.retain(|&index| entries[index].end > record.grant.at);
            let other = |&&index: &&usize| record.grant.under != Some(entries[index].hold());
            let beside: Vec<_> = open.iter().filter(other).copied().collect();
            let there = || beside.iter().map(|&index| entries[index].record).chain([record]);
            let (load, at_once) = (there().map(Record::units).sum(), there().map(count).sum());
            open.push(entries.len());
            entries.push(Entry {
                record,
                end: record.end(deaths).unwrap_or(Nanos::MAX),
                beside,
                load,
                at_once,
            });
        }
        Timeline { path, entries }
    }

    pub(super) fn at(&self) -> &'static LockPath {
        paths::at(self.path)
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
