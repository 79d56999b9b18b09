//! Checks `Wait::for_connection`: a call ends when its allowed time without a connection is over, and not earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel::Process;

use super::{monitor, violation};
use crate::client::{SLACK, has_stalled};

/// The connections of each process, and all connections that have ended, of any process.
#[derive(Default)]
pub(crate) struct Outages {
    by_process: BTreeMap<Process, Connections>,
    ended: BTreeSet<u64>,
}

#[derive(Default)]
struct Connections {
    /// Connections that have a session and have not ended.
    open: BTreeSet<u64>,
    /// The periods without a connection, each with its start and its end. The last period may not have ended yet.
    outages: Vec<(Duration, Option<Duration>)>,
}

pub(crate) fn connected(process: Process, socket: u64) {
    monitor(|monitor| {
        // The process may have given up this connection already.
        if monitor.outages.ended.contains(&socket) {
            return;
        }
        let its = monitor.outages.by_process.entry(process).or_default();
        its.open.insert(socket);
        if its.outages.is_empty() {
            its.outages.push((Duration::ZERO, None));
        }
        if let Some((_, end @ None)) = its.outages.last_mut() {
            *end = Some(kernel::elapsed());
        }
    });
}

/// Records that a connection has ended, which its process has detected.
pub(crate) fn broken(socket: u64) {
    monitor(|monitor| {
        monitor.outages.ended.insert(socket);
        for its in monitor.outages.by_process.values_mut() {
            if its.open.remove(&socket) && its.open.is_empty() {
                its.outages.push((kernel::elapsed(), None));
            }
        }
    });
}

pub(super) fn has_lost_one(outages: &Outages, process: Process) -> bool {
    outages.by_process.get(&process).is_some_and(|its| its.outages.len() > 1)
}

/// Returns whether a process has been disconnected since `since` without interruption.
pub(crate) fn is_cut_off(process: Process, since: Duration) -> bool {
    monitor(|monitor| {
        let last = monitor.outages.of(process).last();
        last.is_none_or(|(from, to)| to.is_none() && *from <= since)
    })
}

/// Returns whether a process has been disconnected at any time since `since`.
pub(crate) fn was_cut_off(process: Process, since: Duration) -> bool {
    monitor(|monitor| {
        let all = monitor.outages.of(process);
        all.is_empty() || all.iter().any(|(_, to)| to.is_none_or(|to| to >= since))
    })
}

impl Outages {
    fn of(&self, process: Process) -> &[(Duration, Option<Duration>)] {
        self.by_process.get(&process).map_or(&[], |its| &its.outages)
    }
}

/// Checks a call that began at `begun`, may wait for `limit` while disconnected, and then needs up to `more` to return.
pub(crate) fn check(begun: Duration, limit: Duration, more: Duration, is_disconnected: bool) {
    let (process, now) = (kernel::own_process(), kernel::elapsed());
    let longest = monitor(|monitor| {
        let its = monitor.outages.of(process);
        let within = its.iter().map(|(from, to)| {
            let to = to.unwrap_or(now);
            to.saturating_sub((*from).max(begun))
        });
        // A process that has never had a session has never been connected either.
        if its.is_empty() { now - begun } else { within.max().unwrap_or_default() }
    });
    let is_early = is_disconnected && longest + SLACK < limit;
    let is_late = longest > limit + more + SLACK;
    if (is_early || is_late) && !has_stalled(process, begun) {
        let what = format!("a call that waits {limit:?} without a connection");
        violation(format!("client {}: {what} has ended after {longest:?}", process.0));
    }
}
