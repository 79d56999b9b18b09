//! New directories: a node is alone if its directory was created with it.
//!
//! Some clients use each path once, for example with a lock for each order. Where a client knows
//! nothing of a directory, it sends two requests together: a create of a node in the directory, and
//! a transaction that creates the directory and a node in it. At most one of them is carried out.
//! After a directory that was new, the next one probably is new too. Then the client sends the
//! transaction alone, and that may share a transaction with other writes. It sends both if this is
//! refused.
//!
//! What the conclusion rests on: a transaction that creates the directory and a node in it is carried
//! out only if the directory does not exist. A directory that does not exist has no nodes. Nobody can
//! break this.
//!
//! Such a directory is deleted with its node, in one transaction. While the node exists, the directory
//! is the one that was made with it. The transaction is refused if the directory has other nodes, or if
//! its data were set. So nothing of anybody else's is ever deleted. After one that was not refused,
//! the next one may share a transaction with other writes.
//!
//! A client that comes back to a path keeps the directory from then on, because it gets there with
//! fewer requests. So the table remembers which directories the client has used. It holds hashes of
//! paths, since a wrong answer costs requests and nothing else.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use super::are_on;
use crate::path::LockPath;
use crate::sys::Mutex;

/// The most directories in each half of the table.
const MOST: usize = 8192;

/// What a client knows of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: the client may never have used it.
    Nothing,
    /// The client has used it, and it was missing since.
    Missing,
    /// It exists, or did so lately.
    Exists,
}

/// The directories that a client has used.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    table: Mutex<Table>,
    /// Whether the last directory of which nothing was known was new.
    was_new: AtomicBool,
    /// Whether the last directory that was to go with its node went.
    went: AtomicBool,
}

/// When the young half is full, it takes the place of the old half. So a directory that is used again
/// and again stays, and no entry has to be searched for.
#[derive(Debug, Default)]
struct Table {
    young: HashMap<u64, Known>,
    old: HashMap<u64, Known>,
}

fn key(directory: &LockPath) -> u64 {
    let mut hasher = DefaultHasher::new();
    directory.hash(&mut hasher);
    hasher.finish()
}

impl Table {
    fn get(&self, key: u64) -> Known {
        let known = self.young.get(&key).or_else(|| self.old.get(&key));
        known.copied().unwrap_or(Known::Nothing)
    }

    fn set(&mut self, key: u64, known: Known) {
        if self.young.len() >= MOST && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }
}

impl Fresh {
    pub(crate) fn known(&self, directory: &LockPath) -> Known {
        match are_on() {
            true => self.table.lock().get(key(directory)),
            false => Known::Exists,
        }
    }

    /// Notes that an answer has shown the directory.
    pub(crate) fn note_exists(&self, directory: &LockPath) {
        self.table.lock().set(key(directory), Known::Exists);
    }

    /// Notes that a directory was made, with a node that takes it along unless the path was used
    /// before.
    pub(crate) fn note_made(&self, directory: &LockPath) {
        self.note_new(true);
        let (key, mut table) = (key(directory), self.table.lock());
        let goes = table.get(key) == Known::Nothing;
        table.set(key, if goes { Known::Missing } else { Known::Exists });
    }

    /// Notes that an answer says that the directory is missing. Returns whether it was thought to
    /// exist.
    pub(crate) fn note_missing(&self, directory: &LockPath) -> bool {
        let (key, mut table) = (key(directory), self.table.lock());
        let is_news = table.get(key) == Known::Exists;
        if is_news {
            table.set(key, Known::Missing);
        }
        is_news
    }

    /// Returns whether a directory of which nothing is known is likely to be new.
    pub(crate) fn is_likely_new(&self) -> bool {
        self.was_new.load(Ordering::Relaxed)
    }

    /// Notes whether a directory of which nothing was known was new.
    pub(crate) fn note_new(&self, was_new: bool) {
        self.was_new.store(was_new, Ordering::Relaxed);
    }

    /// Returns whether a directory is likely to go with its node.
    pub(crate) fn is_likely_to_go(&self) -> bool {
        self.went.load(Ordering::Relaxed)
    }

    /// Notes whether a directory that was to go with its node went.
    pub(crate) fn note_went(&self, went: bool) {
        self.went.store(went, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: usize) -> LockPath {
        LockPath::parse(&format!("/orders/{number}")).unwrap()
    }

    #[test]
    fn directory_stays_from_the_second_use_on() {
        let (fresh, path) = (Fresh::default(), path(1));
        let mut seen = vec![fresh.known(&path)];
        for _ in 0..2 {
            fresh.note_made(&path);
            seen.push(fresh.known(&path));
        }
        assert!(fresh.note_missing(&path) && !fresh.note_missing(&path));
        seen.push(fresh.known(&path));
        fresh.note_exists(&path);
        seen.push(fresh.known(&path));
        println!("{seen:?}");
        let then = [Known::Nothing, Known::Missing, Known::Exists, Known::Missing, Known::Exists];
        assert_eq!(seen, if are_on() { then } else { [Known::Exists; 5] });
    }

    #[test]
    fn directories_that_are_used_stay_known_among_many_new_ones() {
        let fresh = Fresh::default();
        for number in 1..5 * MOST {
            fresh.note_exists(&path(0));
            fresh.note_made(&path(number));
            let table = fresh.table.lock();
            assert_eq!(table.get(key(&path(0))), Known::Exists, "after {number}");
            assert!(table.young.len() <= MOST && table.old.len() <= MOST);
        }
        let table = fresh.table.lock();
        assert_eq!(table.get(key(&path(1))), Known::Nothing);
        assert_eq!(table.get(key(&path(4 * MOST + 1))), Known::Missing);
    }
}
