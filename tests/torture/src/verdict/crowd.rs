//! The holds of one path in the order of their grants, and who was there beside each.

use std::collections::HashMap;

use crate::clock::Nanos;
use crate::evidence::Record;
use crate::message::Life;
use crate::places::{self, Place, Share};

pub(super) struct Crowd<'e> {
    pub(super) path: usize,
    pub(super) members: Vec<Member<'e>>,
}

pub(super) struct Member<'e> {
    pub(super) record: &'e Record,
    pub(super) end: Nanos,
    /// Those granted before that had not ended, by index. A write under which this is a read does
    /// not count.
    pub(super) beside: Vec<usize>,
    /// How much of the place they and this one take together.
    pub(super) load: u32,
    /// How many permits, or else holds, that is.
    pub(super) at_once: u32,
}

impl<'e> Crowd<'e> {
    pub(super) fn new(
        path: usize,
        records: impl Iterator<Item = &'e Record>,
        deaths: &HashMap<Life, Nanos>,
    ) -> Crowd<'e> {
        let mut records: Vec<_> = records.collect();
        records.sort_by_key(|record| record.grant.at);
        let mut members: Vec<Member<'_>> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for record in records {
            open.retain(|&index| members[index].end > record.grant.at);
            let other = |&&index: &&usize| record.grant.under != Some(members[index].hold());
            let beside: Vec<_> = open.iter().filter(other).copied().collect();
            let there = || beside.iter().map(|&index| members[index].record).chain([record]);
            let (load, at_once) = (there().map(Record::weight).sum(), there().map(units).sum());
            open.push(members.len());
            members.push(Member {
                record,
                end: record.end(deaths).unwrap_or(Nanos::MAX),
                beside,
                load,
                at_once,
            });
        }
        Crowd { path, members }
    }

    pub(super) fn place(&self) -> &'static Place {
        places::at(self.path)
    }
}

impl Member<'_> {
    pub(super) fn hold(&self) -> crate::message::HoldId {
        self.record.grant.hold
    }
}

fn units(record: &Record) -> u32 {
    match record.grant.share {
        Share::Permits(count) => count,
        Share::Alone | Share::Reading => 1,
    }
}
