//! The checker: judges the history of a phase. It knows only times, fencing tokens, names of nodes,
//! and how many fit in at a path; nothing of how the locks work.

mod deadlines;
pub(crate) mod guarded;
pub(crate) mod hung;
pub(crate) mod leading;
mod losses;
mod order;
mod overlaps;
#[cfg(test)]
mod tests;
mod timeline;
mod writes;

use std::collections::BTreeMap;

use crate::clock::millis;
use crate::coordinator::curator::Peer;
use crate::history::{History, Record};
use crate::kinds::Kind;
use crate::nemesis::Phase;
use crate::paths::PATHS;

use guarded::Guarded;
use leading::Leading;
use order::Order;
use timeline::Timeline;
use writes::Tokens;

/// What was found in a phase.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) stale_accepted: usize,
    pub(crate) stale_refused: usize,
    pub(crate) inversions: usize,
    pub(crate) hung: usize,
    pub(crate) deaths: usize,
    pub(crate) late_writes: usize,
    pub(crate) guarded: Guarded,
    pub(crate) leading: Leading,
    /// How long after a loss its thread had still not let go of the witness when the next holder
    /// looked; the longest.
    pub(crate) witness_lag: Option<i64>,
    /// How much later than their deadlines calls came back that had waited for them.
    pub(crate) overshoots: Vec<i64>,
    /// The latest of them, and what was called.
    pub(crate) latest: Option<(i64, String)>,
    pub(crate) slept: Vec<i64>,
    pub(crate) kinds: BTreeMap<Kind, Tally>,
    /// What must not happen, a line each.
    pub(crate) violations: Vec<String>,
}

/// What was found of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) acquisitions: usize,
    pub(crate) overlaps: usize,
    pub(crate) overlaps_expected: usize,
    pub(crate) losses: usize,
    /// From a loss to the next grant on its path that had to wait for it, in nanoseconds; the
    /// shortest.
    pub(crate) margin: Option<i64>,
    /// So many holds, or permits, were out at one path at once.
    pub(crate) most: u32,
}

/// With what it needs to know of the phases before.
#[derive(Debug)]
pub(crate) struct Checker {
    peer: Option<Peer>,
    orders: [Order; PATHS],
    tokens: Tokens,
}

impl Checker {
    /// Of zoolock, or of another library.
    pub(crate) fn new(peer: Option<Peer>) -> Checker {
        Checker { peer, orders: Default::default(), tokens: Tokens::default() }
    }

    pub(crate) fn check(&mut self, phase: &Phase, history: &History) -> Findings {
        let mut found = Findings {
            deaths: history.deaths.len(),
            hung: history.hung.len(),
            ..Findings::default()
        };
        for path in 0..PATHS {
            let on_path = |record: &&Record| record.grant.path == path;
            let timeline =
                Timeline::new(path, history.holds.iter().filter(on_path), &history.deaths);
            found.count(&timeline);
            overlaps::check(&mut found, phase, &timeline);
            losses::check(&mut found, phase, history, &timeline, self.peer.is_none());
            if !phase.rules.expect_overlaps() {
                self.orders[path].check(&mut found, &timeline);
                order::check_queue(&mut found, &timeline, &history.queue_snapshots);
            }
        }
        losses::check_waiting(&mut found, phase, history);
        self.tokens.check(&mut found, phase, history);
        writes::check_late(&mut found, phase, history);
        deadlines::check(&mut found, phase, history);
        guarded::check(&mut found, history);
        leading::check(&mut found, phase, history);
        let hung = history.hung.iter();
        found.violations.extend(hung.map(|call| format!("hung call: {call}")));
        found.violations.extend(history.unexpected.iter().cloned());
        for violation in &mut found.violations {
            *violation = format!("[{}] {violation}", phase.name);
        }
        found
    }
}

impl Findings {
    /// Over all kinds.
    pub(crate) fn sum(&self, figure: fn(&Tally) -> usize) -> usize {
        self.kinds.values().map(figure).sum()
    }

    /// In milliseconds.
    pub(crate) fn margin(&self) -> Option<f64> {
        self.kinds.values().filter_map(|tally| tally.margin).min().map(millis)
    }

    fn of(&mut self, kind: Kind) -> &mut Tally {
        self.kinds.entry(kind).or_default()
    }

    /// Of the same phase in another round.
    pub(crate) fn add(&mut self, other: Findings) {
        self.stale_accepted += other.stale_accepted;
        self.stale_refused += other.stale_refused;
        self.inversions += other.inversions;
        self.hung += other.hung;
        self.deaths += other.deaths;
        self.late_writes += other.late_writes;
        self.guarded.add(&other.guarded);
        self.leading.add(other.leading);
        self.witness_lag = self.witness_lag.max(other.witness_lag);
        self.overshoots.extend(other.overshoots);
        self.latest = self.latest.take().max(other.latest);
        self.slept.extend(other.slept);
        for (kind, tally) in &other.kinds {
            self.of(*kind).add(tally);
        }
        self.violations.extend(other.violations);
    }

    fn count(&mut self, timeline: &Timeline<'_>) {
        for entry in &timeline.entries {
            let grant = &entry.record.grant;
            let tally = self.of(grant.kind);
            tally.acquisitions += usize::from(grant.member == 0);
            tally.most = tally.most.max(entry.at_once);
        }
    }
}

impl Tally {
    /// Of several phases.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.acquisitions += other.acquisitions;
        self.overlaps += other.overlaps;
        self.overlaps_expected += other.overlaps_expected;
        self.losses += other.losses;
        self.margin = [self.margin, other.margin].into_iter().flatten().min();
        self.most = self.most.max(other.most);
    }
}
