//! Checks whether calls returned by their deadlines.

use super::{Case, Findings};
use crate::time::{difference, millis, nanos};

pub(super) fn check(found: &mut Findings, case: Case<'_>) {
    let history = case.history;
    if !case.rules.punctual {
        return;
    }
    let overshoot = nanos(case.margins.overshoot);
    // If even a thread that only sleeps wakes late, the machine is the cause of that much delay.
    let most = overshoot + history.naps.iter().max().copied().unwrap_or(0) as i64;
    for (by, call) in &history.calls {
        let late = call.deadline.map(|deadline| difference(call.ended, deadline));
        if let Some(late) = late.filter(|late| *late > most) {
            let (op, lock, late) = (&call.op, case.name(call.path), millis(late));
            let text = format!("{by} returned from {op} at {lock} {late} ms after its deadline");
            found.violations.push(format!("too late: {text}"));
        }
    }
    let Some(over) = history.over else { return };
    for (by, call) in &history.open {
        let late = call.deadline.map(|deadline| difference(over, deadline));
        let has_died = history.deaths.contains_key(&by.process);
        if let Some(late) = late.filter(|late| *late > overshoot && !has_died) {
            let (op, lock, late) = (&call.op, case.name(call.path), millis(late));
            let text = format!("{by} is in {op} at {lock} {late} ms after its deadline");
            found.violations.push(format!("hung call: {text}"));
        }
    }
}
