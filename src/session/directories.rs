//! The directories of locks. They are containers, which exist as long as their locks are in use. If
//! the directory is missing, it is created in one transaction with the first node, and it is
//! deleted together with the last node. If an empty directory is left over, the server removes it
//! after some time.
//!
//! A directory is deleted only in the transaction that deletes one of our nodes in it. The servers
//! refuse the transaction if the directory has other nodes, or if its data were set. Therefore, the
//! nodes and data of other clients are never deleted. For each directory, the client stores which
//! transaction created it, and whether that transaction was its own. It does not delete directories
//! that another client created, or that have contained nodes of other programs, because some
//! programs ensure only once that their directory exists. The server removes such containers: by
//! default, it checks once a minute whether they are empty.

use std::collections::HashMap;

use zookeeper::{Acl, CreateMode, Names, Op, Stat};

use crate::base::names;
use crate::base::path::LockPath;
use crate::base::sys::Mutex;

/// The version of data that have not been set since the node was created.
const NEW: i32 = 0;

/// The maximum number of directories that a client stores. If there are more, the client clears the
/// table, which only costs additional requests.
const MOST: usize = 8192;

/// A directory that exists, according to the answers that this client has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The transaction that created it.
    pub(super) czxid: i64,
    /// Whether this client created it, and therefore may delete it.
    is_ours: bool,
    /// Whether it stays even if it is ours: it has contained nodes of other programs, or it has
    /// data.
    pub(super) stays: bool,
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
    pub(crate) is_readable: bool,
}

impl Directory {
    /// Returns whether this client created it and may delete it.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours && !self.stays
    }
}

/// The directories of locks that this client has stored.
#[derive(Debug, Default)]
pub(crate) struct Directories(Mutex<HashMap<LockPath, Directory>>);

impl Directories {
    /// Returns the directory if it exists.
    pub(crate) fn get(&self, directory: &LockPath) -> Option<Directory> {
        self.0.lock().get(directory).copied()
    }

    /// Notes a change of the directory.
    pub(crate) fn change(&self, directory: &LockPath, change: impl Fn(&mut Directory)) {
        self.0.lock().get_mut(directory).into_iter().for_each(change);
    }

    /// Notes that this client has created the directory.
    pub(crate) fn note_made(&self, directory: &LockPath, czxid: i64) {
        self.note(directory, Directory { czxid, is_ours: true, stays: false, is_readable: false });
    }

    /// Notes the result of a list: which transaction created the directory, and which nodes are in
    /// it. Returns the names of the nodes.
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

    /// Adds new facts about a directory to the stored ones. Several threads may receive such facts
    /// at the same moment, and in any order.
    fn note(&self, directory: &LockPath, one: Directory) {
        let mut all = self.0.lock();
        match all.get_mut(directory) {
            // `one` describes an earlier directory at this path.
            Some(known) if known.czxid > one.czxid => {}
            Some(known) if known.czxid == one.czxid => {
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

/// Returns the operations that create these directories.
pub(crate) fn creations<'a>(acl: &'a [Acl], levels: &'a [LockPath]) -> Vec<Op<'a>> {
    let create = |level: &'a LockPath| Op::Create(level.as_str(), b"", acl, CreateMode::Container);
    levels.iter().map(create).collect()
}

/// Returns the operations that delete a node and its directory. The servers refuse a transaction
/// with them if the directory has other nodes, or if its data were set.
pub(crate) fn deletions<'a>(directory: &'a LockPath, node: &'a str) -> [Op<'a>; 2] {
    [Op::Delete(node, None), Op::Delete(directory.as_str(), Some(NEW))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ours(directories: &Directories, path: &LockPath) -> bool {
        directories.get(path).is_some_and(|known| known.is_ours())
    }

    fn path(number: usize) -> LockPath {
        LockPath::parse(&format!("/orders/{number}")).unwrap()
    }

    #[test]
    fn later_directory_is_not_taken_for_the_one_that_we_made() {
        let (directories, path) = (Directories::default(), path(1));
        let empty = |czxid| (Names::default(), Stat { czxid, ..Stat::default() });
        directories.note_made(&path, 7);
        directories.listed(&path, empty(5));
        assert!(is_ours(&directories, &path), "the list is of an earlier one");
        // The list arrives before the deletion has been answered.
        let known = directories.note_missing(&path);
        directories.listed(&path, empty(9));
        directories.put_back(&path, known);
        assert!(directories.get(&path).is_some() && !is_ours(&directories, &path));
    }

    #[test]
    fn directory_is_ours_although_a_list_showed_it_first() {
        let (directories, path) = (Directories::default(), path(1));
        directories.listed(&path, (Names::default(), Stat { czxid: 7, ..Stat::default() }));
        assert!(!is_ours(&directories, &path));
        directories.note_made(&path, 7);
        assert!(is_ours(&directories, &path));
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
        assert!(!is_ours(&directories, &path), "it is put back behind a list");
        directories.note_made(&path, 7);
        assert!(!is_ours(&directories, &path), "the answer to its create comes behind a list");
        directories.note_made(&path, 8);
        let names = ["foreign"].into_iter().collect();
        directories.listed(&path, (names, Stat { czxid: 8, ..Stat::default() }));
        assert!(!is_ours(&directories, &path), "a list comes behind the answer to its create");
    }

    #[test]
    fn client_forgets_directories_rather_than_grow() {
        let directories = Directories::default();
        for number in 0..=MOST {
            directories.note_made(&path(number), 1);
        }
        assert!(is_ours(&directories, &path(MOST)) && directories.get(&path(0)).is_none());
    }
}
