//! Judges lists of all locks: what they show of each contender was true at some instant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zoolock::{Contender, Kind};

use super::tree::{is_of_queue, number_of};
use super::{DATA, Node, Witness, judged, parent, witness};
use crate::client::node_of;
use crate::plan::Place;
use crate::raw;

/// A contender: the path of its lock, the path of its node, and its token.
type Key = (String, String, u64);

/// The contenders of all locks, and whether each holds its lock. Unknown if the numbers of its queue do not tell.
type Truth = BTreeMap<Key, Option<bool>>;

/// What was true of the locks.
#[derive(Debug, Default)]
pub(super) struct Lists {
    is_watched: bool,
    /// All contenders that are or were there.
    pasts: BTreeMap<Key, Past>,
    /// Paths of semaphores, also of those that were used for other locks, too.
    counted: BTreeSet<String>,
}

/// What was true of a contender.
#[derive(Debug, Default, Clone, Copy)]
struct Past {
    waited: bool,
    held: bool,
}

impl Witness {
    /// Notes the state of all locks after a transaction.
    pub(super) fn note_locks(&mut self) {
        if !self.lists.is_watched {
            return;
        }
        for (key, holds) in self.truth() {
            let past = self.lists.pasts.entry(key).or_default();
            past.waited |= holds != Some(true);
            past.held |= holds != Some(false);
        }
    }

    fn truth(&mut self) -> Truth {
        let is_lock = |path: &&str| !path.starts_with(raw::ROOT) && *path != DATA;
        let directories: BTreeSet<String> =
            self.nodes.keys().map(|path| parent(path)).filter(is_lock).map(str::to_owned).collect();
        let counted = self.nodes.keys().filter_map(|path| path.strip_suffix("/leases"));
        self.lists.counted.extend(counted.map(str::to_owned));
        let mut truth = Truth::new();
        for directory in &directories {
            let base = directory.strip_suffix("/locks").or(directory.strip_suffix("/leases"));
            match base.filter(|base| self.is_semaphore(base)) {
                Some(base) => truth.extend(self.part(base, directory)),
                None => truth.extend(self.queue(directory)),
            }
        }
        truth.extend(self.singles());
        truth
    }

    /// Returns whether the path is that of a semaphore with contenders, and of no other lock.
    fn is_semaphore(&self, path: &str) -> bool {
        let (turns, leases) = (format!("{path}/locks"), format!("{path}/leases"));
        self.nodes.contains_key(&leases)
            && self.children(path).all(|(name, _)| !contends(name))
            && (self.children(&turns).any(|(name, _)| contends(name))
                || self.children(&leases).any(|(name, _)| is_permit(name)))
    }

    fn queue(&self, directory: &str) -> Truth {
        let all: Vec<_> = self.children(directory).filter(|(name, _)| contends(name)).collect();
        let is_known = all.iter().all(|(name, _)| is_normal(name));
        let is_behind = |name: &str| {
            let ahead = |other: &str| number_of(other) < number_of(name);
            all.iter().any(|(other, _)| ahead(other) && !(is_read(name) && is_read(other)))
        };
        let key = |name: &str, node: &Node| {
            (directory.to_owned(), format!("{directory}/{name}"), token(name, node))
        };
        let state = |name: &str| is_known.then(|| !is_behind(name));
        all.iter().map(|(name, node)| (key(name, node), state(name))).collect()
    }

    /// Returns the contenders in one of a semaphore's directories.
    fn part(&self, base: &str, directory: &str) -> Truth {
        let turns = self.queue(&format!("{base}/locks"));
        let first =
            turns.iter().find(|(_, holds)| **holds == Some(true)).map(|((_, node, _), _)| node);
        let first = first.and_then(|node| Some((node, self.nodes.get(node)?.owner)));
        let is_known = turns.values().all(Option::is_some);
        let acquires = |name: &str, node: &Node| {
            first.is_some_and(|(turn, owner)| group(turn) == group(name) && owner == node.owner)
        };
        let is_turn = directory.ends_with("/locks");
        let its = self.children(directory);
        let its = its.filter(|(name, _)| if is_turn { contends(name) } else { is_permit(name) });
        its.map(|(name, node)| {
            let key = (base.to_owned(), format!("{directory}/{name}"), node.czxid as u64);
            let holds = match is_turn {
                true => Some(false),
                false => is_known.then(|| !acquires(name, node)),
            };
            (key, holds)
        })
        .collect()
    }

    fn singles(&self) -> impl Iterator<Item = (Key, Option<bool>)> {
        let is_single = |(path, node): &(&String, &Node)| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_ours = node.said.split_once(' ').is_some_and(|(id, _)| id.len() == 36);
            let is_other = contends(name) || parent(path).ends_with("/leases");
            node.owner != 0 && is_ours && !is_other && !path.starts_with(raw::ROOT)
        };
        let key = |(path, node): (&String, &Node)| {
            // Somebody may have written anything.
            let holds = (!node.is_written).then_some(true);
            ((path.clone(), path.clone(), node.czxid as u64), holds)
        };
        self.nodes.iter().filter(is_single).map(key)
    }
}

impl Lists {
    /// Returns whether the looks at a path may tell of states between two transactions: it was a semaphore, whose
    /// directories are read one after the other.
    fn is_doubtful(&self, lock: &str) -> bool {
        let base = lock.strip_suffix("/locks").or(lock.strip_suffix("/leases")).unwrap_or(lock);
        self.counted.contains(base)
    }
}

/// Has the witness note the state of locks from now on.
pub(crate) fn watched() {
    witness(|witness| {
        witness.lists.is_watched = true;
        witness.note_locks();
    });
}

/// Checks a contender from a list of all locks.
pub(crate) fn listed(who: &str, contender: &Contender) {
    let key = (contender.path.clone(), node_of(contender), contender.token);
    judged(|witness| {
        let lists = &witness.lists;
        let was_so = lists.pasts.get(&key).is_some_and(|past| match contender.holds {
            true => past.held,
            false => past.waited,
        });
        let is_wrong = !was_so && !lists.is_doubtful(&key.0);
        is_wrong.then(|| format!("{who} has listed what never was: {contender:?}"))
    });
}

/// Checks the contenders of one lock, which were asked for at `begun`: all that were there are listed, in the order of
/// their numbers, and none holds the lock behind somebody else.
pub(crate) fn in_order(who: &str, lock: &str, found: &[Contender], begun: Duration) {
    judged(|witness| {
        let is_found =
            |name: &str| found.iter().any(|one| one.node.rsplit('/').next() == Some(name));
        let mut there = witness.children(lock).filter(|(name, node)| {
            contends(name) && node.made + witness.lag < begun && !is_found(name)
        });
        let missing = there.next().map(|(name, _)| format!("{who} does not find {name} at {lock}"));
        // Permits are in no order.
        let is_queued = |one: &&Contender| {
            one.kind != Kind::Foreign && !one.node.starts_with("leases/") && is_normal(&one.node)
        };
        let queued: Vec<_> = found.iter().filter(is_queued).collect();
        let is_wrong = |one: &Contender, next: &Contender| {
            let are_reads = is_read(&one.node) && is_read(&next.node);
            next.sequence < one.sequence || next.holds && !are_reads && next.sequence > one.sequence
        };
        let pair = queued.windows(2).find(|pair| is_wrong(pair[0], pair[1]));
        missing.or_else(|| pair.map(|pair| format!("{who} finds {pair:?} in this order")))
    });
}

/// Returns whether the numbers of all nodes at a place tell their positions.
pub(crate) fn are_normal(place: Place) -> bool {
    witness(|witness| witness.children(place.path()).all(|(name, _)| is_normal(name)))
}

pub(super) fn contends(name: &str) -> bool {
    let markers = ["lock-", "__READ__", "__WRIT__"];
    let number = |length| {
        let at = name.len().checked_sub(length)?;
        let (head, number) = name.split_at_checked(at)?;
        let is_one = number.parse::<i32>().is_ok() && !number.starts_with('+');
        (is_one && markers.iter().any(|marker| head.ends_with(marker))).then_some(())
    };
    [10, 11].into_iter().find_map(number).is_some()
}

pub(super) fn is_permit(name: &str) -> bool {
    name.rsplit_once("lease-").is_some_and(|(_, number)| number.parse::<i32>().is_ok())
}

fn is_normal(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    !contends(name)
        || number_of(name).is_some_and(|number| number < i32::MAX as u64 && !name.contains("--"))
}

fn is_read(name: &str) -> bool {
    name.contains("__READ__")
}

/// Returns the last group of the id in a name, which ties a permit to its turn.
fn group(name: &str) -> Option<&str> {
    let name = name.rsplit('/').next().unwrap_or_default();
    is_of_queue(name).then(|| name.get(27..39)).flatten()
}

/// Returns the token of a contender. A read below a write has the write's in its id.
fn token(name: &str, node: &Node) -> u64 {
    let digits = name.get(22..39).map(|end| end.replace('-', ""));
    let custom = digits.filter(|_| is_read(name) && name.get(17..18) == Some("8"));
    let written = custom.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    written.map_or(node.czxid as u64, |written| written & (u64::MAX >> 2))
}
