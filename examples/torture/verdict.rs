//! Judges what was seen in a phase. It knows only times, tokens and names, nothing of how the locks
//! work.

use crate::clock::{Nanos, difference, millis};
use crate::evidence::{Evidence, Record, Write};
use crate::message::{HoldId, Unlocked};
use crate::phases::{Phase, Rules};
use crate::setting::{PATHS, lock_path};

/// So much later than its deadline no call may return, beside what the machine is late itself.
const MOST_OVERSHOOT: i64 = 1_000_000_000;
/// So many writes must have come too late where clients are stopped.
const LEAST_LATE_WRITES: usize = 10;

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
    /// From each loss to the next grant on its path, in nanoseconds.
    pub(crate) margins: Vec<i64>,
    /// How long after a loss the loser's thread had still not let go of the witness when the next
    /// one looked.
    pub(crate) witness_lags: Vec<i64>,
    /// How much later than their deadlines calls came back that had waited for them.
    pub(crate) overshoots: Vec<i64>,
    pub(crate) slept: Vec<i64>,
    /// What must not happen, a line each.
    pub(crate) violations: Vec<String>,
}

/// What a judgement needs to know of the phases before.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// The last place in the queue that was granted.
    sequences: [Option<(u32, HoldId)>; PATHS],
    /// The highest token that was written.
    tokens: [Option<(u64, HoldId)>; PATHS],
}

impl Judge {
    pub(crate) fn judge(&mut self, phase: &Phase, evidence: &Evidence) -> Findings {
        let mut found = Findings {
            acquisitions: evidence.holds.len(),
            deaths: evidence.deaths.len(),
            hung: evidence.hung.len(),
            ..Findings::default()
        };
        for path in 0..PATHS {
            let on_path = |record: &&Record| record.grant.path == path;
            let mut holds: Vec<_> = evidence.holds.iter().filter(on_path).collect();
            holds.sort_by_key(|record| record.grant.at);
            look_for_overlaps(&mut found, phase, evidence, &holds);
            measure_losses(&mut found, &holds);
        }
        self.audit_writes(&mut found, phase, evidence);
        judge_late_writes(&mut found, phase, evidence);
        judge_calls(&mut found, phase, evidence);
        let hung = evidence.hung.iter();
        found
            .violations
            .extend(hung.map(|call| format!("hung call: {call}")));
        found.violations.extend(evidence.wrongs.iter().cloned());
        for violation in &mut found.violations {
            *violation = format!("[{}] {violation}", phase.name);
        }
        found
    }

    /// By the journal alone: the register itself may be wrong.
    fn audit_writes(&mut self, found: &mut Findings, phase: &Phase, evidence: &Evidence) {
        for write in &evidence.writes {
            let Some(record) = evidence.hold(write.hold) else {
                continue;
            };
            if write.accepted {
                self.audit_accepted(found, write);
            } else {
                found.stale_refused += 1;
                if !phase.rules.expect_overlaps() && !record.was_lost_by(write.at) {
                    found.violations.push(refused_in_good_faith(write));
                }
            }
            let first = record.first_write.is_some_and(|first| first.at == write.at);
            // A holder whose node was deleted, or who was stopped, may come late.
            if first && !phase.rules.expect_overlaps() && !record.was_lost_by(write.at) {
                self.check_order(found, record);
            }
        }
    }

    fn audit_accepted(&mut self, found: &mut Findings, write: &Write) {
        let Write {
            path, token, hold, ..
        } = *write;
        if let Some((highest, holder)) = self.tokens[path]
            && (token < highest || token == highest && hold != holder)
        {
            found.stale_accepted += 1;
            let path = lock_path(path);
            found.violations.push(format!(
                "stale write accepted: {hold} wrote at {path} with token {token} after {holder} \
                 with token {highest}"
            ));
            return;
        }
        self.tokens[path] = Some((token, hold));
    }

    fn check_order(&mut self, found: &mut Findings, record: &Record) {
        let (path, hold) = (record.grant.path, record.grant.hold);
        let node = &record.grant.node;
        let Some(sequence) = record.sequence() else {
            let text = format!("{hold}: the name {node:?} has no sequence");
            found.violations.push(text);
            return;
        };
        if let Some((last, before)) = self.sequences[path]
            && sequence <= last
        {
            found.inversions += 1;
            found.violations.push(format!(
                "order inverted: at {} {hold} with number {sequence} came after {before} with {last}",
                lock_path(path)
            ));
            return;
        }
        self.sequences[path] = Some((sequence, hold));
    }
}

/// Two holds of a path overlap if one was granted before the other had ended; or if the witness
/// could not be had, unless that was a loser's whose thread had not let go of it yet.
fn look_for_overlaps(found: &mut Findings, phase: &Phase, evidence: &Evidence, holds: &[&Record]) {
    let end = |record: &Record| record.end(&evidence.deaths).unwrap_or(Nanos::MAX);
    let mut before: Option<&Record> = None;
    for record in holds {
        let granted = record.grant.at;
        let rival = before.filter(|rival| end(rival) > granted);
        let loser = holds.iter().rev().find_map(|other| {
            let lost = other.loss_while_held()?.at;
            let let_go = other.unlocked.is_some_and(|(at, _)| at <= granted);
            (other.grant.at < granted && lost <= granted && !let_go).then_some(lost)
        });
        match (rival, record.grant.alone, loser) {
            (Some(rival), _, _) => {
                overlap(found, phase, describe_overlap(record, rival, end(rival)));
            }
            (None, true, _) => {}
            (None, false, Some(lost)) => found.witness_lags.push(difference(granted, lost)),
            (None, false, None) => {
                let text = format!("{}, but no holder is known", describe(record));
                overlap(found, phase, text);
            }
        }
        if before.is_none_or(|before| end(record) > end(before)) {
            before = Some(record);
        }
    }
}

fn overlap(found: &mut Findings, phase: &Phase, text: String) {
    if phase.rules.expect_overlaps() {
        found.overlaps_expected += 1;
    } else {
        found.overlaps += 1;
        found.violations.push(format!("overlap: {text}"));
    }
}

fn describe_overlap(record: &Record, rival: &Record, end: Nanos) -> String {
    let (granted, began) = (record.grant.at, rival.grant.at);
    let end = match end {
        Nanos::MAX => "had not ended".to_owned(),
        end => format!("ended {} ms later", millis(difference(end, granted))),
    };
    let after = millis(difference(granted, began));
    let (hold, node) = (rival.grant.hold, &rival.grant.node);
    format!(
        "{}, {after} ms after {hold} ({node}), which {end}",
        describe(record)
    )
}

fn describe(record: &Record) -> String {
    let grant = &record.grant;
    let witness = if grant.alone { "free" } else { "taken" };
    format!(
        "{} ({}, {}) was granted {} at {} ns with the witness {witness}",
        grant.hold,
        grant.op,
        grant.node,
        lock_path(grant.path),
        grant.at,
    )
}

fn measure_losses(found: &mut Findings, holds: &[&Record]) {
    for (index, record) in holds.iter().enumerate() {
        let Some(loss) = record.loss_while_held() else {
            continue;
        };
        found.losses += 1;
        if let Some(next) = holds.get(index + 1) {
            found.margins.push(difference(next.grant.at, loss.at));
        }
        if let Some((_, Unlocked::Fine)) = record.unlocked {
            found.violations.push(format!(
                "a loss was kept quiet: the unlock of {} said nothing of it ({})",
                record.grant.hold, loss.reason
            ));
        }
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

fn judge_late_writes(found: &mut Findings, phase: &Phase, evidence: &Evidence) {
    for &(hold, stopped) in &evidence.overtaken {
        match evidence.write_after(hold, stopped) {
            Some(write) if !write.accepted => found.late_writes += 1,
            Some(_) => {
                let text = format!("late write accepted: {hold} had been overtaken");
                found.violations.push(text);
            }
            None => {}
        }
    }
    if phase.rules == Rules::ClientStops && found.late_writes < LEAST_LATE_WRITES {
        found.violations.push(format!(
            "only {} writes came too late and were refused, of {LEAST_LATE_WRITES} that must",
            found.late_writes
        ));
    }
}

fn judge_calls(found: &mut Findings, phase: &Phase, evidence: &Evidence) {
    if !phase.rules.expect_punctuality() {
        return;
    }
    found.slept = evidence.naps.iter().map(|&late| late as i64).collect();
    // What a thread that only sleeps comes too late is the machine's doing.
    let most = MOST_OVERSHOOT + found.slept.iter().max().copied().unwrap_or(0);
    for (by, call) in &evidence.calls {
        let Some(deadline) = call.deadline else {
            continue;
        };
        let late = difference(call.ended, deadline);
        if late >= 0 && call.op.contains("try_") {
            found.overshoots.push(late);
        }
        if late > most {
            found.violations.push(format!(
                "too late: {by} came back from {} at {} {} ms after its deadline",
                call.op,
                lock_path(call.path),
                millis(late)
            ));
        }
    }
}
