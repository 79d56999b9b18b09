//! Directories that are known to be vacant, unless somebody has come since: which the next number tells.
//!
//! A directory hands out its numbers one a create, whatever is made; deletions do not count. When a node of
//! ours was alone in it and has been deleted, whatever is there has come since. If our next node there has
//! the very next number, nobody has: it is alone, and no list is needed to know.
//!
//! A directory that was removed and made again begins anew, and may have come to the same number with others
//! in it. So it is watched. The client below tells events and answers in the order in which the server sent
//! them, also over a resume, where watches are set again before anything else is asked: a removal is known
//! before the answer to any create behind it. The end of a session ends its watches, and is told like an
//! event. The watch is set while our node keeps the directory from being removed: so what the number is of is
//! what is watched, if that node was there for us to delete behind it. What was known before does not count, nor
//! does what is noted of it too late.
//!
//! What is taken for known here, what that rests on, and who could break it:
//! - *Nothing was there beside our node*: a list behind its create, or its number. Nobody could break it: what comes
//!   later raises the count.
//! - *The number of a node is the count of creates before it*: a [`Number`] is made of the answer to a sequential
//!   create alone, less the name that was asked for. Nobody could break it: names that users choose, such as those of
//!   single nodes, are never parsed.
//! - *It is the same directory*: the watch on it. Servers tell nothing of a node to those who may not read it by then.
//!   So somebody could break it who takes READ of the directory from this client, removes it, and makes it again with
//!   a node that has the same number. That takes ADMIN on the directory and DELETE above it: enough to delete the node
//!   of a holder, which nothing is proof against. Clients that only use the lock cannot do it, whatever their ACLs.

use std::collections::HashMap;
use std::sync::Weak;

use zookeeper::{Batch, WatchedEvent, Watcher};

use super::nodes::Nodes;
use super::shared::Session;
use crate::names::Number;
use crate::path::LockPath;
use crate::sys;

/// So many directories are known, and watched, by a client.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Vacancies {
    directories: HashMap<LockPath, Vacancy>,
    /// Rises with each use of one.
    uses: u64,
}

/// A directory in which a node of ours was alone.
#[derive(Debug)]
struct Vacancy {
    /// Tells it from others of the same path, and from itself before it was watched.
    made: u64,
    used: u64,
    /// That of our last node, which is gone. It proves nothing unless the directory is watched.
    number: Option<Number>,
    /// It came right behind the one before, so that the next one may, too.
    follows: bool,
    /// Hears of the directory's end.
    watcher: Option<Watcher>,
    /// It is the end of this directory that it hears of.
    is_watched: bool,
}

/// A node that is alone in its directory is about to be deleted.
#[derive(Debug, Clone)]
pub(super) struct Leaving {
    directory: LockPath,
    made: u64,
    number: Number,
    follows: bool,
    /// The directory is to be watched, while the node is still there.
    pub(super) watches: bool,
}

impl Vacancy {
    fn is_next(&self, number: Number) -> bool {
        self.number.and_then(Number::next) == Some(number)
    }
}

impl Vacancies {
    fn of(&mut self, directory: &LockPath) -> Option<&mut Vacancy> {
        self.uses += 1;
        let vacancy = self.directories.get_mut(directory)?;
        vacancy.used = self.uses;
        Some(vacancy)
    }

    /// The one that is there, or a new one, for which the one goes that was not used for the longest time.
    fn make(&mut self, directory: &LockPath) -> Option<&mut Vacancy> {
        if self.of(directory).is_none() {
            if self.directories.len() >= MOST {
                let oldest = self.directories.iter().min_by_key(|(_, vacancy)| vacancy.used);
                let oldest = oldest.map(|(directory, _)| directory.clone());
                oldest.and_then(|oldest| self.directories.remove(&oldest));
            }
            let (made, used) = (self.uses, self.uses);
            let new = Vacancy {
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

    /// What is to be noted when the node with this number has gone, which is there. From the second one on that
    /// came right behind another the directory is watched: then all begins anew, as nobody knows for how long the
    /// last note has been on its way.
    fn leave(&mut self, directory: LockPath, number: Number) -> Option<Leaving> {
        let vacancy = self.make(&directory)?;
        let follows = vacancy.is_next(number);
        let watches = follows && !vacancy.is_watched;
        if watches {
            sys::reached("a directory is watched for its vacancy");
            self.directories.remove(&directory);
        }
        let made = self.make(&directory)?.made;
        Some(Leaving { directory, made, number, follows, watches })
    }

    /// The one that was made then, if it is still there.
    fn made(&mut self, directory: &LockPath, made: u64) -> Option<&mut Vacancy> {
        self.directories.get_mut(directory).filter(|vacancy| vacancy.made == made)
    }

    fn forget(&mut self, directory: &LockPath, made: u64) {
        if self.made(directory, made).is_some() {
            self.directories.remove(directory);
        }
    }
}

impl Session {
    /// Is a node that is made now likely to be [alone](Self::is_alone)?
    pub(crate) fn is_vacant(&self, directory: &LockPath) -> bool {
        let mut vacancies = self.vacancies.lock();
        let vacancy = vacancies.of(directory);
        vacancy.is_some_and(|vacancy| vacancy.follows && vacancy.is_watched)
    }

    /// Returns whether the number of a node, whose create has been answered, proves that it is alone.
    pub(crate) fn is_alone(&self, directory: &LockPath, number: Number) -> bool {
        let mut vacancies = self.vacancies.lock();
        let vacancy = vacancies.of(directory).filter(|vacancy| vacancy.is_watched);
        vacancy.is_some_and(|vacancy| {
            sys::reached_if(|| vacancy.is_next(number), "the very next number grants");
            sys::reached_if(|| !vacancy.is_next(number), "a number tells that somebody has come");
            vacancy.is_next(number)
        })
    }

    /// To be told before a deletion is sent.
    pub(super) fn leaving(&self, nodes: &Nodes) -> Option<Leaving> {
        let number = nodes.alone()?;
        self.vacancies.lock().leave(nodes.claim.directory.clone(), number)
    }

    /// Has the directory watched from now on. To be sent before the deletion.
    pub(super) fn watch_vacancy(&self, leaving: &Leaving, batch: &mut Batch<'_>) {
        let (made, directory) = (leaving.made, leaving.directory.clone());
        let (me, told) = (Weak::clone(&self.me), directory.clone());
        let watcher = Watcher::new(move |_: &WatchedEvent| {
            sys::reached("a directory that was vacant has ended");
            me.upgrade().inspect(|session| session.vacancies.lock().forget(&told, made));
        });
        let me = Weak::clone(&self.me);
        let read = batch.get_data(leaving.directory.as_str(), Some(&watcher));
        read.on_done(move |read| {
            if let (Ok(_), Some(session)) = (read, me.upgrade())
                && let Some(vacancy) = session.vacancies.lock().made(&directory, made)
            {
                vacancy.watcher = Some(watcher);
            }
        });
    }

    /// To be told when the server has deleted it.
    pub(super) fn has_left(&self, leaving: &Leaving) {
        let mut vacancies = self.vacancies.lock();
        if let Some(vacancy) = vacancies.made(&leaving.directory, leaving.made) {
            sys::reached_if(
                || vacancy.number.is_some_and(|known| known != leaving.number),
                "a vacancy goes on with the next number",
            );
            vacancy.is_watched |= leaving.watches && vacancy.watcher.is_some();
            vacancy.follows = leaving.follows;
            vacancy.number = Some(leaving.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_directories_than_are_known_those_go_that_were_used_least_lately() {
        let mut vacancies = Vacancies::default();
        let path = |number: usize| LockPath::parse(&format!("/of-many/{number}")).unwrap();
        let first = vacancies.make(&path(0)).unwrap().made;
        for number in 1..2 * MOST {
            vacancies.make(&path(number)).unwrap();
            assert!(vacancies.directories.len() <= MOST, "{}", vacancies.directories.len());
            // Used again and again.
            assert!(vacancies.made(&path(0), first).is_some() && vacancies.of(&path(0)).is_some());
        }
        let known = |number: &usize| vacancies.directories.contains_key(&path(*number));
        let known: Vec<_> = (0..2 * MOST).filter(known).collect();
        println!("{} are known: 0, {} ..", known.len(), known[1]);
        assert_eq!((known.len(), known[0], known[1]), (MOST, 0, MOST + 1));
        // One that is made again is another one.
        vacancies.forget(&path(0), first);
        assert_ne!(vacancies.make(&path(0)).unwrap().made, first);
        vacancies.forget(&path(0), first);
        assert!(vacancies.of(&path(0)).is_some());
    }
}
