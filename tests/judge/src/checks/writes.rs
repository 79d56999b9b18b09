//! Whether the register accepted a late write, or refused one in time.

use super::{Case, Findings};
use crate::event::{HoldId, Write};

/// The highest written token at each lock.
#[derive(Debug)]
pub(super) struct Tokens(Vec<Option<(u64, HoldId)>>);

impl Tokens {
    pub(super) fn new(locks: usize) -> Tokens {
        Tokens(vec![None; locks])
    }

    /// Uses the order of the writes alone: the register itself may be wrong.
    pub(super) fn check(&mut self, found: &mut Findings, case: Case<'_>) {
        for write in &case.history.writes {
            let Some(record) = case.history.hold(write.hold) else {
                continue;
            };
            if write.accepted {
                self.check_accepted(found, case, write);
            } else {
                found.stale_refused += 1;
                let excused =
                    case.rules.overlaps_expected || case.history.doubted(record).is_some();
                if !excused && !record.was_lost_by(write.at) {
                    let (hold, path, token) = (write.hold, case.name(write.path), write.token);
                    found.violations.push(format!(
                        "fresh write refused: {hold} wrote at {path} with token {token}, and had not lost the lock"
                    ));
                }
            }
        }
    }

    fn check_accepted(&mut self, found: &mut Findings, case: Case<'_>, write: &Write) {
        let Write { path, token, hold, .. } = *write;
        if let Some((highest, holder)) = self.0[path]
            && (token < highest || token == highest && !hold.by.is_beside(holder.by))
        {
            found.stale_accepted += 1;
            let path = case.name(path);
            found.violations.push(format!(
                "stale write accepted: {hold} wrote at {path} with token {token} after {holder} \
                 with token {highest}"
            ));
            return;
        }
        self.0[path] = Some((token, hold));
    }
}

pub(super) fn check_late(found: &mut Findings, case: Case<'_>) {
    let history = case.history;
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
    let least = case.margins.least_late_writes;
    if history.stages_late_writes && found.late_writes < least {
        found.violations.push(format!(
            "only {} writes came too late and were refused, of {least} that must",
            found.late_writes
        ));
    }
}
