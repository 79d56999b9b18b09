//! What a queueing call creates: nodes in the directory, or the directory with a node in it.
//!
//! A node that was created in one transaction with its directory is alone, and needs no list. What
//! that rests on: the transaction is carried out only if the directory does not exist, and one that
//! does not exist has no nodes. Nobody can break this. A node that takes the place of the one that
//! the previous thread released is alone for the same reason: the transaction deletes the old node
//! and the directory, and creates both anew.

use zookeeper::{Acl, Batch, ErrorKind, Names, Op, OpResult, Pending};

use super::Waiter;
use crate::inner::{
    Claim, Failure, Replaceable, is_outcome_unknown, last_created, replace_with_directory, settle,
    with_levels,
};
use crate::path::LockPath;
use crate::recipe::attempt::{Attempt, Create, Stop};
use crate::shortcuts;
use crate::sys;

/// Where missing nodes are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With the directory, which is likely to be missing.
    Make,
    /// In the directory, which is likely to exist.
    Inside,
    /// Both in one write, after one of them failed: other clients make and remove the directory. No
    /// more than one succeeds.
    Both,
}

impl Waiter<'_> {
    /// Creates the missing nodes, and the directory if need be. Returns a list that is no older.
    pub(super) fn create_missing(&mut self) -> Result<Names, Stop> {
        if let Some(replaceable) = self.replaceable.take()
            && let Some(list) = self.replace(replaceable)?
        {
            return self.sort_out(list);
        }
        let Attempt { inner, claim, until, .. } = self.attempt;
        let (requests, directory) = (&inner.requests, &claim.facts.directory);
        let may_make = self.recipe.under().is_none() && !requests.directories.has(directory);
        let mut way = if may_make { Way::Make } else { Way::Inside };
        let mut levels = vec![directory.clone()];
        loop {
            let created = match way {
                Way::Make => self.make(&levels)?,
                Way::Inside => match self.recipe.under() {
                    Some((above, _)) => {
                        let send =
                            |claim: &Claim, acl: &[Acl], batch: &mut Batch<'_>, create: &Create| {
                                send_under(claim, acl, batch, above, create)
                            };
                        self.create_by(None, send, last_created)?
                    }
                    None => self.create_by(None, send_create, |created| created)?,
                },
                // What may be refused shares no transaction.
                Way::Both => self.create_by(Some(&levels), send_create_alone, |(path, stat)| {
                    (path, stat.czxid)
                })?,
            };
            let failure = match created {
                Ok(list) if !self.is_missing() => return self.sort_out(list),
                Ok(_) => {
                    sys::reached("more nodes follow the one that made their directory");
                    way = Way::Inside;
                    continue;
                }
                Err(failure) => failure,
            };
            let is_missing = failure.is(ErrorKind::NoNode);
            let exists = failure.is(ErrorKind::NodeExists);
            match way {
                // A server that wants other credentials ends the session.
                _ if failure.is_outcome_unknown() || failure.is(ErrorKind::AuthFailed) => {
                    return Err(failure.into());
                }
                Way::Inside if is_missing => {
                    if let Some((_, error)) = self.recipe.under() {
                        sys::reached("a read is not created because its write is gone");
                        return Err(error.into());
                    }
                    sys::reached("a directory that was known is missing");
                    requests.directories.note_missing(directory);
                }
                Way::Make | Way::Both if is_missing || exists && levels.len() > 1 => {
                    levels = requests.missing_levels(directory, until)?;
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

    /// Creates these directories with a node in the last one. Returns a list that shows it.
    fn make(&mut self, levels: &[LockPath]) -> Result<Result<Names, Failure>, Stop> {
        let claim = self.attempt.claim;
        let acl = self.attempt.requests().acl();
        let create = self.create()?;
        let make =
            |batch: &mut Batch<'_>, create: &Create| send_make(claim, acl, batch, levels, create);
        let (create, made) = self.attempt.ask_create(create, make)?;
        Ok(match self.made(create, made) {
            None if shortcuts::are_on() => Ok(self.own_names()),
            None => Ok(self.list()?),
            Some(failure) => Err(failure),
        })
    }

    /// Creates the missing nodes in the directory, and lists it. With `levels`, also creates these
    /// with a node in the last one, in case that the directory is missing.
    fn create_by<T: Send + 'static>(
        &mut self,
        levels: Option<&[LockPath]>,
        send: impl Fn(&Claim, &[Acl], &mut Batch<'_>, &Create) -> Pending<T>,
        czxid_of: fn(T) -> (String, i64),
    ) -> Result<Result<Names, Failure>, Stop> {
        let Attempt { inner, claim, .. } = self.attempt;
        let acl = inner.requests.acl();
        let missing = self.recipe.count() - self.attempt.own.len();
        let count = missing + levels.iter().len();
        let (mode, name) = (self.recipe.create_mode(), || self.recipe.name());
        let creates = self.attempt.creates(count, mode, name)?;
        let watcher = self.list_watcher().cloned();
        let ask = |batch: &mut Batch<'_>, creates: &Vec<Create>| {
            let (inside, with) = creates.split_at(missing);
            let created: Vec<_> =
                inside.iter().map(|create| send(claim, acl, batch, create)).collect();
            let make =
                |(levels, create): (_, &Create)| send_make(claim, acl, batch, levels, create);
            let made = levels.zip(with.first()).map(make);
            ((created, made), batch.get_children(claim.facts.directory.as_str(), watcher.as_ref()))
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
        let names = listed.map(|(names, stat)| {
            inner.requests.directories.note_listed(&claim.facts.directory, stat.czxid, &names);
            names
        });
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
        let Attempt { inner, claim, .. } = self.attempt;
        let acl = inner.requests.acl();
        let replace = |batch: &mut Batch<'_>, create: &Create| {
            let path = claim.facts.directory.child(&create.name);
            replace_with_directory(batch, acl, claim, (&replaceable.path(), &path, create.mode))
        };
        match self.attempt.ask_create(create, replace) {
            Ok((create, Ok(results))) => {
                sys::reached("a node takes the place of another in one transaction");
                settle(&inner.holds, replaceable, Ok(()));
                self.made(create, Ok(results)).map_or(Ok(()), Err)?;
                Ok(Some(self.own_names()))
            }
            Ok((create, Err(error))) if is_outcome_unknown(&error) => {
                sys::reached("a transaction that replaces a node has no answer");
                settle(&inner.holds, replaceable, Err(error.clone()));
                self.made(create, Err(error)).map_or(Ok(None), |failure| Err(failure.into()))
            }
            Ok((create, refused)) => {
                sys::reached("a transaction that replaces a node is refused");
                drop(self.made(create, refused));
                Ok(None)
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
        self.attempt.own.iter().map(|node| &node.name).collect()
    }

    // ---- answers

    /// Takes the answer to a transaction that created the directory and a node in it. Returns why
    /// they were not made.
    fn made(&mut self, create: Create, made: zookeeper::Result<Vec<OpResult>>) -> Option<Failure> {
        let failure = self.attempt.created(create, made.map(last_created));
        if failure.is_none()
            && let Some(node) = self.attempt.own.last_mut()
        {
            let Attempt { inner, claim, .. } = self.attempt;
            sys::reached("a directory is made with its node");
            inner.requests.directories.note_made(&claim.facts.directory, node.czxid);
            node.takes_directory = true;
        }
        failure
    }
}

/// Creates a node of the claim in its directory.
fn send_create(
    claim: &Claim,
    acl: &[Acl],
    batch: &mut Batch<'_>,
    create: &Create,
) -> Pending<(String, i64)> {
    let path = claim.facts.directory.child(&create.name);
    batch.shared_create(&path, claim.identity.as_bytes(), acl, create.mode)
}

/// Like [`send_create`], if this node of the directory exists.
fn send_under(
    claim: &Claim,
    acl: &[Acl],
    batch: &mut Batch<'_>,
    above: &str,
    create: &Create,
) -> Pending<Vec<OpResult>> {
    let (above, path) =
        (claim.facts.directory.child(above), claim.facts.directory.child(&create.name));
    let create = Op::Create(&path, claim.identity.as_bytes(), acl, create.mode);
    batch.shared_multi(&[Op::Check(&above, None), create])
}

/// Like [`send_create`], with a transaction of its own.
fn send_create_alone(
    claim: &Claim,
    acl: &[Acl],
    batch: &mut Batch<'_>,
    create: &Create,
) -> Pending<(String, zookeeper::Stat)> {
    let path = claim.facts.directory.child(&create.name);
    batch.create(&path, claim.identity.as_bytes(), acl, create.mode)
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
    batch.shared_multi(&with_levels(acl, levels, (&path, claim.identity.as_bytes(), create.mode)))
}
