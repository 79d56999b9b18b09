//! The directories of locks. They are containers, which exist as long as the lock is in use. If the
//! directory is missing, it is created in one transaction with the first node, and it is deleted
//! together with the last node. If an empty directory is left over, the server removes it after
//! some time.
//!
//! A directory is deleted only in the transaction that deletes one of our nodes in it. The servers
//! refuse the transaction if the directory has other nodes, or if its data were set. Therefore, the
//! nodes and data of other clients are never deleted. For each directory, the client stores which
//! transaction created it, and whether that was its own. It does not delete directories that
//! another client created, or that have contained nodes of other programs, because some programs
//! ensure only once that their directory exists. The server removes such containers: by default, it
//! checks once a minute whether they are empty.

use std::collections::HashMap;

use zookeeper::{Acl, Batch, CreateMode, Names, Op, OpResult, Pending, Stat};

use crate::base::names;
use crate::base::path::LockPath;
use crate::base::sys::{self, Mutex};

/// The version of data that have not been set since the node was created.
const NEW: i32 = 0;

/// The maximum number of directories that a client stores. If there are more, it clears the table,
/// which only costs additional requests.
const MOST: usize = 8192;

/// A directory that exists, according to the answers that this client has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The transaction that created it.
    czxid: i64,
    /// Whether this client created it, and therefore may delete it.
    is_ours: bool,
    /// Whether it stays even if it is ours: it has contained nodes of other programs, or it has
    /// data.
    stays: bool,
    /// Whether this client has read a node of another client in it. In that case, the client
    /// assumes that it may read the others as well, and does not read a node before it waits for
    /// that node.
    ///
    /// The assumption behind this conclusion, and who could break it: *all nodes of a directory may
    /// be read*, because clients that share a lock need READ on each other's nodes. Another client
    /// can break this by revoking this client's READ permission on its node. In that case, the
    /// server does not send events of that node, and a waiter only lists periodically
    /// (`Requests::next_look`). After such a list, the next call that watches a node in the
    /// directory reads it first.
    is_readable: bool,
}

/// The directories of locks that this client has stored.
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

    /// Returns whether the directory was created again after this node, and therefore is not the
    /// directory of the node.
    pub(super) fn is_later(&self, directory: &LockPath, node: i64) -> bool {
        self.0.lock().get(directory).is_some_and(|known| known.czxid > node)
    }

    /// Returns whether the nodes in it may be read.
    pub(crate) fn is_readable(&self, directory: &LockPath) -> bool {
        let is_readable = |known: &Directory| known.is_readable;
        sys::shortcuts() && self.0.lock().get(directory).is_some_and(is_readable)
    }

    /// Notes whether the nodes in it may be read.
    pub(crate) fn note_readable(&self, directory: &LockPath, is_readable: bool) {
        let mut all = self.0.lock();
        all.get_mut(directory).into_iter().for_each(|known| known.is_readable = is_readable);
    }

    /// Notes that this client has created the directory.
    pub(crate) fn note_made(&self, directory: &LockPath, czxid: i64) {
        self.note(directory, Directory { czxid, is_ours: true, stays: false, is_readable: false });
    }

    /// Notes that the directory stays.
    pub(super) fn note_stays(&self, directory: &LockPath) {
        self.0.lock().get_mut(directory).into_iter().for_each(|known| known.stays = true);
    }

    /// Notes the result of a list: which directory exists, and which nodes it contains. Returns the
    /// names of the nodes.
    pub(crate) fn listed(&self, directory: &LockPath, (names, stat): (Names, Stat)) -> Names {
        let stays = names.iter().any(|name| names::id_of(name).is_none());
        let czxid = stat.czxid;
        self.note(directory, Directory { czxid, is_ours: false, stays, is_readable: false });
        names
    }

    /// Notes that the directory is missing, or about to be deleted. Returns the entry that was
    /// stored.
    pub(crate) fn note_missing(&self, directory: &LockPath) -> Option<Directory> {
        self.0.lock().remove(directory)
    }

    /// Notes that the directory was not deleted. `known` is the earlier entry; the directory may
    /// have been created again since.
    pub(super) fn put_back(&self, directory: &LockPath, known: Option<Directory>) {
        known.into_iter().for_each(|known| self.note(directory, known));
    }

    /// Adds new facts about a directory to the stored ones. Several threads may receive facts about
    /// it at the same moment, and in any order.
    fn note(&self, directory: &LockPath, one: Directory) {
        let mut all = self.0.lock();
        match all.get_mut(directory) {
            // `one` describes an earlier directory.
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

    /// Forgets all directories, because the servers may have lost their data.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Returns the operations that create these directories, and a node in the last one.
pub(crate) fn with_directories<'a>(
    acl: &'a [Acl],
    levels: &'a [LockPath],
    (path, data, mode): (&'a str, &'a [u8], CreateMode),
) -> Vec<Op<'a>> {
    let level = |level: &'a LockPath| Op::Create(level.as_str(), b"", acl, CreateMode::Container);
    let node = Op::Create(path, data, acl, mode);
    levels.iter().map(level).chain([node]).collect()
}

/// Returns the path and the czxid of the node that the last operation of a transaction created. The
/// path is empty if that operation did not create a node.
pub(crate) fn last_created(results: Vec<OpResult>) -> (String, i64) {
    match results.into_iter().next_back() {
        Some(OpResult::Created { path, czxid }) => (path, czxid),
        _ => (String::new(), 0),
    }
}

/// Replaces one of our nodes and its directory with new ones, in one transaction. The servers
/// refuse it if the directory has other nodes, or if its data were set.
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
        // A list arrives while a deletion is not answered yet.
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
