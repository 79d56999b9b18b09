//! Checks the acquisitions with one node: how many of them follow each other in a process, and what prevents another.

use std::mem;
use std::time::Duration;

use kernel::Process;
use zoolock::{Hold, Result};

use super::{NAMED, check, monitor, queue, violation};
use crate::plan::{Kind, Place};

/// The path of a node, and its fencing token.
pub(crate) type NodeId = (String, u64);

/// A node whose acquisition has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub process: Process,
    pub since: Duration,
}

pub(crate) fn id_of(kind: Kind, hold: &Hold) -> NodeId {
    let path = match kind {
        Kind::Single => hold.path().to_owned(),
        Kind::Semaphore => format!("{}/leases/{}", hold.path(), hold.node()),
        _ => format!("{}/{}", hold.path(), hold.node()),
    };
    (path, hold.fencing_token())
}

/// Records an acquisition, and checks the limits on the number of acquisitions with the same node. Returns whether this
/// is the first acquisition with that node.
pub(crate) fn acquisition(
    place: Place,
    kind: Kind,
    node: &NodeId,
    in_a_row: Option<u32>,
    at_least: Option<Duration>,
) -> bool {
    let ((path, token), now) = (node, kernel::elapsed());
    monitor(|monitor| {
        let (count, allowed) =
            monitor.acquisitions.entry((queue(kind, place), *token)).or_default();
        *count += 1;
        let (count, allowed) = (*count, mem::replace(allowed, in_a_row));
        let is_again = count > 1 && !matches!(kind, Kind::Read | Kind::Semaphore);
        let reserved = monitor.reserved.get(path).copied().filter(|until| *until > now);
        let problem = if allowed.is_some_and(|most| count > most) {
            Some(format!("{count} acquisitions of one process follow each other at {place}"))
        } else if monitor.received_requests.contains(node) {
            Some("its release was requested".to_owned())
        } else if monitor.unanswered.contains(node) {
            Some("a write is in flight".to_owned())
        } else {
            reserved.map(|until| format!("it must be held until {until:?}"))
        };
        if let Some(problem) = problem.filter(|_| is_again) {
            violation(format!("{path} was handed over in its process: {problem}"));
        }
        if let Some(time) = at_least {
            // The actual grant was slightly before `now`.
            let until = (now + time).saturating_sub(Duration::from_millis(100));
            let held = monitor.held.values().find(|held| held.has_node(path));
            let nodes = held.map_or(std::slice::from_ref(node), |held| &held.nodes);
            monitor.reserved.extend(nodes.iter().map(|(node, _)| (node.clone(), until)));
        }
        count == 1
    })
}

pub(crate) fn number_of_a_write() -> usize {
    monitor(|monitor| {
        monitor.writes += 1;
        monitor.writes
    })
}

/// Records the result of a guarded write. If it is unknown, the write may be applied for as long as the node exists; if
/// the write was reported as not applied, it must never be applied.
pub(crate) fn wrote(node: NodeId, data: String, written: &Result<()>) {
    check(|monitor| match written {
        Err(error) if error.is_maybe_done() => {
            monitor.unanswered.insert(node);
            None
        }
        Err(error) => {
            let is_done = monitor.written.contains(&data);
            let problem = is_done.then(|| format!("{data:?} is written, after {error}"));
            monitor.not_written.insert(data);
            problem
        }
        Ok(()) => None,
    });
}

pub(crate) fn acquisitions(place: Place, kind: Kind, token: u64) -> u32 {
    let key = (queue(kind, place), token);
    monitor(|monitor| monitor.acquisitions.get(&key).map_or(0, |(count, _)| *count))
}

/// Returns the text of the identity with this number.
pub fn identity(number: u8) -> String {
    format!("{NAMED}{number}")
}

/// Checks that the node of a hold contains the identity of its lock object, or otherwise of its client.
pub(crate) fn says((path, token): &NodeId, number: Option<u8>) {
    let is_its = |said: &String| match number {
        Some(number) => *said == identity(number),
        None => !said.starts_with(NAMED),
    };
    check(|monitor| {
        let said = monitor.node(path, *token)?.maker().1;
        (!is_its(&said)).then(|| format!("{path} contains {said:?}, but its owner is {number:?}"))
    });
}

/// Records an acquisition without checking it. Any number of acquisitions may follow it.
pub(crate) fn unchecked_acquisition(place: Place, kind: Kind, hold: &Hold) {
    let node = id_of(kind, hold);
    monitor(|monitor| {
        monitor.left.remove(&node);
        let acquisitions = monitor.acquisitions.entry((queue(kind, place), node.1)).or_default();
        *acquisitions = (acquisitions.0 + 1, None);
    });
}

/// Records that a holder has received a revocation request for its node, and checks that someone sent it.
pub(crate) fn received_request(node: &NodeId) {
    check(|monitor| {
        monitor.received_requests.insert(node.clone());
        let (path, token) = node;
        (!monitor.asked.contains(node))
            .then(|| format!("the release of {path} ({token:#x}) was not requested"))
    });
}

pub(crate) fn is_there((path, token): &NodeId) -> bool {
    monitor(|monitor| monitor.node(path, *token).is_some())
}
