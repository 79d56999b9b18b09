//! Judges streams of events: each event was true at some instant, events of a node are in order, and the last state of
//! a stream is that of the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zoolock::{Kind, LockChange, LockEvent};

use super::tree::{is_of_queue, number_of};
use super::{DATA, Node, Witness, judged, parent, witness};
use crate::raw;

/// A contender: the path of its lock, the path of its node, and its token.
pub(crate) type Key = (String, String, u64);

/// The contenders of all locks, and whether each holds its lock. Unknown if the numbers of its queue do not tell.
type Truth = BTreeMap<Key, Option<bool>>;

/// What was true of the locks, and what is.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub(super) is_watched: bool,
    now: Truth,
    /// All contenders that are or were there.
    pasts: BTreeMap<Key, Past>,
    /// Paths of semaphores, also of those that were used for other locks, too.
    counted: BTreeSet<String>,
}

/// What was true of a contender.
#[derive(Debug, Default, Clone, Copy)]
struct Past {
    changed: Duration,
    waited: bool,
    held: bool,
    is_gone: bool,
    /// The holder was overtaken: a read came late that its thread takes below its write; or may have been, as the
    /// numbers do not tell.
    is_overtaken: bool,
}

/// What a stream has told.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) who: String,
    state: BTreeMap<Key, LockEvent>,
    left: BTreeSet<Key>,
}

impl Witness {
    /// Notes the state of all locks after a transaction.
    pub(super) fn note_locks(&mut self) {
        if !self.locks.is_watched {
            return;
        }
        let now = self.truth();
        let before = std::mem::take(&mut self.locks.now);
        let locks = &mut self.locks;
        for (key, holds) in &now {
            let past = locks.pasts.entry(key.clone()).or_default();
            if before.get(key) != Some(holds) {
                past.changed = kernel::elapsed();
            }
            let is_late = before.get(key) == Some(&Some(true)) && *holds == Some(false);
            past.is_overtaken |= is_late || holds.is_none();
            past.waited |= *holds != Some(true);
            past.held |= *holds != Some(false);
        }
        for key in before.into_keys().filter(|key| !now.contains_key(key)) {
            let past = locks.pasts.entry(key).or_default();
            (past.changed, past.is_gone) = (kernel::elapsed(), true);
        }
        locks.now = now;
    }

    fn truth(&mut self) -> Truth {
        let is_lock = |path: &&str| !path.starts_with(raw::ROOT) && *path != DATA;
        let directories: BTreeSet<String> =
            self.nodes.keys().map(|path| parent(path)).filter(is_lock).map(str::to_owned).collect();
        let counted = self.nodes.keys().filter_map(|path| path.strip_suffix("/leases"));
        self.locks.counted.extend(counted.map(str::to_owned));
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

impl Locks {
    /// Returns whether the looks at a path may tell of states between two transactions: it was a semaphore, whose
    /// directories are read one after the other.
    fn is_doubtful(&self, lock: &str) -> bool {
        let base = lock.strip_suffix("/locks").or(lock.strip_suffix("/leases")).unwrap_or(lock);
        self.counted.contains(base)
    }
}

impl Stream {
    /// Checks an event.
    pub(crate) fn judge(&mut self, event: LockEvent) {
        let node = crate::client::node_of(&event.contender);
        let key = (event.contender.path.clone(), node, event.contender.token);
        let (change, who) = (event.change, &self.who);
        kernel::note(|| format!("{who} is told {change:?} of {} ({:#x})", key.1, key.2));
        kernel::count(match change {
            LockChange::Waits => "events: waits",
            LockChange::Holds => "events: holds",
            LockChange::Asked => "events: asked",
            _ => "events: gone",
        });
        judged(|witness| {
            let locks = &witness.locks;
            let past = locks.pasts.get(&key).copied();
            let was_true = past.is_some_and(|past| match change {
                LockChange::Waits => past.waited,
                LockChange::Holds => past.held,
                LockChange::Gone => past.is_gone,
                _ => true,
            });
            let is_overtaken = past.is_some_and(|past| past.is_overtaken);
            // While somebody else's data are in it, a single node is not known for a lock.
            let is_single = key.0 == key.1;
            if locks.is_doubtful(&key.0) || (is_single && is_overtaken) {
                return None;
            }
            match was_true {
                false => Some(format!("{who} is told {change:?} of {key:?}, which was never so")),
                true => self.is_in_order(&key, &event, is_overtaken).err(),
            }
        });
        match change {
            LockChange::Gone => {
                self.state.remove(&key);
                self.left.insert(key);
            }
            LockChange::Asked => {}
            _ => drop(self.state.insert(key, event)),
        }
    }

    /// Checks an event against those before it.
    fn is_in_order(&self, key: &Key, event: &LockEvent, is_overtaken: bool) -> Result<(), String> {
        let (who, change) = (&self.who, event.change);
        let before = self.state.get(key).map(|before| before.change);
        let is_next = match change {
            LockChange::Waits => before.is_none_or(|_| is_overtaken),
            LockChange::Holds => before != Some(LockChange::Holds),
            _ => before.is_some(),
        };
        // Nodes of queues whose numbers tell nothing may be overtaken.
        if (!is_next || self.left.contains(key)) && is_normal(&key.1) {
            return Err(format!("{who} is told {change:?} of {key:?} after {before:?}"));
        }
        let is_other = |(other, seen): &(&Key, &LockEvent)| {
            let (one, other_one) = (&event.contender, &seen.contender);
            let both_read = one.kind == Kind::Read && other_one.kind == Kind::Read;
            *other != key
                && other.0 == key.0
                && seen.change == LockChange::Holds
                && !both_read
                && one.kind != Kind::Permit
                && is_normal(&key.1)
                && is_normal(&other.1)
                && other_one.sequence != one.sequence
        };
        match self.state.iter().find(is_other).filter(|_| change == LockChange::Holds) {
            Some((other, _)) => Err(format!("{who} is told that {key:?} holds beside {other:?}")),
            None => Ok(()),
        }
    }

    /// Returns what differs from the servers' state for longer than `lag`.
    pub(crate) fn difference(&self, lag: Duration) -> Option<String> {
        witness(|witness| {
            let locks = &witness.locks;
            let all: BTreeSet<_> = locks.now.keys().chain(self.state.keys()).collect();
            let now = kernel::elapsed();
            let differs = |key: &&&Key| {
                let seen = self.state.get(**key).map(|seen| seen.change == LockChange::Holds);
                let is_so = match locks.now.get(**key) {
                    None => seen.is_none(),
                    Some(None) => return false,
                    Some(holds) => *holds == seen,
                };
                // A semaphore's directories are read one after the other, and soon again.
                let may_be_late = !lag.is_zero() && locks.is_doubtful(&key.0);
                let changed = locks.pasts.get(**key).map_or(Duration::ZERO, |past| past.changed);
                !is_so && !may_be_late && now - changed >= lag
            };
            let key = all.iter().find(differs)?;
            let (truth, seen) = (locks.now.get(*key), self.state.get(*key).map(|seen| seen.change));
            Some(format!("{} has {seen:?} of {key:?}, and the servers {truth:?}", self.who))
        })
    }
}

/// Has the witness note the state of locks, for a stream of this name.
pub(crate) fn stream(who: String) -> Stream {
    Stream { who, ..Stream::default() }
}

/// Notes that the run has a stream of events.
pub(crate) fn watched() {
    witness(|witness| {
        witness.locks.is_watched = true;
        witness.note_locks();
    });
}

fn contends(name: &str) -> bool {
    let markers = ["lock-", "__READ__", "__WRIT__"];
    let number = |length| {
        let at = name.len().checked_sub(length)?;
        let (head, number) = name.split_at_checked(at)?;
        let is_one = number.parse::<i32>().is_ok() && !number.starts_with('+');
        (is_one && markers.iter().any(|marker| head.ends_with(marker))).then_some(())
    };
    [10, 11].into_iter().find_map(number).is_some()
}

fn is_permit(name: &str) -> bool {
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
