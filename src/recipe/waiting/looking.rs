//! What a queueing call finds on the servers: its own nodes, those of others, and those of its
//! creates without an answer.

use zookeeper::{ErrorKind, Names, Watcher};

use super::Waiter;
use crate::names::{self, Standing};
use crate::recipe::attempt::{Attempt, Stop};
use crate::sys;

impl Waiter<'_> {
    // ---- looking

    pub(super) fn look(&mut self) -> Result<Names, Stop> {
        // The list shows everything that was reported until now.
        if let Some(ears) = &self.ears {
            let _ = ears.wake.try_recv();
        }
        let list = self.list()?;
        self.sort_out(list)
    }

    pub(super) fn list(&mut self) -> Result<Names, Stop> {
        let Attempt { inner, claim, until, .. } = self.attempt;
        let (requests, directories) = (&inner.requests, &inner.requests.directories);
        let (session, directory) =
            (Some(self.attempt.place.session), claim.facts.directory.as_str());
        let watcher = self.list_watcher();
        let listed =
            requests.ask_one(session, until, |batch| batch.get_children(directory, watcher));
        match listed {
            Ok((names, stat)) => {
                directories.note_listed(&claim.facts.directory, stat.czxid, &names);
                Ok(names)
            }
            Err(failure) if failure.is(ErrorKind::NoNode) => {
                directories.note_missing(&claim.facts.directory);
                Ok(Names::default())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Returns the watcher of a list that is watched.
    pub(super) fn list_watcher(&mut self) -> Option<&Watcher> {
        self.recipe.watches_list().then(|| &self.ears().watcher)
    }

    /// Compares our nodes with a list. Nodes that are missing were deleted by somebody. Nodes of
    /// unanswered creates may be there. Of more nodes than are needed the lowest stay.
    pub(super) fn sort_out(&mut self, list: Names) -> Result<Names, Stop> {
        self.attempt.keep_own(|node| list.contains(&node.name));
        for name in &list {
            let Some(index) = self.attempt.find_lost(|id| names::carries(name, id)) else {
                continue;
            };
            if let Some(stat) = self.attempt.stat(name)? {
                sys::reached("a create without an answer is found in a list");
                self.attempt.take_found(index, name, stat.czxid);
            }
        }
        self.attempt.own.sort_by_key(|node| (names::number(&node.name), node.czxid));
        self.attempt.give_up_rest(self.recipe.count());
        Ok(list)
    }

    /// Asks the recipe where our nodes stand, and the server when nodes were created if that
    /// matters.
    pub(super) fn standing(&mut self, list: &Names) -> Result<Standing, Stop> {
        let mut children = names::children(list);
        loop {
            let standing = self.recipe.standing(&children, &self.attempt.own)?;
            let Standing::NeedsCzxid(names) = &standing else {
                return Ok(standing);
            };
            for node in &self.attempt.own {
                self.czxids.entry(node.name.clone()).or_insert(node.czxid);
            }
            let unknown = names.iter().find(|name| !self.czxids.contains_key(*name));
            if let Some(name) = unknown {
                sys::reached("a number tells nothing and the server is asked");
                match self.attempt.stat(name)? {
                    Some(stat) => drop(self.czxids.insert(name.clone(), stat.czxid)),
                    None => children.retain(|child| child.name != *name),
                }
            }
            for child in &mut children {
                child.czxid = self.czxids.get(child.name).copied();
            }
        }
    }
}
