//! Checks, by the heartbeats of a process, that no call is missing long after its deadline.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::clock::{Nanos, difference};
use crate::paths::lock_path;
use crate::protocol::{InFlight, Incarnation, WorkerId};
use crate::settings::BEAT;

/// A call that is so much later than its deadline is not only late.
const HUNG_AFTER: Duration = Duration::from_secs(5);
/// A process that tells nothing for so long stood still, and so did its calls.
const STOOD_STILL: Duration = BEAT.saturating_mul(3);

#[derive(Default)]
pub(super) struct HungCalls {
    awake: HashMap<Incarnation, Awake>,
    /// Calls that were told of, by their begin.
    known: HashSet<(WorkerId, Nanos)>,
}

#[derive(Clone, Copy)]
struct Awake {
    /// Since it last stood still.
    since: Nanos,
    last_beat: Nanos,
}

impl HungCalls {
    /// At a beat of a process, with the calls that it is in: those that hang.
    pub(super) fn look(
        &mut self,
        incarnation: Incarnation,
        at: Nanos,
        calls: &[InFlight],
    ) -> Vec<String> {
        let since = match self.awake.get(&incarnation) {
            Some(awake) if difference(at, awake.last_beat) < nanos(STOOD_STILL) => awake.since,
            _ => at,
        };
        let last_beat = at;
        self.awake.insert(incarnation, Awake { since, last_beat });
        let (process, incarnation) = incarnation;
        let mut hung = Vec::new();
        for call in calls {
            let thread = call.thread;
            let id = WorkerId { process, incarnation, thread };
            // A call of a process that was stopped may have been about to return for all that time.
            let late = call.deadline.map(|end| difference(at, end.max(since)));
            if late.is_some_and(|late| late > nanos(HUNG_AFTER))
                && self.known.insert((id, call.since))
            {
                hung.push(format!("{id} {}", describe(at, call)));
            }
        }
        hung
    }
}

pub(super) fn describe(at: Nanos, call: &InFlight) -> String {
    let InFlight { op, path, .. } = call;
    let seconds = difference(at, call.since) as f64 / 1e9;
    let path = lock_path(*path);
    format!("in {op} at {path} for {seconds:.1} s")
}

fn nanos(span: Duration) -> i64 {
    span.as_nanos() as i64
}
