//! What a queueing call finds on the servers: its own nodes, those of others, and those of its
//! creates without an answer.

use zookeeper::{ErrorKind, Names, Watcher};

use super::Waiter;
use crate::inner::Unanswered;
use crate::names::{self, Standing};
use crate::recipe::attempt::{Stop, Want};
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
        let Want { inner, claim, until, .. } = self.attempt.want;
        let (requests, directories) = (&inner.requests, &inner.requests.directories);
        let (session, directory) = (Some(self.attempt.session_id), claim.facts.directory.as_str());
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
            let carried = |create: &Unanswered| names::carries(name, &create.id);
            let Some(at) = self.attempt.unanswered.iter().position(carried) else {
                continue;
            };
            if let Some(stat) = self.attempt.stat(name)? {
                sys::reached("a create without an answer is found in a list");
                let found = self.attempt.unanswered.swap_remove(at);
                self.add_own(name, found.charge, stat.czxid);
            }
        }
        let own = &mut self.attempt.own;
        own.sort_by_key(|node| (names::number(&node.name), node.czxid));
        let Want { inner, claim, .. } = self.attempt.want;
        for node in own.split_off(own.len().min(self.recipe.count())) {
            sys::reached("a call has one node too many");
            inner.deletions.delete(claim, self.attempt.session_id, &node);
        }
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
