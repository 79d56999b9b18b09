//! Judges what was seen in a phase. It knows only times, tokens, names, and how much room there is
//! at a place; nothing of how the locks work.

mod calls;
mod crowd;
mod losses;
mod order;
mod overlaps;
mod writes;

use std::collections::BTreeMap;

use crate::evidence::{Evidence, Record};
use crate::kinds::Kind;
use crate::peer::Peer;
use crate::phases::Phase;
use crate::places::PATHS;

use crowd::Crowd;
use order::Order;
use writes::Tokens;

/// What was found in a phase.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acquisitions: usize,
    pub(crate) overlaps: usize,
    pub(crate) overlaps_expected: usize,
    pub(crate) stale_accepted: usize,
    pub(crate) stale_refused: usize,
    pub(crate) inversions: usize,
    pub(crate) hung: usize,
    pub(crate) deaths: usize,
    pub(crate) late_writes: usize,
    pub(crate) losses: usize,
    /// From each loss to the next grant on its path that had to wait for it, in nanoseconds.
    pub(crate) margins: Vec<i64>,
    /// How long after a loss the loser's thread had still not let go of the witness when the next
    /// one looked.
    pub(crate) witness_lags: Vec<i64>,
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
    /// The smallest.
    pub(crate) margin: Option<i64>,
    /// So many holds, or permits, were out at one path at once.
    pub(crate) most: u32,
}

/// What a judgement needs to know of the phases before.
#[derive(Debug)]
pub(crate) struct Judge {
    peer: Option<Peer>,
    orders: [Order; PATHS],
    tokens: Tokens,
}

impl Judge {
    /// Of zoolock, or of another library.
    pub(crate) fn new(peer: Option<Peer>) -> Judge {
        Judge { peer, orders: Default::default(), tokens: Tokens::default() }
    }

    pub(crate) fn judge(&mut self, phase: &Phase, evidence: &Evidence) -> Findings {
        let mut found = Findings {
            acquisitions: evidence.acquisitions,
            deaths: evidence.deaths.len(),
            hung: evidence.hung.len(),
            ..Findings::default()
        };
        for path in 0..PATHS {
            let on_path = |record: &&Record| record.grant.path == path;
            let crowd = Crowd::new(path, evidence.holds.iter().filter(on_path), &evidence.deaths);
            found.count(&crowd);
            overlaps::look(&mut found, phase, &crowd);
            losses::look(&mut found, phase, evidence, &crowd, self.peer.is_none());
            if !phase.rules.expect_overlaps() {
                self.orders[path].check(&mut found, &crowd);
                order::check_queue(&mut found, &crowd, &evidence.glimpses);
            }
        }
        losses::look_at_waiting(&mut found, phase, evidence);
        self.tokens.audit(&mut found, phase, evidence);
        writes::judge_late(&mut found, phase, evidence);
        calls::judge(&mut found, phase, evidence);
        let hung = evidence.hung.iter();
        found.violations.extend(hung.map(|call| format!("hung call: {call}")));
        found.violations.extend(evidence.wrongs.iter().cloned());
        for violation in &mut found.violations {
            *violation = format!("[{}] {violation}", phase.name);
        }
        found
    }
}

impl Findings {
    fn of(&mut self, kind: Kind) -> &mut Tally {
        self.kinds.entry(kind).or_default()
    }

    /// Of the same phase in another round.
    pub(crate) fn add(&mut self, other: Findings) {
        self.acquisitions += other.acquisitions;
        self.overlaps += other.overlaps;
        self.overlaps_expected += other.overlaps_expected;
        self.stale_accepted += other.stale_accepted;
        self.stale_refused += other.stale_refused;
        self.inversions += other.inversions;
        self.hung += other.hung;
        self.deaths += other.deaths;
        self.late_writes += other.late_writes;
        self.losses += other.losses;
        self.margins.extend(other.margins);
        self.witness_lags.extend(other.witness_lags);
        self.overshoots.extend(other.overshoots);
        self.latest = self.latest.take().max(other.latest);
        self.slept.extend(other.slept);
        for (kind, tally) in &other.kinds {
            self.of(*kind).add(tally);
        }
        self.violations.extend(other.violations);
    }

    fn count(&mut self, crowd: &Crowd<'_>) {
        for member in &crowd.members {
            let grant = &member.record.grant;
            let tally = self.of(grant.kind);
            tally.acquisitions += usize::from(grant.member == 0);
            tally.most = tally.most.max(member.at_once);
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
