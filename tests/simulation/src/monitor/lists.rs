//! Checks lists of contenders: all that are listed existed, none is missing, and their order is correct.

use std::time::Duration;

use zoolock::Contender;

use super::tree::{name_of, number_of};
use super::{Node, NodeId, check, monitor, violation};
use crate::client::node_of;
use crate::plan::Place;

/// Checks that each listed contender of a lock existed at some time since `begun`, when the list was requested.
pub(crate) fn listed(who: &str, lock: &str, contenders: &[Contender], begun: Duration) {
    for contender in contenders {
        let node = (node_of(contender), contender.token);
        if !monitor(|monitor| monitor.were.contains(&node)) {
            violation(format!("{who} has listed a contender that never existed: {contender:?}"));
        }
    }
    in_order(who, lock, contenders, begun);
}

/// Checks a list of a lock's contenders, requested at `begun`: all that existed are listed, in the order of their
/// numbers, and no holder is behind a contender that does not hold.
pub(crate) fn in_order(who: &str, lock: &str, found: &[Contender], begun: Duration) {
    check(|monitor| {
        let is_found = |name: &str| found.iter().any(|one| name_of(&one.node) == name);
        let mut there = monitor.children(lock).filter(|(name, node)| {
            contends(name) && node.made + monitor.lag < begun && !is_found(name)
        });
        let missing = there.next().map(|(name, _)| format!("{who} does not find {name} at {lock}"));
        // Permits have no order.
        let is_queued = |one: &&Contender| !one.node.starts_with("leases/") && is_normal(&one.node);
        let queued: Vec<_> = found.iter().filter(is_queued).collect();
        let is_wrong = |one: &Contender, next: &Contender| {
            let are_reads = is_read(&one.node) && is_read(&next.node);
            next.sequence < one.sequence || next.holds && !are_reads && next.sequence > one.sequence
        };
        let pair = queued.windows(2).find(|pair| is_wrong(pair[0], pair[1]));
        missing.or_else(|| pair.map(|pair| format!("{who} finds {pair:?} in this order")))
    });
}

/// Returns whether the numbers of all nodes at a place show their order.
pub(crate) fn are_normal(place: Place) -> bool {
    monitor(|monitor| monitor.children(place.path()).all(|(name, _)| is_normal(name)))
}

pub(super) fn contends(name: &str) -> bool {
    let markers = ["lock-", "__READ__", "__WRIT__"];
    let is_it = |length| {
        let (head, number) = name.split_at_checked(name.len().checked_sub(length)?)?;
        let is_one = number.parse::<i32>().is_ok() && !number.starts_with('+');
        Some(is_one && markers.iter().any(|marker| head.ends_with(marker)))
    };
    is_it(10) == Some(true) || is_it(11) == Some(true)
}

pub(super) fn is_permit(name: &str) -> bool {
    name.rsplit_once("lease-").is_some_and(|(_, number)| number.parse::<i32>().is_ok())
}

fn is_normal(name: &str) -> bool {
    let name = name_of(name);
    !contends(name)
        || number_of(name).is_some_and(|number| number < i32::MAX as u64 && !name.contains("--"))
}

fn is_read(name: &str) -> bool {
    name.contains("__READ__")
}

/// Returns a contender with its token. For a read below a write, its id contains the token, which is that of the write.
pub(super) fn contender(path: &str, node: &Node) -> NodeId {
    let name = name_of(path);
    let digits = name.get(22..39).map(|end| end.replace('-', ""));
    let custom = digits.filter(|_| is_read(name) && name.get(17..18) == Some("8"));
    let written = custom.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    let token = written.map_or(node.czxid as u64, |written| written & (u64::MAX >> 2));
    (path.to_owned(), token)
}
