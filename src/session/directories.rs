//! The directories of locks: containers, which exist as long as the lock is in use. A node is created
//! in one transaction with its directory, where that is missing, and the last node takes the
//! directory along. The server removes what stays, some time after it is empty.
//!
//! A directory is deleted only in the transaction that deletes a node of ours in it. The servers
//! refuse it if the directory has other nodes, or if its data were set. So nothing of any other
//! client is ever deleted. The client keeps the transaction that created each directory, and whether
//! it was its own. One that another client created stays, and so does one in which nodes of other
//! programs were seen: some programs make sure of their directory only once. These are left to the
//! server, which removes a container when it finds it empty, once a minute by default.

use std::collections::HashMap;

use zookeeper::{Acl, Batch, CreateMode, Names, Op, OpResult, Pending, Stat};

use crate::base::names;
use crate::base::path::LockPath;
use crate::base::shortcuts;
use crate::base::sys::{self, Mutex};

/// The version of data that nobody has set since the node was created.
const NEW: i32 = 0;

/// The most directories that a client knows. If there are more, it begins anew: that costs requests,
/// and nothing else.
const MOST: usize = 8192;

/// A directory that exists, as far as this client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The transaction that created it.
    czxid: i64,
    /// Whether this client created it, and so may delete it.
    is_ours: bool,
    /// Whether it stays all the same: nodes of other programs were seen in it, or it has data.
    stays: bool,
    /// Whether this client has read a node of another one in it. It may well read the others, so it
    /// need not ask before it waits for one.
    ///
    /// What the conclusion rests on, and who could break it: *all nodes of a directory may be read*,
    /// because clients that share a lock need READ on each other's nodes. A client can break this by
    /// taking READ of its node from this one. Then the server sends no event of it, and a waiter only
    /// looks (`Requests::next_look`). From such a look on, the next call that watches a node there
    /// reads it first.
    is_readable: bool,
}

/// The directories of locks that this client knows.
#[derive(Debug, Default)]
pub(crate) struct Directories(Mutex<HashMap<LockPath, Directory>>);

impl Directories {
    /// Returns whether the directory exists.
    pub(crate) fn has(&self, directory: &LockPath) -> bool {
        self.0.lock().contains_key(directory)
    }

    /// Returns whether this client created the directory that exists, and may delete it.
    pub(crate) fn is_ours(&self, directory: &LockPath) -> bool {
        self.0.lock().get(directory).is_some_and(|known| known.is_ours && !known.stays)
    }

    /// Returns whether the directory that exists is not the one in which this node was created.
    pub(super) fn is_later(&self, directory: &LockPath, node: i64) -> bool {
        self.0.lock().get(directory).is_some_and(|known| known.czxid > node)
    }

    /// Returns whether the nodes in it may be read.
    pub(crate) fn is_readable(&self, directory: &LockPath) -> bool {
        let is_readable = |known: &Directory| known.is_readable;
        shortcuts::are_on() && self.0.lock().get(directory).is_some_and(is_readable)
    }

    /// Notes whether a node in it was read.
    pub(crate) fn note_readable(&self, directory: &LockPath, is_readable: bool) {
        let mut all = self.0.lock();
        all.get_mut(directory).into_iter().for_each(|known| known.is_readable = is_readable);
    }

    /// Notes that this client has created it.
    pub(crate) fn note_made(&self, directory: &LockPath, czxid: i64) {
        self.note(directory, Directory { czxid, is_ours: true, stays: false, is_readable: false });
    }

    /// Notes that it stays.
    pub(super) fn note_stays(&self, directory: &LockPath) {
        self.0.lock().get_mut(directory).into_iter().for_each(|known| known.stays = true);
    }

    /// Notes what a list has shown: which directory there is, and these nodes in it. Returns their
    /// names.
    pub(crate) fn listed(&self, directory: &LockPath, (names, stat): (Names, Stat)) -> Names {
        let stays = names.iter().any(|name| names::id_of(name).is_none());
        let czxid = stat.czxid;
        self.note(directory, Directory { czxid, is_ours: false, stays, is_readable: false });
        names
    }

    /// Notes that it is missing, or about to be deleted. Returns what was known.
    pub(crate) fn note_missing(&self, directory: &LockPath) -> Option<Directory> {
        self.0.lock().remove(directory)
    }

    /// Notes that it was not deleted. This was known before; another one may have been made since.
    pub(super) fn put_back(&self, directory: &LockPath, known: Option<Directory>) {
        known.into_iter().for_each(|known| self.note(directory, known));
    }

    /// Adds what is known of a directory to what was known before. Several threads may learn of it at
    /// the same moment, and in any order.
    fn note(&self, directory: &LockPath, one: Directory) {
        let mut all = self.0.lock();
        match all.get_mut(directory) {
            // This is of an earlier directory.
            Some(known) if known.czxid > one.czxid => {}
            Some(known) if known.czxid == one.czxid => {
                let stays = known.is_ours && one.stays && !known.stays;
                sys::reached_if(stays, "a directory stays for nodes of other programs");
                known.is_ours |= one.is_ours;
                known.stays |= one.stays;
                known.is_readable |= one.is_readable;
            }
            known => {
                if known.is_none() && all.len() >= MOST {
                    all.clear();
                }
                all.insert(directory.clone(), one);
            }
        }
    }

    /// Forgets all: the servers may have lost their data.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Returns the writes that create these directories, and a node in the last one.
pub(crate) fn with_directories<'a>(
    acl: &'a [Acl],
    levels: &'a [LockPath],
    (path, data, mode): (&'a str, &'a [u8], CreateMode),
) -> Vec<Op<'a>> {
    let level = |level: &'a LockPath| Op::Create(level.as_str(), b"", acl, CreateMode::Container);
    let node = Op::Create(path, data, acl, mode);
    levels.iter().map(level).chain([node]).collect()
}

/// Returns the path and the czxid of the node that a transaction created last; no path if it created
/// none.
pub(crate) fn last_created(results: Vec<OpResult>) -> (String, i64) {
    match results.into_iter().next_back() {
        Some(OpResult::Created { path, czxid }) => (path, czxid),
        _ => (String::new(), 0),
    }
}

/// Replaces a node of ours by another one, and its directory by another one, in one transaction. The
/// servers refuse it if the directory has other nodes, or if its data were set.
pub(crate) fn replace_with_directory(
    batch: &mut Batch<'_>,
    acl: &[Acl],
    directory: &LockPath,
    old: &str,
    (new, data, mode): (&str, &[u8], CreateMode),
) -> Pending<Vec<OpResult>> {
    let directory = directory.as_str();
    batch.shared_multi(&[
        Op::Delete(old, None),
        Op::Delete(directory, Some(NEW)),
        Op::Create(directory, b"", acl, CreateMode::Container),
        Op::Create(new, data, acl, mode),
    ])
}

/// Deletes a node and its directory, in one transaction. The servers refuse it if the directory has
/// other nodes, or if its data were set.
pub(super) fn delete_with_directory(
    batch: &mut Batch<'_>,
    directory: &LockPath,
    node: &str,
) -> Pending<Vec<OpResult>> {
    batch.shared_multi(&[Op::Delete(node, None), Op::Delete(directory.as_str(), Some(NEW))])
}

/// Returns whether [`delete_with_directory`] failed at the directory.
pub(super) fn is_directory_refused(error: &zookeeper::Error) -> bool {
    error.failed_op() == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: usize) -> LockPath {
        LockPath::parse(&format!("/orders/{number}")).unwrap()
    }

    #[test]
    fn later_directory_is_not_taken_for_the_one_that_we_made() {
        let (directories, path) = (Directories::default(), path(1));
        let empty = |czxid| (Names::default(), Stat { czxid, ..Stat::default() });
        directories.note_made(&path, 7);
        directories.listed(&path, empty(5));
        assert!(directories.is_ours(&path), "the list is of an earlier one");
        // A list comes while a deletion is under way.
        let known = directories.note_missing(&path);
        directories.listed(&path, empty(9));
        directories.put_back(&path, known);
        assert!(directories.has(&path) && !directories.is_ours(&path));
    }

    #[test]
    fn directory_stays_whatever_is_noted_of_it_at_the_same_moment() {
        let (directories, path) = (Directories::default(), path(1));
        let seen =
            |name: &str| ([name].into_iter().collect(), Stat { czxid: 7, ..Stat::default() });
        directories.note_made(&path, 7);
        let known = directories.note_missing(&path);
        directories.listed(&path, seen("foreign"));
        directories.put_back(&path, known);
        assert!(!directories.is_ours(&path), "it is put back behind a list");
        directories.note_made(&path, 7);
        assert!(!directories.is_ours(&path), "the answer to its create comes behind a list");
    }

    #[test]
    fn client_forgets_directories_rather_than_grow() {
        let directories = Directories::default();
        for number in 0..=MOST {
            directories.note_made(&path(number), 1);
        }
        assert!(directories.is_ours(&path(MOST)) && !directories.has(&path(0)));
    }
}
