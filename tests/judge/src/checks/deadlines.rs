//! Whether calls returned in time.

use super::{Case, Findings};
use crate::time::{difference, millis, nanos};

pub(super) fn check(found: &mut Findings, case: Case<'_>) {
    let history = case.history;
    if !case.rules.punctual {
        return;
    }
    found.slept = history.naps.iter().map(|late| *late as i64).collect();
    // The delay of a thread that only sleeps is the machine's fault.
    let most = nanos(case.margins.overshoot) + found.slept.iter().max().copied().unwrap_or(0);
    for (by, call) in &history.calls {
        let Some(deadline) = call.deadline else {
            continue;
        };
        let late = difference(call.ended, deadline);
        if late >= 0 && call.op.contains("try_") {
            found.overshoots.push(late);
            let latest = found.latest.take();
            found.latest = latest.max(Some((late, call.op.to_string())));
        }
        if late > most {
            found.violations.push(format!(
                "too late: {by} came back from {} at {} {} ms after its deadline",
                call.op,
                case.name(call.path),
                millis(late)
            ));
        }
    }
}
