//! Did the register accept a write that came too late, or refuse one in time?

use super::Findings;
use crate::history::{History, Write};
use crate::nemesis::{Phase, Rules};
use crate::paths::{PATHS, lock_path};
use crate::protocol::HoldId;

/// So many writes must have come too late where clients are stopped.
const LEAST_LATE_WRITES: usize = 10;

/// The highest that was written at each path.
#[derive(Debug, Default)]
pub(super) struct Tokens([Option<(u64, HoldId)>; PATHS]);

impl Tokens {
    /// By the journal alone: the register itself may be wrong.
    pub(super) fn check(&mut self, found: &mut Findings, phase: &Phase, history: &History) {
        for write in &history.writes {
            let Some(record) = history.hold(write.hold) else {
                continue;
            };
            if write.accepted {
                self.check_accepted(found, write);
            } else {
                found.stale_refused += 1;
                if !phase.rules.expect_overlaps() && !record.was_lost_by(write.at) {
                    found.violations.push(refused_in_good_faith(write));
                }
            }
        }
    }

    fn check_accepted(&mut self, found: &mut Findings, write: &Write) {
        let Write { path, token, hold, .. } = *write;
        if let Some((highest, holder)) = self.0[path]
            && (token < highest || token == highest && !hold.by.is_beside(holder.by))
        {
            found.stale_accepted += 1;
            let path = lock_path(path);
            found.violations.push(format!(
                "stale write accepted: {hold} wrote at {path} with token {token} after {holder} \
                 with token {highest}"
            ));
            return;
        }
        self.0[path] = Some((token, hold));
    }
}

fn refused_in_good_faith(write: &Write) -> String {
    format!(
        "fresh write refused: {} wrote at {} with token {}, and had not lost the lock",
        write.hold,
        lock_path(write.path),
        write.token
    )
}

pub(super) fn check_late(found: &mut Findings, phase: &Phase, history: &History) {
    for &(hold, stopped) in &history.overtaken {
        match history.write_after(hold, stopped) {
            Some(write) if !write.accepted => found.late_writes += 1,
            Some(_) => {
                let text = format!("late write accepted: {hold} had been overtaken");
                found.violations.push(text);
            }
            None => {}
        }
    }
    let staged = phase.rules == Rules::ClientStops && history.stages_late_writes;
    if staged && found.late_writes < LEAST_LATE_WRITES {
        found.violations.push(format!(
            "only {} writes came too late and were refused, of {LEAST_LATE_WRITES} that must",
            found.late_writes
        ));
    }
}
