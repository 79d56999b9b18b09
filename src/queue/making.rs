//! What a queueing call creates: nodes in the directory, or the directory with a node in it.
//!
//! A node that was created in one transaction with its directory is alone, and needs no list. What
//! that rests on: the transaction is carried out only if the directory does not exist, and one that
//! does not exist has no nodes. Nobody can break this. A node that takes the place of the one that
//! the previous thread released is alone for the same reason: the transaction deletes the old node
//! and the directory, and creates both anew.

use zookeeper::{Batch, ErrorKind, Names, Op, OpResult, Pending, Watcher};

use super::attempt::{Attempt, Create, Stop};
use super::rule::Recipe;
use crate::base::path::LockPath;
use crate::base::shortcuts;
use crate::base::sys;
use crate::session::{
    Failure, Replaceable, is_outcome_unknown, last_created, replace_with_directory, settle,
    with_directories,
};

/// Creates the missing nodes of a call, and the directory if need be. A node of ours takes the place
/// of `replaceable`. Returns a list that is no older, with this watcher if it is watched.
pub(super) fn create_missing(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
    replaceable: Option<Replaceable>,
) -> Result<Names, Stop> {
    if let Some(replaceable) = replaceable
        && let Some(list) = replace(attempt, recipe, replaceable)?
    {
        return Ok(list);
    }
    let (directory, requests, under) =
        (&attempt.facts.directory, attempt.requests(), recipe.under());
    // The directory is made with a node if it is likely to be missing.
    let mut makes = under.is_none() && !requests.directories.has(directory);
    let (mut levels, mut refused) = (vec![directory.clone()], None);
    loop {
        let created = match makes {
            true => make(attempt, recipe, &levels).map(|()| own_names(attempt)),
            false => create_inside(attempt, recipe, watcher),
        };
        let failure = match created {
            Ok(_) if attempt.nodes.len() < recipe.count() => {
                sys::reached("more nodes follow the one that made their directory");
                makes = false;
                continue;
            }
            Ok(_) if makes && !shortcuts::are_on() => return attempt.list(watcher),
            Ok(list) => return Ok(list),
            Err(Stop::Failed(failure @ Failure::Refused(_))) => failure,
            Err(over) => return Err(over),
        };
        let has_no_directory = failure.is(ErrorKind::NoNode);
        let exists = failure.is(ErrorKind::NodeExists);
        match makes {
            // A server that wants other credentials ends the session.
            _ if failure.is_outcome_unknown() || failure.is(ErrorKind::AuthFailed) => {
                return Err(failure.into());
            }
            true if has_no_directory || exists && levels.len() > 1 => {
                levels = requests.missing_directories(directory, attempt.until)?;
                sys::reached_if(levels.len() > 1, "levels above a directory are missing");
                makes = !levels.is_empty();
            }
            true => {
                sys::reached("a directory cannot be made with its node");
                // It may exist all the same: servers check the permission to make it first.
                refused = (!exists).then_some(failure);
                makes = false;
            }
            false if has_no_directory => {
                if let Some((_, error)) = under {
                    sys::reached("a read is not created because its write is gone");
                    return Err(error.into());
                }
                if let Some(refused) = refused {
                    return Err(refused.into());
                }
                sys::reached("a directory that was known is missing");
                requests.directories.note_missing(directory);
                (levels, makes) = (vec![directory.clone()], true);
            }
            false => return Err(failure.into()),
        }
    }
}

/// Creates these directories with a node in the last one.
fn make(attempt: &mut Attempt<'_>, recipe: &Recipe<'_>, levels: &[LockPath]) -> Result<(), Stop> {
    let (directory, acl) = (&attempt.facts.directory, attempt.requests().acl());
    let (create, data) = (new_create(attempt, recipe)?, attempt.identity.clone());
    let make = |batch: &mut Batch<'_>, create: &Create| {
        let node = (&*directory.child(&create.name), data.as_bytes(), create.mode);
        batch.shared_multi(&with_directories(acl, levels, node))
    };
    let (create, made) = attempt.ask_create(create, make)?;
    take_made(attempt, create, made).map_or(Ok(()), |failure| Err(failure.into()))
}

/// Creates the missing nodes in the directory, and lists it.
fn create_inside(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
) -> Result<Names, Stop> {
    let (acl, data) = (attempt.requests().acl(), attempt.identity.clone());
    match recipe.under() {
        Some((above, _)) => {
            let above = attempt.facts.directory.child(above);
            let send = |batch: &mut Batch<'_>, path: &str, create: &Create| {
                let create = Op::Create(path, data.as_bytes(), acl, create.mode);
                batch.shared_multi(&[Op::Check(&above, None), create])
            };
            create_by(attempt, recipe, watcher, send, last_created)
        }
        None => {
            let send = |batch: &mut Batch<'_>, path: &str, create: &Create| {
                batch.shared_create(path, data.as_bytes(), acl, create.mode)
            };
            create_by(attempt, recipe, watcher, send, |created| created)
        }
    }
}

fn create_by<T: Send + 'static>(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
    send: impl Fn(&mut Batch<'_>, &str, &Create) -> Pending<T>,
    czxid_of: fn(T) -> (String, i64),
) -> Result<Names, Stop> {
    let directory = &attempt.facts.directory;
    let missing = recipe.count().saturating_sub(attempt.nodes.len());
    let creates = attempt.creates(missing, recipe.create_mode(), || recipe.name())?;
    let ask = |batch: &mut Batch<'_>, creates: &Vec<Create>| {
        let mut send = |create: &Create| send(batch, &directory.child(&create.name), create);
        let created: Vec<_> = creates.iter().map(&mut send).collect();
        (created, batch.get_children(directory.as_str(), watcher))
    };
    let (creates, created, listed) = attempt.ask_creates(creates, ask)?;
    // All were answered before the list.
    let mut failure = None;
    for (created, create) in created.into_iter().zip(creates) {
        failure = attempt.created(create, created.wait().map(czxid_of)).or(failure);
    }
    let directories = &attempt.requests().directories;
    let names = listed.map(|listed| directories.listed(directory, listed));
    failure.map_or(Ok(()), Err)?;
    Ok(names?)
}

/// Takes the place of the node that the previous thread left. Returns `None` if there was nothing to
/// replace.
fn replace(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    replaceable: Replaceable,
) -> Result<Option<Names>, Stop> {
    if replaceable.session() != attempt.place.session {
        sys::reached("what a thread has left is of another session");
        return Ok(None);
    }
    let (directory, acl) = (&attempt.facts.directory, attempt.requests().acl());
    let (create, data) = (new_create(attempt, recipe)?, attempt.identity.clone());
    let replace = |batch: &mut Batch<'_>, create: &Create| {
        let node = (&*directory.child(&create.name), data.as_bytes(), create.mode);
        replace_with_directory(batch, acl, directory, &replaceable.path(), node)
    };
    let holds = &attempt.inner.holds;
    match attempt.ask_create(create, replace) {
        Ok((create, Err(refused))) if !is_outcome_unknown(&refused) => {
            sys::reached("a transaction that replaces a node is refused");
            drop(take_made(attempt, create, Err(refused)));
            Ok(None)
        }
        Ok((create, replaced)) => {
            match replaced {
                Ok(_) => sys::reached("a node takes the place of another in one transaction"),
                Err(_) => sys::reached("a transaction that replaces a node has no answer"),
            }
            settle(holds, replaceable, replaced.as_ref().map(drop).map_err(Clone::clone));
            take_made(attempt, create, replaced).map_or(Ok(()), Err)?;
            Ok(Some(own_names(attempt)))
        }
        Err(stop) => {
            sys::reached("a call is ended while it replaces a node");
            settle(holds, replaceable, Err(ErrorKind::ConnectionLoss.into()));
            Err(stop)
        }
    }
}

fn new_create(attempt: &Attempt<'_>, recipe: &Recipe<'_>) -> Result<Create, Stop> {
    attempt.create(recipe.create_mode(), || recipe.name())
}

fn own_names(attempt: &Attempt<'_>) -> Names {
    attempt.nodes.iter().map(|node| &node.name).collect()
}

/// Takes the answer to a transaction that created the directory and a node in it. Returns why they
/// were not made.
fn take_made(
    attempt: &mut Attempt<'_>,
    create: Create,
    made: zookeeper::Result<Vec<OpResult>>,
) -> Option<Failure> {
    let failure = attempt.created(create, made.map(last_created));
    if failure.is_none()
        && let Some(node) = attempt.nodes.last_mut()
    {
        sys::reached("a directory is made with its node");
        attempt.inner.requests.directories.note_made(&attempt.facts.directory, node.czxid);
        node.takes_directory = true;
    }
    failure
}
