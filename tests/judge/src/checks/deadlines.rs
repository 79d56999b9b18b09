//! Whether calls returned in time.

use super::{Case, Findings};
use crate::time::{difference, millis, nanos};

pub(super) fn check(found: &mut Findings, case: Case<'_>) {
    let history = case.history;
    if !case.rules.punctual {
        return;
    }
    // The delay of a thread that only sleeps is the machine's fault.
    let slept = history.naps.iter().max().copied().unwrap_or(0) as i64;
    let most = nanos(case.margins.overshoot) + slept;
    for (by, call) in &history.calls {
        let Some(deadline) = call.deadline else { continue };
        let late = difference(call.ended, deadline);
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
