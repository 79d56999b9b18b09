//! Creates the nodes of a call that queues: nodes in the directory, or the directory with a node in
//! it.
//!
//! A node that was created in one transaction with its directory is alone, and does not need a
//! list. This is certain because the servers carry out the transaction only if the directory does
//! not exist, and a directory that does not exist is empty. Other clients cannot break this. A node
//! that replaces the node of the previous thread is alone for the same reason: the transaction
//! deletes the old node and the directory, and creates both again.

use zookeeper::{Acl, Batch, ErrorKind, Names, Op, OpResult, Pending, Watcher};

use super::attempt::{Attempt, Create, Stop};
use super::rule::Recipe;
use crate::base::path::LockPath;
use crate::base::sys;
use crate::session::{
    Failure, Replaceable, is_outcome_unknown, last_created, replace_with_directory, settle,
    with_directories,
};

/// Where missing nodes are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With the directory, which is likely to be missing.
    Make,
    /// In the directory, which is likely to exist.
    Inside,
    /// Both requests in one write, after one of them has failed: other clients create and remove
    /// the directory. Both succeed only if another client deletes the first node and the directory
    /// in between.
    Both,
}

/// Creates the missing nodes of a call, and the directory if necessary. If there is a `replaceable`
/// node, the new node replaces it. Returns a list that is at least as new as the nodes. If there is
/// a `watcher`, it watches the list.
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
    let is_missing = under.is_none() && !requests.directories.has(directory);
    let mut way = if is_missing { Way::Make } else { Way::Inside };
    let mut levels = vec![directory.clone()];
    loop {
        let created = match way {
            Way::Make => make(attempt, recipe, &levels).map(|()| own_names(attempt)),
            Way::Inside => create_inside(attempt, recipe, watcher, None),
            Way::Both => create_inside(attempt, recipe, watcher, Some(&levels)),
        };
        let failure = match created {
            Ok(_) if attempt.nodes.len() < recipe.count() => {
                sys::reached("more nodes follow the one that made their directory");
                way = Way::Inside;
                continue;
            }
            Ok(_) if way == Way::Make && !sys::shortcuts() => return attempt.list(watcher),
            Ok(list) => return Ok(list),
            Err(Stop::Failed(failure @ Failure::Refused(_))) => failure,
            Err(over) => return Err(over),
        };
        let has_no_directory = failure.is(ErrorKind::NoNode);
        let exists = failure.is(ErrorKind::NodeExists);
        match way {
            // If a server requires other credentials, it ends the session.
            _ if failure.is_outcome_unknown() || failure.is(ErrorKind::AuthFailed) => {
                return Err(failure.into());
            }
            Way::Make | Way::Both if has_no_directory || exists && levels.len() > 1 => {
                levels = requests.missing_directories(directory, attempt.until)?;
                sys::reached_if(levels.len() > 1, "levels above a directory are missing");
                if levels.is_empty() {
                    levels.push(directory.clone());
                }
                way = Way::Both;
            }
            Way::Make => {
                sys::reached("a directory cannot be made with its node");
                way = Way::Both;
            }
            Way::Inside if has_no_directory => {
                if let Some((_, error)) = under {
                    sys::reached("a read is not created because its write is gone");
                    return Err(error.into());
                }
                sys::reached("a directory that was known is missing");
                requests.directories.note_missing(directory);
                way = Way::Both;
            }
            Way::Both if exists => sys::reached("a directory comes and goes"),
            Way::Inside | Way::Both => return Err(failure.into()),
        }
    }
}

/// Creates these directories, and a node in the last one.
fn make(attempt: &mut Attempt<'_>, recipe: &Recipe<'_>, levels: &[LockPath]) -> Result<(), Stop> {
    let (facts, acl) = (attempt.facts, attempt.requests().acl());
    let (create, data) = (new_create(attempt, recipe)?, attempt.identity.clone());
    let make = |batch: &mut Batch<'_>, create: &Create| {
        send_make(batch, acl, levels, &facts.directory, &data, create)
    };
    let (create, made) = attempt.ask_create(create, make)?;
    take_made(attempt, create, made).map_or(Ok(()), |failure| Err(failure.into()))
}

fn send_make(
    batch: &mut Batch<'_>,
    acl: &[Acl],
    levels: &[LockPath],
    directory: &LockPath,
    data: &str,
    create: &Create,
) -> Pending<Vec<OpResult>> {
    let node = (&*directory.child(&create.name), data.as_bytes(), create.mode);
    batch.shared_multi(&with_directories(acl, levels, node))
}

/// Creates the missing nodes in the directory, and lists it. With `levels`, also creates these
/// directories and a node in the last one, in case the directory is missing.
fn create_inside(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
    levels: Option<&[LockPath]>,
) -> Result<Names, Stop> {
    let (acl, data) = (attempt.requests().acl(), attempt.identity.clone());
    match recipe.under() {
        Some((above, _)) => {
            let above = attempt.facts.directory.child(above);
            let send = |batch: &mut Batch<'_>, path: &str, create: &Create| {
                let create = Op::Create(path, data.as_bytes(), acl, create.mode);
                batch.shared_multi(&[Op::Check(&above, None), create])
            };
            create_by(attempt, recipe, watcher, levels, send, last_created)
        }
        // A request that may be refused does not share a transaction with other requests.
        None if levels.is_some() => {
            let send = |batch: &mut Batch<'_>, path: &str, create: &Create| {
                batch.create(path, data.as_bytes(), acl, create.mode)
            };
            create_by(attempt, recipe, watcher, levels, send, |(path, stat)| (path, stat.czxid))
        }
        None => {
            let send = |batch: &mut Batch<'_>, path: &str, create: &Create| {
                batch.shared_create(path, data.as_bytes(), acl, create.mode)
            };
            create_by(attempt, recipe, watcher, levels, send, |created| created)
        }
    }
}

fn create_by<T: Send + 'static>(
    attempt: &mut Attempt<'_>,
    recipe: &Recipe<'_>,
    watcher: Option<&Watcher>,
    levels: Option<&[LockPath]>,
    send: impl Fn(&mut Batch<'_>, &str, &Create) -> Pending<T>,
    czxid_of: fn(T) -> (String, i64),
) -> Result<Names, Stop> {
    let (directory, acl) = (&attempt.facts.directory, attempt.requests().acl());
    let (missing, data) =
        (recipe.count().saturating_sub(attempt.nodes.len()), attempt.identity.clone());
    let count = missing + usize::from(levels.is_some());
    let creates = attempt.creates(count, recipe.create_mode(), || recipe.name())?;
    let ask = |batch: &mut Batch<'_>, creates: &Vec<Create>| {
        let (inside, with) = creates.split_at(missing);
        let mut send = |create: &Create| send(batch, &directory.child(&create.name), create);
        let created: Vec<_> = inside.iter().map(&mut send).collect();
        let made = levels.zip(with.first());
        let made =
            made.map(|(levels, create)| send_make(batch, acl, levels, directory, &data, create));
        ((created, made), batch.get_children(directory.as_str(), watcher))
    };
    let (creates, (created, made), listed) = attempt.ask_creates(creates, ask)?;
    let mut creates = creates.into_iter();
    // All of them were answered before the list.
    let mut failure = None;
    for (created, create) in created.into_iter().zip(creates.by_ref()) {
        failure = attempt.created(create, created.wait().map(czxid_of)).or(failure);
    }
    if let Some((made, create)) = made.zip(creates.next()) {
        let made = take_made(attempt, create, made.wait());
        // The directory was missing; therefore, the request that creates it decides.
        if failure.as_ref().is_some_and(|failure| failure.is(ErrorKind::NoNode)) {
            failure = made;
        }
    }
    let directories = &attempt.requests().directories;
    let names = listed.map(|listed| directories.listed(directory, listed));
    failure.map_or(Ok(()), Err)?;
    Ok(names?)
}

/// Replaces the node that the previous thread released. Returns `None` if the node could not be
/// replaced and the call has to create its node in another way.
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

/// Handles the answer to a transaction that creates the directory and a node in it. Returns the
/// failure if they were not created.
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
