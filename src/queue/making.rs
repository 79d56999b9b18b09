//! What a queueing call creates: nodes in the directory, or the directory with a node in it.
//!
//! A node that was created in one transaction with its directory is alone, and needs no list. What
//! that rests on: the transaction is carried out only if the directory does not exist, and one that
//! does not exist has no nodes. Nobody can break this. A node that takes the place of the one that
//! the previous thread released is alone for the same reason: the transaction deletes the old node
//! and the directory, and creates both anew.

use zookeeper::{Acl, Batch, ErrorKind, Names, Op, OpResult, Pending, Watcher};

use super::attempt::{Attempt, Create, Stop};
use super::rule::Recipe;
use crate::base::path::LockPath;
use crate::base::shortcuts;
use crate::base::sys;
use crate::session::{
    Claim, Failure, Replaceable, is_outcome_unknown, last_created, replace_with_directory, settle,
    with_directories,
};

/// Where missing nodes are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With the directory, which is likely to be missing.
    Make,
    /// In the directory, which is likely to exist.
    Inside,
    /// Both in one write, after one of them failed: other clients make and remove the directory. Both
    /// succeed only if somebody deletes the first node and the directory in between.
    Both,
}

/// The creates of a call.
pub(super) struct Making<'m, 'a> {
    pub(super) attempt: &'m mut Attempt<'a>,
    pub(super) recipe: &'m Recipe<'a>,
    /// That of the list, if it is watched.
    pub(super) watcher: Option<Watcher>,
}

impl<'a> Making<'_, 'a> {
    /// Creates the missing nodes, and the directory if need be. A node of ours takes the place of
    /// `replaceable`. Returns a list that is no older.
    pub(super) fn run(&mut self, replaceable: Option<Replaceable>) -> Result<Names, Stop> {
        if let Some(replaceable) = replaceable
            && let Some(list) = self.replace(replaceable)?
        {
            return Ok(list);
        }
        let (claim, acl) = self.claim();
        let requests = self.attempt.requests();
        let (directory, under) = (&claim.facts.directory, self.recipe.under());
        let may_make = under.is_none() && !requests.directories.has(directory);
        let mut way = if may_make { Way::Make } else { Way::Inside };
        let mut levels = vec![directory.clone()];
        loop {
            let created = match (way, &under) {
                (Way::Make, _) => self.make(&levels)?,
                (Way::Inside, Some((above, _))) => {
                    let above = directory.child(above);
                    let send = |batch: &mut Batch<'_>, (path, create): (&str, &Create)| {
                        let create = Op::Create(path, claim.identity.as_bytes(), acl, create.mode);
                        batch.shared_multi(&[Op::Check(&above, None), create])
                    };
                    self.create_by(None, send, last_created)?
                }
                (Way::Inside, None) => {
                    let send = |batch: &mut Batch<'_>, (path, create): (&str, &Create)| {
                        batch.shared_create(path, claim.identity.as_bytes(), acl, create.mode)
                    };
                    self.create_by(None, send, |created| created)?
                }
                // What may be refused shares no transaction.
                (Way::Both, _) => {
                    let send = |batch: &mut Batch<'_>, (path, create): (&str, &Create)| {
                        batch.create(path, claim.identity.as_bytes(), acl, create.mode)
                    };
                    self.create_by(Some(&levels), send, |(path, stat)| (path, stat.czxid))?
                }
            };
            let failure = match created {
                Ok(list) if self.nodes_missing() == 0 => return Ok(list),
                Ok(_) => {
                    sys::reached("more nodes follow the one that made their directory");
                    way = Way::Inside;
                    continue;
                }
                Err(failure) => failure,
            };
            let has_no_directory = failure.is(ErrorKind::NoNode);
            let exists = failure.is(ErrorKind::NodeExists);
            match way {
                // A server that wants other credentials ends the session.
                _ if failure.is_outcome_unknown() || failure.is(ErrorKind::AuthFailed) => {
                    return Err(failure.into());
                }
                Way::Inside if has_no_directory => {
                    if let Some((_, error)) = under {
                        sys::reached("a read is not created because its write is gone");
                        return Err(error.into());
                    }
                    sys::reached("a directory that was known is missing");
                    requests.directories.note_missing(directory);
                }
                Way::Make | Way::Both if has_no_directory || exists && levels.len() > 1 => {
                    levels = requests.missing_directories(directory, self.attempt.until)?;
                    sys::reached_if(|| levels.len() > 1, "levels above a directory are missing");
                    if levels.is_empty() {
                        levels.push(directory.clone());
                    }
                }
                Way::Make => sys::reached("a directory cannot be made with its node"),
                Way::Both if exists => sys::reached("a directory comes and goes"),
                Way::Inside | Way::Both => return Err(failure.into()),
            }
            way = Way::Both;
        }
    }

    /// Returns the claim, and the ACL of its nodes.
    fn claim(&self) -> (&'a Claim, &'a [Acl]) {
        (self.attempt.claim, self.attempt.requests().acl())
    }

    /// Returns how many nodes are missing. There may be one too many.
    fn nodes_missing(&self) -> usize {
        self.recipe.count().saturating_sub(self.attempt.nodes.len())
    }

    /// Creates these directories with a node in the last one. Returns a list that shows it.
    fn make(&mut self, levels: &[LockPath]) -> Result<Result<Names, Failure>, Stop> {
        let (claim, acl) = self.claim();
        let create = self.create()?;
        let make =
            |batch: &mut Batch<'_>, create: &Create| send_make(claim, acl, batch, levels, create);
        let (create, made) = self.attempt.ask_create(create, make)?;
        Ok(match self.made(create, made) {
            None if shortcuts::are_on() => Ok(self.own_names()),
            None => Ok(self.attempt.list(self.watcher.as_ref())?),
            Some(failure) => Err(failure),
        })
    }

    /// Creates the missing nodes in the directory, and lists it. With `levels`, also creates these
    /// with a node in the last one, in case that the directory is missing.
    fn create_by<T: Send + 'static>(
        &mut self,
        levels: Option<&[LockPath]>,
        send: impl Fn(&mut Batch<'_>, (&str, &Create)) -> Pending<T>,
        czxid_of: fn(T) -> (String, i64),
    ) -> Result<Result<Names, Failure>, Stop> {
        let (claim, acl) = self.claim();
        let (missing, directory) = (self.nodes_missing(), &claim.facts.directory);
        let (mode, name) = (self.recipe.create_mode(), || self.recipe.name());
        let creates = self.attempt.creates(missing + usize::from(levels.is_some()), mode, name)?;
        let watcher = self.watcher.as_ref();
        let ask = |batch: &mut Batch<'_>, creates: &Vec<Create>| {
            let (inside, with) = creates.split_at(missing);
            let mut send = |create: &Create| send(batch, (&directory.child(&create.name), create));
            let created: Vec<_> = inside.iter().map(&mut send).collect();
            let make =
                |(levels, create): (_, &Create)| send_make(claim, acl, batch, levels, create);
            let made = levels.zip(with.first()).map(make);
            ((created, made), batch.get_children(directory.as_str(), watcher))
        };
        let (creates, (created, made), listed) = self.attempt.ask_creates(creates, ask)?;
        let mut creates = creates.into_iter();
        // All were answered before the list.
        let mut failure = None;
        for (created, create) in created.into_iter().zip(creates.by_ref()) {
            failure = self.attempt.created(create, created.wait().map(czxid_of)).or(failure);
        }
        if let Some((made, create)) = made.zip(creates.next()) {
            let made = self.made(create, made.wait());
            // The directory was missing, so it depends on the request that makes it.
            if failure.as_ref().is_some_and(|failure| failure.is(ErrorKind::NoNode)) {
                failure = made;
            }
        }
        let directories = &self.attempt.requests().directories;
        let names = listed.map(|listed| directories.listed(directory, listed));
        Ok(match failure {
            Some(failure) => Err(failure),
            None => names.map_err(Failure::from),
        })
    }

    /// Takes the place of the node that the previous thread left. Returns `None` if there was nothing
    /// to replace.
    fn replace(&mut self, replaceable: Replaceable) -> Result<Option<Names>, Stop> {
        if replaceable.session() != self.attempt.place.session {
            sys::reached("what a thread has left is of another session");
            return Ok(None);
        }
        let create = self.create()?;
        let ((claim, acl), inner) = (self.claim(), self.attempt.inner);
        let replace = |batch: &mut Batch<'_>, create: &Create| {
            let path = claim.facts.directory.child(&create.name);
            replace_with_directory(batch, acl, claim, (&replaceable.path(), &path, create.mode))
        };
        match self.attempt.ask_create(create, replace) {
            Ok((create, Err(refused))) if !is_outcome_unknown(&refused) => {
                sys::reached("a transaction that replaces a node is refused");
                drop(self.made(create, Err(refused)));
                Ok(None)
            }
            Ok((create, replaced)) => {
                match replaced {
                    Ok(_) => sys::reached("a node takes the place of another in one transaction"),
                    Err(_) => sys::reached("a transaction that replaces a node has no answer"),
                }
                let deleted = replaced.as_ref().map(drop).map_err(Clone::clone);
                settle(&inner.holds, replaceable, deleted);
                self.made(create, replaced).map_or(Ok(()), Err)?;
                Ok(Some(self.own_names()))
            }
            Err(stop) => {
                sys::reached("a call is ended while it replaces a node");
                settle(&inner.holds, replaceable, Err(ErrorKind::ConnectionLoss.into()));
                Err(stop)
            }
        }
    }

    fn create(&self) -> Result<Create, Stop> {
        self.attempt.create(self.recipe.create_mode(), || self.recipe.name())
    }

    fn own_names(&self) -> Names {
        self.attempt.nodes.iter().map(|node| &node.name).collect()
    }

    /// Takes the answer to a transaction that created the directory and a node in it. Returns why
    /// they were not made.
    fn made(&mut self, create: Create, made: zookeeper::Result<Vec<OpResult>>) -> Option<Failure> {
        let failure = self.attempt.created(create, made.map(last_created));
        if failure.is_none()
            && let Some(node) = self.attempt.nodes.last_mut()
        {
            let Attempt { inner, claim, .. } = *self.attempt;
            sys::reached("a directory is made with its node");
            inner.requests.directories.note_made(&claim.facts.directory, node.czxid);
            node.takes_directory = true;
        }
        failure
    }
}

/// Creates these directories, with a node of the claim in the last one.
fn send_make(
    claim: &Claim,
    acl: &[Acl],
    batch: &mut Batch<'_>,
    levels: &[LockPath],
    create: &Create,
) -> Pending<Vec<OpResult>> {
    let path = claim.facts.directory.child(&create.name);
    batch.shared_multi(&with_directories(
        acl,
        levels,
        (&path, claim.identity.as_bytes(), create.mode),
    ))
}
