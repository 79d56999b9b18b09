//! Were more there than there is room for?

use super::Findings;
use super::crowd::{Crowd, Member};
use crate::clock::{Nanos, difference, millis};
use crate::evidence::Record;
use crate::phases::Phase;
use crate::places::lock_path;

/// There are too many at a path if a grant does not fit in beside those that had not ended; or if
/// the witness could not be had, unless that was because of losers whose threads had not let go of
/// it yet.
pub(super) fn look(found: &mut Findings, phase: &Phase, crowd: &Crowd<'_>) {
    let room = crowd.place().room();
    for (index, member) in crowd.members.iter().enumerate() {
        if member.load > room {
            overlap(found, phase, member.record, describe_overlap(crowd, member));
            continue;
        }
        if member.record.grant.alone {
            continue;
        }
        let losers = || crowd.members[..index].iter().filter(|loser| lingers(loser, member));
        let lingering: u32 = losers().map(|loser| loser.record.weight()).sum();
        let first = losers().filter_map(|loser| loser.record.loss_while_held());
        match first.map(|loss| loss.at).min() {
            Some(lost) if member.load + lingering > room => {
                let lag = difference(member.record.grant.at, lost);
                found.witness_lags.push(lag);
            }
            _ => {
                let text = format!("{}, but no holder is known", describe(member.record));
                overlap(found, phase, member.record, text);
            }
        }
    }
}

/// Had the loser lost its hold, and not unlocked it, when the other was granted its own?
fn lingers(loser: &Member<'_>, granted: &Member<'_>) -> bool {
    let at = granted.record.grant.at;
    let lost = loser.record.loss_while_held();
    let left = loser.record.left;
    lost.is_some_and(|loss| loss.at <= at) && left.is_none_or(|left| left > at)
}

fn overlap(found: &mut Findings, phase: &Phase, record: &Record, text: String) {
    let expected = phase.rules.expect_overlaps();
    let tally = found.of(record.grant.kind);
    if expected {
        tally.overlaps_expected += 1;
        found.overlaps_expected += 1;
    } else {
        tally.overlaps += 1;
        found.overlaps += 1;
        found.violations.push(format!("overlap: {text}"));
    }
}

fn describe_overlap(crowd: &Crowd<'_>, member: &Member<'_>) -> String {
    let granted = member.record.grant.at;
    let rivals = member.beside.iter().map(|&index| &crowd.members[index]);
    let rivals = rivals.map(|rival| {
        let end = match rival.end {
            Nanos::MAX => "had not ended".to_owned(),
            end => format!("ended {} ms later", millis(difference(end, granted))),
        };
        let grant = &rival.record.grant;
        let after = millis(difference(granted, grant.at));
        let (hold, op, nodes) = (grant.hold, &grant.op, grant.nodes.join(", "));
        format!("{after} ms after {hold} ({op}, {nodes}), which {end}")
    });
    let rivals: Vec<_> = rivals.collect();
    format!("{}, {}", describe(member.record), rivals.join("; "))
}

fn describe(record: &Record) -> String {
    let grant = &record.grant;
    let witness = if grant.alone { "free" } else { "taken" };
    format!(
        "{} ({}, {}) was granted {} at {} ns with the witness {witness}",
        grant.hold,
        grant.op,
        grant.nodes.join(", "),
        lock_path(grant.path),
        grant.at,
    )
}
