//! Directories that are known to be vacant, unless somebody has come since: which the next number tells.
//!
//! A directory hands out its numbers one a create, whatever is made; deletions do not count. A node of ours
//! that was alone in it, and has been deleted, leaves nothing behind up to its number. If our next node there
//! has the very next number, nobody has come in between: it is alone, and no list is needed to know.
//!
//! A directory that was removed and made again begins anew, and may have come to the same number with others
//! in it. So it is watched. The client below tells events and answers in the order in which the server sent
//! them, also over a resume, where watches are set again before anything else is asked: a removal is known
//! before the answer to any create behind it. The watch is set while our node keeps the directory from being
//! removed, which makes it a watch on the directory that the number is of.

use std::collections::HashMap;
use std::sync::Weak;

use zookeeper::{Batch, WatchedEvent, Watcher};

use super::nodes::Nodes;
use super::shared::Session;
use crate::names;
use crate::path::LockPath;

/// So many directories are remembered, and watched, by a client.
const MOST: usize = 1024;

/// The directories of late, whether known to be vacant or not.
#[derive(Debug, Default)]
pub(super) struct Vacancies {
    directories: HashMap<LockPath, Vacancy>,
    /// Rises with each use of one, and is never the same of two that were made.
    uses: u64,
}

#[derive(Debug)]
struct Vacancy {
    session: i64,
    made: u64,
    used: u64,
    /// Nothing is left of what has this number or a lower one; that is sure where there is a watcher.
    number: Option<i32>,
    /// This number came right behind the one before: the next one may, too.
    follows: bool,
    /// Hears of the directory's end.
    watcher: Option<Watcher>,
}

/// A node that was alone in its directory is about to go.
#[derive(Debug, Clone)]
pub(super) struct Leaving {
    directory: LockPath,
    made: u64,
    number: i32,
    /// The directory shall be watched, while the node is still there.
    pub(super) watches: bool,
}

impl Vacancy {
    /// Would a node with this number be right behind what is gone?
    fn is_next(&self, number: i32) -> bool {
        self.number.is_some_and(|last| last + 1 == number)
    }
}

impl Vacancies {
    fn of(&mut self, directory: &LockPath, session: i64) -> Option<&mut Vacancy> {
        self.uses += 1;
        let vacancy = self.directories.get_mut(directory)?;
        vacancy.used = self.uses;
        (vacancy.session == session).then_some(vacancy)
    }

    /// The one that is there, or a new one, for which the one goes that was not used for the longest time.
    fn make(&mut self, directory: &LockPath, session: i64) -> Option<&mut Vacancy> {
        if self.of(directory, session).is_none() {
            if self.directories.len() >= MOST {
                let oldest = self.directories.iter().min_by_key(|(_, vacancy)| vacancy.used);
                let oldest = oldest.map(|(directory, _)| directory.clone());
                oldest.and_then(|oldest| self.directories.remove(&oldest));
            }
            let (made, used) = (self.uses, self.uses);
            let new = Vacancy { session, made, used, number: None, follows: false, watcher: None };
            self.directories.insert(directory.clone(), new);
        }
        self.directories.get_mut(directory)
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
    /// May a node that is made now be expected to be alone? Then its number tells whether it
    /// [is](Self::is_alone).
    pub(crate) fn is_vacant(&self, directory: &LockPath, session: i64) -> bool {
        let mut vacancies = self.vacancies.lock();
        let vacancy = vacancies.of(directory, session);
        vacancy.is_some_and(|vacancy| vacancy.follows && vacancy.watcher.is_some())
    }

    /// Is a node alone that was made in this session, and whose create has been answered?
    pub(crate) fn is_alone(&self, directory: &LockPath, session: i64, name: &str) -> bool {
        let mut vacancies = self.vacancies.lock();
        let vacancy = vacancies.of(directory, session).filter(|it| it.watcher.is_some());
        let number = names::number(name).filter(|&number| names::is_normal(number));
        vacancy.zip(number).is_some_and(|(vacancy, number)| vacancy.is_next(number))
    }

    /// To be told before a deletion is sent.
    pub(super) fn leaving(&self, nodes: &Nodes) -> Option<Leaving> {
        let [node] = &nodes.list[..] else { return None };
        let number = names::number(&node.name).filter(|&number| names::is_normal(number));
        let number = number.filter(|_| nodes.are_alone())?;
        let directory = nodes.claim.directory.clone();
        let mut vacancies = self.vacancies.lock();
        let vacancy = vacancies.make(&directory, nodes.lease.session_id)?;
        let watches = vacancy.watcher.is_none() && vacancy.is_next(number);
        Some(Leaving { made: vacancy.made, directory, number, watches })
    }

    /// Has the directory watched from now on. To be sent before the deletion.
    pub(super) fn watch_vacancy(&self, leaving: &Leaving, batch: &mut Batch<'_>) {
        let (made, directory) = (leaving.made, leaving.directory.clone());
        let (me, told) = (Weak::clone(&self.me), directory.clone());
        let watcher = Watcher::new(move |_: &WatchedEvent| {
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
            vacancy.follows = vacancy.is_next(leaving.number);
            vacancy.number = Some(leaving.number);
        }
    }
}
