//! Judges `LockOptions::lock_delay`: a record names each holder, and none follows a lost one too soon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zookeeper::testing::ensemble::{Change, ChangeKind, Committed};
use zoolock::Hold;

use super::{Witness, id_of, judged, parent};
use crate::plan::Kind;

/// End of a record's path.
const SUFFIX: &str = ".lock-delay";

/// What is known of the records.
#[derive(Default)]
pub(crate) struct Delays {
    /// The records, by the directory of their locks.
    records: BTreeMap<String, Record>,
    /// When the last delay of each directory was over.
    over: BTreeMap<String, Duration>,
    /// The directories whose records operators have deleted.
    meddled: BTreeSet<String>,
    /// Nodes that have taken their record along.
    released: BTreeSet<String>,
}

struct Record {
    /// The holder's node.
    node: String,
    /// The session that wrote the record.
    holder: i64,
    delay: Duration,
    /// When that node went.
    lost: Option<Duration>,
}

impl Delays {
    /// Returns whether the record of this directory names this node.
    pub(super) fn names(&self, directory: &str, node: &str) -> bool {
        self.records.get(directory).is_some_and(|record| record.node == node)
    }
}

/// Returns the path of a lock's record.
pub(crate) fn record_of(directory: &str) -> String {
    format!("{directory}{SUFFIX}")
}

/// Returns the directory of the lock whose record this is.
pub(crate) fn directory_of(path: &str) -> Option<&str> {
    path.strip_suffix(SUFFIX)
}

/// Reads a record: whether its holder is lost, its delay, and its node's name.
fn parse(data: &[u8]) -> Option<(bool, Duration, &str)> {
    let mut words = str::from_utf8(data).ok()?.split(' ');
    let is_lost = match words.next()? {
        "held" => false,
        "lost" => true,
        _ => return None,
    };
    Some((is_lost, Duration::from_millis(words.next()?.parse().ok()?), words.next()?))
}

impl Witness {
    /// Checks a change of the tree by the rules of records.
    pub(super) fn judge_record(&mut self, change: &Change, one: &Committed) -> Option<String> {
        let now = kernel::elapsed();
        let Some(directory) = directory_of(&change.path) else {
            if change.kind == ChangeKind::Deleted {
                let mut records = self.delays.records.values_mut();
                let its = records.find(|record| *record.node == *change.path);
                its.into_iter().for_each(|record| record.lost = Some(now));
            }
            return None;
        };
        let last = self.delays.records.remove(directory);
        let data = match &change.kind {
            ChangeKind::Created { data, .. } | ChangeKind::DataSet(data) => data,
            ChangeKind::Deleted => {
                if one.session == 0 {
                    self.delays.meddled.insert(directory.to_owned());
                    return None;
                }
                let is_released = last.is_none_or(|record| {
                    let goes = |change: &Change| {
                        change.kind == ChangeKind::Deleted && *change.path == record.node
                    };
                    let is_whole = one.changes.iter().any(goes);
                    is_whole && record.holder == one.session && {
                        self.delays.released.insert(record.node)
                    }
                });
                let problem = || format!("the record of {directory} is deleted without its node");
                return (!is_released).then(problem);
            }
            ChangeKind::AclSet => return None,
        };
        let Some((is_lost, delay, name)) = parse(data) else {
            return Some(format!("the record of {directory} is {data:?}"));
        };
        let node = format!("{directory}/{name}");
        let owner = self.nodes.get(&node).map(|node| node.owner);
        let lost = last.and_then(|last| last.lost.map(|lost| (lost, last.delay)));
        let problem = if is_lost {
            owner.map(|_| {
                format!("{node} is there, and the record of {directory} takes it for lost")
            })
        } else if owner != Some(one.session) {
            Some(format!("the record of {directory} names {node}, which is of {owner:x?}"))
        } else {
            let is_early = |(lost, delay): &(Duration, Duration)| now < *lost + *delay;
            lost.filter(is_early).map(|(lost, delay)| {
                format!(
                    "{node} follows {:?} after a lost holder, and not after {delay:?}",
                    now - lost
                )
            })
        };
        if !is_lost && lost.is_some() {
            kernel::count("end: a lock-delay");
            self.delays.over.insert(directory.to_owned(), now);
        }
        let lost = lost.map(|(lost, _)| lost).filter(|_| is_lost);
        self.delays
            .records
            .insert(directory.to_owned(), Record { node, holder: one.session, delay, lost });
        problem
    }

    /// Returns when the last delay in this directory was over.
    pub(super) fn delayed(&self, directory: &str) -> Option<Duration> {
        self.delays.over.get(directory).copied()
    }
}

/// Checks that a record names a hold with a lock-delay.
pub(crate) fn names(kind: Kind, hold: &Hold) {
    let (path, token) = id_of(kind, hold);
    judged(|witness| {
        let (delays, directory) = (&witness.delays, hold.path());
        let is_named = delays.names(directory, &path) || delays.meddled.contains(directory);
        let is_unnamed = witness.node(&path, token).is_some() && !is_named;
        is_unnamed.then(|| format!("{path} is held, and no record says so"))
    });
}

/// Checks that no record names a node that its owner has released.
pub(crate) fn released(path: &str) {
    judged(|witness| {
        let is_named = witness.delays.names(parent(path), path);
        is_named.then(|| format!("{path} was released, and counts as lost"))
    });
}

/// Checks that a hold which its owner has lost did not take its record along.
pub(crate) fn lost(path: &str) {
    judged(|witness| {
        let is_released = witness.delays.released.contains(path);
        is_released.then(|| format!("{path} was lost, and took its record along"))
    });
}
