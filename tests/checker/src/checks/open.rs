//! Checks for calls that are still waiting at the end of the history, although no holder stands in their way.

use super::timeline::Timeline;
use super::{Case, Findings};
use crate::event::WorkerId;
use crate::time::{after, difference, millis};

/// Reports the waiters of a lock if each of them would fit beside the holders. If one would not fit, it may be the
/// first in the queue and block the others.
pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let Some(over) = case.history.over else { return };
    let (history, lock) = (case.history, timeline.lock);
    let is_alive = |by: &WorkerId| !history.deaths.contains_key(&by.process);
    let calls = history.open.iter().filter(|(_, call)| call.path == timeline.path);
    let waiting = calls.filter(|(by, call)| is_alive(by) && call.mode.is_some());
    let mut waiting: Vec<_> = waiting.collect();
    let (ended, held): (Vec<_>, Vec<_>) =
        timeline.entries.iter().partition(|entry| entry.end <= over);
    let held: u32 = held.iter().map(|entry| entry.units).sum();
    let wanted = waiting.iter().filter_map(|(_, call)| call.mode).map(|mode| lock.what.units(mode));
    if wanted.max().is_none_or(|most| held.saturating_add(most) > lock.what.capacity()) {
        return;
    }
    let last_end = ended.iter().map(|entry| entry.end).max().unwrap_or(history.begun);
    waiting.sort_by_key(|(by, _)| **by);
    for (by, call) in waiting {
        // Once the last hold has ended and its own call has begun, a waiter only needs answers to its own requests.
        let since = last_end.max(call.started);
        if after(since, case.margins.let_in) < over {
            let (op, lock, time) = (&call.op, &lock.name, millis(difference(over, since)));
            found.violations.push(format!(
                "not let in: {by} waits in {op} at {lock}, and has been free to enter for {time} ms"
            ));
        }
    }
}
