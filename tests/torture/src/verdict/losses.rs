//! Holds that were lost: how long before the next grant, whether their owners were told, and
//! whether that phase excuses it.

use super::Findings;
use super::crowd::{Crowd, Member};
use crate::clock::difference;
use crate::evidence::Evidence;
use crate::message::Unlocked;
use crate::phases::Phase;
use crate::places::lock_path;
use crate::setting::TIMEOUT;

/// A machine that lets threads wait for so long may have cost a hold by itself: of a lease of about
/// half the session timeout not much is left.
const MACHINE_TOO_LATE: u64 = TIMEOUT.as_nanos() as u64 / 25;

/// The loss of a hold is nobody's fault. `survives` if it may go on with the next connection.
fn excused(survives: bool, phase: &Phase, evidence: &Evidence) -> bool {
    let machine = evidence.naps.iter().any(|&late| late > MACHINE_TOO_LATE);
    machine || phase.breaks.excuse(survives)
}

pub(super) fn look(
    found: &mut Findings,
    phase: &Phase,
    evidence: &Evidence,
    crowd: &Crowd<'_>,
    survives: bool,
) {
    for (index, member) in crowd.members.iter().enumerate() {
        let record = member.record;
        let Some(loss) = record.loss_while_held() else {
            continue;
        };
        let (kind, hold) = (record.grant.kind, record.grant.hold);
        found.losses += 1;
        found.of(kind).losses += 1;
        if let Some(next) = next_in_need(crowd, index) {
            let margin = difference(next.record.grant.at, loss.at);
            found.margins.push(margin);
            let least = &mut found.of(kind).margin;
            *least = Some(least.map_or(margin, |least| least.min(margin)));
        }
        if let Some(Unlocked::Fine) = record.unlocked {
            found.violations.push(format!(
                "a loss was kept quiet: the unlock of {hold} said nothing of it ({})",
                loss.reason
            ));
        }
        if !excused(survives, phase, evidence) {
            found.violations.push(format!(
                "lost for nothing: {hold} ({}) at {} ({})",
                record.grant.op,
                lock_path(crowd.path),
                loss.reason
            ));
        }
    }
}

/// The first grant after that of a hold that there is no room for beside it.
fn next_in_need<'c>(crowd: &'c Crowd<'_>, lost: usize) -> Option<&'c Member<'c>> {
    let (room, weight) = (crowd.place().room(), crowd.members[lost].record.weight());
    let hold = crowd.members[lost].hold();
    crowd.members[lost + 1..].iter().find(|next| {
        let own = next.record.grant.under == Some(hold);
        let others = match next.beside.contains(&lost) {
            true => next.load.saturating_sub(weight),
            false => next.load,
        };
        !own && others + weight > room
    })
}

/// Calls for several locks that lost one of them before they had all.
pub(super) fn look_at_waiting(found: &mut Findings, phase: &Phase, evidence: &Evidence) {
    let lost = evidence.lost_while_waiting.iter();
    for (by, kind) in lost.filter(|_| !excused(true, phase, evidence)) {
        let text = format!("lost for nothing: a part of what {by} waited for ({kind})");
        found.violations.push(text);
    }
}
