//! Calls that are open at the end of the history, though nobody is in their way.

use super::timeline::{Entry, Timeline};
use super::{Case, Findings};
use crate::time::{after, difference, millis};

/// Waiters that would all fit beside the holders. While one of them does not fit, it may be first in the
/// queue.
pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let Some(over) = case.history.over else { return };
    let (history, lock) = (case.history, timeline.lock);
    let alive = |by| !history.deaths.contains_key(&by);
    let mut waiting: Vec<_> = history
        .open
        .iter()
        .filter(|(by, call)| call.path == timeline.path && alive(by.process))
        .filter_map(|(by, call)| Some((by, call, call.mode?)))
        .collect();
    let ends = |entry: &&Entry<'_>| entry.end <= over;
    let held: u32 =
        timeline.entries.iter().filter(|entry| !ends(entry)).map(|entry| entry.units).sum();
    let fits = |units: u32| held.saturating_add(units) <= lock.what.capacity();
    if waiting.is_empty() || !waiting.iter().all(|&(_, _, mode)| fits(lock.what.units(mode))) {
        return;
    }
    let ended = timeline.entries.iter().filter(ends);
    let last_end = ended.map(|entry| entry.end).max().unwrap_or(history.begun);
    waiting.sort_by_key(|(by, ..)| **by);
    for (by, call, _) in waiting {
        // Each waits for its own answers at least.
        if after(last_end.max(call.started), case.margins.let_in) < over {
            found.violations.push(format!(
                "not let in: {by} waits in {} at {}, where nobody is in its way for {} ms",
                call.op,
                lock.name,
                millis(difference(over, last_end.max(call.started))),
            ));
        }
    }
}
