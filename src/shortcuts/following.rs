//! Directories that are known to be empty, unless a node was created since. The next number shows
//! that.
//!
//! A directory gives each created node the next number, whatever is created; deletions do not
//! count. When a node of ours was alone and has been deleted, every other node has come since. If
//! our next node has the very next number, no other node has come. So it is alone, and needs no
//! list.
//!
//! A directory that was removed and created again counts from zero, and may have reached the same
//! number with other nodes in it. So it is watched. The client delivers events and answers in the
//! order in which the server sent them, also over a resume, where watches are set again before any
//! request. So a removal is known before the answer to any later create. The end of a session ends
//! its watches and is delivered like an event. The watch is set while our node keeps the directory
//! from being removed. If that node existed when we deleted it afterwards, the watched directory is
//! the one that counts. What was noted before the watch does not count, and neither does a note
//! that comes too late.
//!
//! What the conclusion rests on, and who could break it:
//! - *The directory had no node beside ours*: a list behind its create, or its number. No client
//!   can break this, because later nodes raise the count.
//! - *The number of a node is the count of creates before it*: a [`Number`] is made only of the
//!   answer to a sequential create, less the requested name. No client can break this, because
//!   names that users choose are never parsed.
//! - *It is the same directory*: the watch. Servers send no event of a node to clients that may not
//!   read it by then. So a client can break this by taking READ of an empty directory from this
//!   client, which takes ADMIN on it. The directory then has to be removed, by a client or as an
//!   empty container by the server, and created again with a node of the same number. Clients that
//!   only use the lock cannot do it, whatever their ACLs.

use std::collections::HashMap;

use zookeeper::Watcher;

use crate::names::Number;
use crate::path::LockPath;
use crate::sys::{self, Mutex};

/// The most directories that a client knows and watches.
const MOST: usize = 1024;

/// Directories in which a node of ours was alone.
#[derive(Debug, Default)]
pub(crate) struct Following(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    directories: HashMap<LockPath, Directory>,
    /// Rises with each use of one.
    uses: u64,
}

#[derive(Debug)]
struct Directory {
    /// Tells it from others of the same path, and from itself before it was watched.
    made: u64,
    used: u64,
    /// The number of our last node, which has been deleted. It proves nothing unless the directory
    /// is watched.
    number: Option<Number>,
    /// That number followed the one before, so the next one may follow, too.
    follows: bool,
    /// The watcher of the directory's end.
    watcher: Option<Watcher>,
    /// Whether the watcher watches this directory, and not an earlier one.
    is_watched: bool,
}

/// A node that is alone in its directory and is about to be deleted.
#[derive(Debug, Clone)]
pub(crate) struct Departing {
    pub(crate) directory: LockPath,
    pub(crate) made: u64,
    number: Number,
    follows: bool,
    /// The directory has to be watched before the node is deleted.
    pub(crate) watches: bool,
}

impl Directory {
    fn is_next(&self, number: Number) -> bool {
        self.number.and_then(Number::next) == Some(number)
    }
}

impl Table {
    fn get(&mut self, directory: &LockPath) -> Option<&mut Directory> {
        self.uses += 1;
        let known = self.directories.get_mut(directory)?;
        known.used = self.uses;
        Some(known)
    }

    /// Returns the entry of a directory. A new one takes the place of the one that was not used for
    /// the longest time.
    fn get_or_add(&mut self, directory: &LockPath) -> Option<&mut Directory> {
        if self.get(directory).is_none() {
            if self.directories.len() >= MOST {
                let oldest = self.directories.iter().min_by_key(|(_, known)| known.used);
                let oldest = oldest.map(|(directory, _)| directory.clone());
                oldest.and_then(|oldest| self.directories.remove(&oldest));
            }
            let (made, used) = (self.uses, self.uses);
            let new = Directory {
                made,
                used,
                number: None,
                follows: false,
                watcher: None,
                is_watched: false,
            };
            self.directories.insert(directory.clone(), new);
        }
        self.directories.get_mut(directory)
    }

    /// Returns the entry of a directory, if it is still the one that was made then.
    fn made(&mut self, directory: &LockPath, made: u64) -> Option<&mut Directory> {
        self.directories.get_mut(directory).filter(|known| known.made == made)
    }
}

impl Following {
    /// Returns whether the number of a node that is created now is likely to prove that the node is
    /// [alone](Following::proves_alone).
    pub(crate) fn is_likely(&self, directory: &LockPath) -> bool {
        let mut table = self.0.lock();
        let known = table.get(directory);
        known.is_some_and(|known| known.follows && known.is_watched)
    }

    /// Returns whether the number of a node, whose create has been answered, proves that the node
    /// is alone.
    pub(crate) fn proves_alone(&self, directory: &LockPath, number: Number) -> bool {
        let mut table = self.0.lock();
        let known = table.get(directory).filter(|known| known.is_watched);
        known.is_some_and(|known| {
            sys::reached_if(|| known.is_next(number), "the very next number grants");
            sys::reached_if(|| !known.is_next(number), "a number tells that somebody has come");
            known.is_next(number)
        })
    }

    /// Prepares the deletion of the node with this number, which is alone. The directory is watched
    /// from the second node on that followed another. Then its entry begins anew, because nobody
    /// knows how long the last note was under way.
    pub(crate) fn departing(&self, directory: &LockPath, number: Number) -> Option<Departing> {
        let mut table = self.0.lock();
        let known = table.get_or_add(directory)?;
        let follows = known.is_next(number);
        let watches = follows && !known.is_watched;
        if watches {
            sys::reached("a directory is watched for its vacancy");
            table.directories.remove(directory);
        }
        let made = table.get_or_add(directory)?.made;
        Some(Departing { directory: directory.clone(), made, number, follows, watches })
    }

    /// Notes that the directory is watched, which is still to be deleted from.
    pub(crate) fn mark_watched(&self, directory: &LockPath, made: u64, watcher: Watcher) {
        if let Some(known) = self.0.lock().made(directory, made) {
            known.watcher = Some(watcher);
        }
    }

    /// Notes that the server has deleted the node.
    pub(crate) fn mark_departed(&self, departing: &Departing) {
        if let Some(known) = self.0.lock().made(&departing.directory, departing.made) {
            sys::reached_if(
                || known.number.is_some_and(|known| known != departing.number),
                "a vacancy goes on with the next number",
            );
            known.is_watched |= departing.watches && known.watcher.is_some();
            known.follows = departing.follows;
            known.number = Some(departing.number);
        }
    }

    /// Notes that the directory has ended.
    pub(crate) fn forget(&self, directory: &LockPath, made: u64) {
        let mut table = self.0.lock();
        if table.made(directory, made).is_some() {
            table.directories.remove(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_directories_go_first() {
        let following = Following::default();
        let path = |number: usize| LockPath::parse(&format!("/of-many/{number}")).unwrap();
        let add = |number| following.0.lock().get_or_add(&path(number)).unwrap().made;
        let first = add(0);
        for number in 1..2 * MOST {
            add(number);
            let mut table = following.0.lock();
            assert!(table.directories.len() <= MOST, "{}", table.directories.len());
            // Used again and again.
            assert!(table.made(&path(0), first).is_some() && table.get(&path(0)).is_some());
        }
        let is_known = |number: &usize| following.0.lock().directories.contains_key(&path(*number));
        let left: Vec<_> = (0..2 * MOST).filter(is_known).collect();
        println!("{} are known: 0, {} ..", left.len(), left[1]);
        assert_eq!((left.len(), left[0], left[1]), (MOST, 0, MOST + 1));
        // An entry that is added again is another one.
        following.forget(&path(0), first);
        assert_ne!(add(0), first);
        following.forget(&path(0), first);
        assert!(following.0.lock().get(&path(0)).is_some());
    }
}
