//! Did the calls come back in time?

use super::Findings;
use crate::clock::{difference, millis};
use crate::history::History;
use crate::nemesis::Phase;
use crate::paths::lock_path;

/// So much later than its deadline no call may return, beside what the machine is late itself.
const MOST_OVERSHOOT: i64 = 1_000_000_000;

pub(super) fn check(found: &mut Findings, phase: &Phase, history: &History) {
    if !phase.rules.expect_punctuality() {
        return;
    }
    found.slept = history.naps.iter().map(|nap| nap.late as i64).collect();
    // What a thread that only sleeps comes too late is the machine's doing.
    let most = MOST_OVERSHOOT + found.slept.iter().max().copied().unwrap_or(0);
    for (by, call) in &history.calls {
        let Some(deadline) = call.deadline else {
            continue;
        };
        let late = difference(call.ended, deadline);
        if late >= 0 && call.op.contains("try_") {
            found.overshoots.push(late);
            let latest = found.latest.take();
            found.latest = latest.max(Some((late, call.op.clone())));
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
