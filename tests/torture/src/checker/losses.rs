//! Holds that were lost: how long before the next grant, whether their owners were told, and
//! whether that phase excuses it.

use super::Findings;
use super::timeline::{Entry, Timeline};
use crate::clock::difference;
use crate::history::History;
use crate::nemesis::Phase;
use crate::paths::lock_path;
use crate::protocol::Unlocked;
use crate::settings::TIMEOUT;

/// A machine that lets threads wait for so long may have cost a hold by itself: of a lease of about
/// half the session timeout not much is left.
pub(super) const MACHINE_TOO_LATE: u64 = TIMEOUT.as_nanos() as u64 / 25;

/// The loss of a hold is nobody's fault. `survives` if it may go on with the next connection.
fn excused(survives: bool, phase: &Phase, history: &History) -> bool {
    let machine = history.naps.iter().any(|nap| nap.late > MACHINE_TOO_LATE);
    machine || phase.outage.excuse(survives)
}

pub(super) fn check(
    found: &mut Findings,
    phase: &Phase,
    history: &History,
    timeline: &Timeline<'_>,
    survives: bool,
) {
    for (index, entry) in timeline.entries.iter().enumerate() {
        let record = entry.record;
        let Some(loss) = record.loss_while_held() else {
            continue;
        };
        let (kind, hold) = (record.grant.kind, record.grant.hold);
        found.of(kind).losses += 1;
        if let Some(next) = next_in_need(timeline, index) {
            let margin = difference(next.record.grant.at, loss.at);
            let least = &mut found.of(kind).margin;
            *least = Some(least.map_or(margin, |least| least.min(margin)));
        }
        if let Some(Unlocked::Fine) = record.unlocked {
            found.violations.push(format!(
                "a loss was kept quiet: the unlock of {hold} said nothing of it ({})",
                loss.reason
            ));
        }
        if !excused(survives, phase, history) {
            found.violations.push(format!(
                "lost for nothing: {hold} ({}) at {} ({})",
                record.grant.op,
                lock_path(timeline.path),
                loss.reason
            ));
        }
    }
}

/// The first grant after that of a hold that there is no room for beside it.
fn next_in_need<'c>(timeline: &'c Timeline<'_>, lost: usize) -> Option<&'c Entry<'c>> {
    let (capacity, units) = (timeline.at().capacity(), timeline.entries[lost].record.units());
    let hold = timeline.entries[lost].hold();
    timeline.entries[lost + 1..].iter().find(|next| {
        let own = next.record.grant.under == Some(hold);
        let others = match next.beside.contains(&lost) {
            true => next.load.saturating_sub(units),
            false => next.load,
        };
        !own && others + units > capacity
    })
}

/// Calls for several locks that lost one of them before they had all.
pub(super) fn check_waiting(found: &mut Findings, phase: &Phase, history: &History) {
    let lost = history.lost_while_waiting.iter();
    for (by, kind) in lost.filter(|_| !excused(true, phase, history)) {
        let text = format!("lost for nothing: a part of what {by} waited for ({kind})");
        found.violations.push(text);
    }
}
